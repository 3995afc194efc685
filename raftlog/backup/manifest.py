"""Format of a backup: its objects, their names and their bytes. Pure.

    commits/{number:020d}.json      changes of the backup, numbered without gaps; created exclusively, never changed
    snapshots/{number:020d}.json    the state after that commit, so that fewer commits are read; can be missing
    data/{topic id}/{partition}/{first:020d}-{end:020d}-{run}.batches     stored batches, one after another

A run commits `claimed` before it writes, `copied` one or more times with new files, and `completed` with the topics,
log bounds and committed offsets that a restoration uses; of compacted partitions that were saved again it removes the
older files. A `pruned` commit removes files below the log start offsets.
"""

import re
from typing import Final, Literal, TypeVar

import msgspec
from crc32c import crc32c
from msgspec import Struct

from raftlog.backup.errors import BackupDamaged, BackupTooNew

FORMAT: Final = 1
COMMITS: Final = "commits"
SNAPSHOTS: Final = "snapshots"
DATA: Final = "data"
RUNS: Final = "runs"
_DATA_PATH: Final = re.compile(r"data/[0-9a-f-]{36}/\d{1,10}/\d{20}-\d{20}-[0-9a-f]{8}\.batches")
_NAME: Final = re.compile(r"(\d{20})\.json")
T = TypeVar("T", bound="Sealed")

Kind = Literal["claimed", "copied", "completed", "pruned"]


class Sealed(Struct, frozen=True, kw_only=True):
    """Base of objects that are stored with a checksum. `format` rises when older programs cannot read the object."""

    format: int = FORMAT


class SavedFile(Struct, frozen=True):
    """File with the batches of a partition from offset `first` on; the backup covers all offsets below `end`.

    `last_offset` and `last_crc` are base offset and CRC of the file's last batch."""

    path: str
    topic_id: str
    partition: int
    first: int
    end: int
    size: int
    crc: int
    batches: int
    records: int
    last_offset: int
    last_crc: int


class UnsavedRange(Struct, frozen=True):
    """Offsets that the cluster deleted before they were saved, `first ≤ offset < end`."""

    topic_id: str
    partition: int
    first: int
    end: int


class SavedTopic(Struct, frozen=True):
    """Topic with its own settings. `defaults`: values in effect of other settings that govern retention and cleanup."""

    topic_id: str
    name: str
    partitions: int
    replication_factor: int
    settings: dict[str, str]
    defaults: dict[str, str] = {}

    def value_of(self, setting: str) -> str:
        """Return the value of a setting that was in effect; empty if it is not known."""
        return self.settings.get(setting, self.defaults.get(setting, ""))


class SavedPartition(Struct, frozen=True):
    """Bounds of a partition's log: `log_start ≤ offset < end`."""

    topic_id: str
    partition: int
    log_start: int
    end: int


class SavedOffset(Struct, frozen=True):
    """Committed offset of a consumer group."""

    group: str
    topic: str
    partition: int
    offset: int
    metadata: str


class BackupCommit(Sealed, frozen=True, kw_only=True):
    """Commit: one change of a backup. Topics, partitions and offsets are empty unless `kind` is `completed`.

    `begun_ms`: begin of the run; 0 in commits of releases without the field. `incomplete`: partitions, as text, that
    could not be read up to their ends; their rows have the offsets that are saved."""

    number: int
    backup_id: str
    cluster_id: str
    run: str
    kind: Kind
    time_ms: int
    begun_ms: int = 0
    added: list[SavedFile] = []
    removed: list[str] = []
    lost: list[UnsavedRange] = []
    topics: list[SavedTopic] = []
    partitions: list[SavedPartition] = []
    offsets: list[SavedOffset] = []
    incomplete: list[str] = []


class Snapshot(Sealed, frozen=True, kw_only=True):
    """State of a backup after the commit `last`; `completed` is the newest completed commit."""

    last: BackupCommit
    completed: BackupCommit | None
    files: list[SavedFile]
    lost: list[UnsavedRange]


def is_data_path(path: str) -> bool:
    """Return whether a run of a backup gives such a name to a data file."""
    return _DATA_PATH.fullmatch(path) is not None


def name_of(number: int) -> str:
    """Return the name of a commit or snapshot."""
    return f"{number:020d}.json"


def number_of(name: str) -> int | None:
    """Return the number in the name of a commit or snapshot; None for other names."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else None


def data_path(topic_id: str, partition: int, first: int, end: int, run: str) -> str:
    """Return the path of a run's data file with the records `first` ≤ offset < `end`.

    The name contains the run, because an ended run can still write its own files."""
    return f"{DATA}/{topic_id}/{partition}/{first:020d}-{end:020d}-{run[:8]}.batches"


def seal(value: Sealed) -> bytes:
    """Return the bytes of an object, followed by their checksum."""
    body = msgspec.json.encode(value)
    return body + f"\n{crc32c(body):08x}\n".encode()


def unseal(kind: type[T], path: str, data: bytes) -> T:
    """Return the object in sealed bytes. Raises `BackupDamaged` for damage, and `BackupTooNew`."""
    body, _, checksum = data.rstrip(b"\n").rpartition(b"\n")
    if checksum != f"{crc32c(body):08x}".encode():
        raise BackupDamaged(f"{path} is damaged: its checksum does not match")
    try:
        found = msgspec.json.decode(body, type=Sealed)
        if found.format > FORMAT:
            raise BackupTooNew(
                f"{path} has format {found.format}, and this release reads up to {FORMAT}: use a newer raftlog"
            )
        value = msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise BackupDamaged(f"{path} cannot be read: {error}") from None
    for file in value.files if isinstance(value, Snapshot) else value.added if isinstance(value, BackupCommit) else ():
        if not is_data_path(file.path) or not 0 <= file.first < file.end:
            raise BackupDamaged(f"{path} names a file that no backup has: {file.path!r}")
    return value
