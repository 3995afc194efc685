"""Finder of logs in directories: data directories of brokers, directories copied from them, lone logs.

    a data directory             every replica that exists by its journal, with the state in the journal
    any other directory          the logs in it and below; each ends after its last undamaged entry

A data directory whose journal was not copied counts as another directory. If a path leads into a data directory, only
replicas below the path are found. Nothing is changed, and brokers may run. Called by `plan` and by the verification, on
the driver."""

import glob
import os
import warnings
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from raftlog.errors import InvalidArgument, JournalDamaged, StorageError
from raftlog.runtime.journal.fold import Fold, FoldedGroup
from raftlog.runtime.log.offline import OfflineReplica, list_offline_replicas
from raftlog.runtime.log.replica_directory import CONTROLLER, read_group_from_rolls
from raftlog.runtime.node_identity import JOURNAL, NodeIdentity, read_identity
from raftlog.storage.directory import CHECKPOINT, INTERNAL, internal_path, list_ancestors
from raftlog.storage.disk import Disk
from raftlog.storage.real_disk import RealDisk
from raftlog.storage.recovery import segment_bases

CONTROLLER_TOPIC: Final = "__controller"
"""Topic name of the controller's log, whose directory is not named by a topic."""
INTERNAL_PREFIX: Final = "__"
_WORKERS: Final = "workers"
_DEPTH_MAX: Final = 8
"""Levels of directories that are searched for logs."""
_TRIES: Final = 3
"""Maximum number of attempts to read a journal, which can look damaged while a running process writes it."""


class DataDirectory(NamedTuple):
    """Data directory of a replica, with the journal that describes it."""

    data_dir: str
    disk_uuid: UUID


class FoundReplica(NamedTuple):
    """Directory of a log; without an `owner` it is a lone log, or a replica copied without its journal.

    `group_id` is None when none of its segments begins with a readable roll."""

    topic: str
    partition: int
    path: str
    group_id: UUID | None
    owner: DataDirectory | None = None
    folded: FoldedGroup | None = None
    fold: Fold | None = None
    """`folded`: state of this Raft group in the owner's journal; `fold`: state of all its groups. Never pickled."""

    @property
    def is_internal(self) -> bool:
        return self.topic.startswith(INTERNAL_PREFIX)

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition} in {self.path}"


def real_disk() -> Disk:
    """Return the file system with blocking reads."""
    return RealDisk(lambda job: job(), lambda job: job())


def find_replicas(paths: Sequence[str]) -> list[FoundReplica]:
    """Return all logs in and below these paths or globs, including the controller and internal topics.

    Raises `InvalidArgument` for a path without a log, `JournalDamaged`, `FormatError` and `OSError`."""
    disk = real_disk()
    found: dict[str, FoundReplica] = {}
    for path in _expand(disk, paths):
        here = list(_replicas_at(disk, path))
        if not here:
            raise InvalidArgument(
                f"{path} holds no log: name a broker's data directory, a directory TOPIC/PARTITION of one, or that of "
                "a raftlog.Log"
            )
        found |= {replica.path: replica for replica in here}
    return list(found.values())


def _expand(disk: Disk, paths: Sequence[str]) -> list[str]:
    """Return the directories that paths and globs name. Raises `InvalidArgument` for one without any."""
    found = []
    for path in paths:
        absolute = os.path.abspath(path)
        names = sorted(glob.glob(absolute)) if glob.has_magic(path) and not disk.exists(absolute) else [absolute]
        directories = [name for name in names if disk.is_directory(name)]
        if not directories:
            raise InvalidArgument(_no_replicas_text(path))
        found += directories
    return found


def _no_replicas_text(path: str) -> str:
    """Return the error text for a path that names no directory."""
    if "://" in path or path.startswith("file:"):
        return f"{path} is a URI: segment files are read where the operating system has them, so name a plain path"
    return f"nothing matches {path}" if glob.has_magic(path) else f"{path} is no directory"


def _replicas_at(disk: Disk, path: str) -> Iterator[FoundReplica]:
    """Yield the logs in and below a directory, with the journal of the data directory around it."""
    for above in (path, *list_ancestors(path)):
        identity = read_identity(disk, above)
        if identity is not None:
            known = [each for each in _replicas_in_data_dir(disk, above, identity) if _is_below(each.path, path)]
            yield from known or _lone_logs_below(disk, path, _DEPTH_MAX)
            return
    yield from _lone_logs_below(disk, path, _DEPTH_MAX)


def _is_below(path: str, directory: str) -> bool:
    """Return whether a path is the directory or below it."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


# a broker's data directory


def _replicas_in_data_dir(disk: Disk, data_dir: str, identity: NodeIdentity) -> Iterator[FoundReplica]:
    """Yield the replicas of a data directory, and those of the other workers of the same broker."""
    journal = internal_path(data_dir, JOURNAL, str(identity.disk_uuid))
    if disk.exists(journal):
        owner = DataDirectory(data_dir, identity.disk_uuid)
        for replica in _read_replicas(disk, owner):
            name = parse_log_path(replica.path)
            yield FoundReplica(*name, replica.path, replica.group_id, owner, replica.folded, replica.fold)
    else:
        warnings.warn(
            f"{data_dir} has no journal: its replicas are read up to their last sound entries, of which the newest may "
            "not have been committed",
            stacklevel=2,
        )
        yield from _lone_logs_below(disk, data_dir, _DEPTH_MAX, is_data_dir=True)
    workers = internal_path(data_dir, _WORKERS)
    for worker in disk.list_directory(workers) if disk.exists(workers) else ():
        other = read_identity(disk, f"{workers}/{worker}")
        if other is not None:
            yield from _replicas_in_data_dir(disk, f"{workers}/{worker}", other)


def _read_replicas(disk: Disk, owner: DataDirectory) -> list[OfflineReplica]:
    """Return the replicas in a journal, which is read again if damaged. Raises `StorageError`."""
    for tries_left in reversed(range(_TRIES)):
        try:
            return list_offline_replicas(disk, owner.data_dir, owner.disk_uuid)
        except JournalDamaged as error:
            if not tries_left:
                raise StorageError(_repair_advice(owner.data_dir, error)) from error
    raise AssertionError("it was tried at least once")


def _repair_advice(data_dir: str, error: JournalDamaged) -> str:
    """Return the error text for a damaged journal."""
    return (
        f"{error.file}: the journal is damaged at position {error.position}: {error.why}. The committed ends of the "
        f"logs in {data_dir} are unknown. Read the directories of the other brokers instead; if this is a copy of a "
        "running broker, copy it again from a snapshot of the file system, or when the broker is stopped. A copy "
        f"without {INTERNAL}/{JOURNAL} is read up to the last sound entry of each log"
    )


# other directories


def _lone_logs_below(disk: Disk, path: str, depth: int, *, is_data_dir: bool = False) -> Iterator[FoundReplica]:
    """Yield the logs in and below a directory that is no data directory, including data directories below it."""
    if not is_data_dir and (identity := read_identity(disk, path)) is not None:
        yield from _replicas_in_data_dir(disk, path, identity)
        return
    if _is_log(disk, path):
        yield _lone_log(disk, path)
        return
    if disk.exists(f"{path}/{CONTROLLER}") and _is_log(disk, f"{path}/{CONTROLLER}"):
        yield _lone_log(disk, f"{path}/{CONTROLLER}")
    for name in disk.list_directory(path) if depth else ():
        if name != INTERNAL and disk.is_directory(f"{path}/{name}"):
            yield from _lone_logs_below(disk, f"{path}/{name}", depth - 1)


def _is_log(disk: Disk, path: str) -> bool:
    """Return whether a directory has segments or a checkpoint of a log."""
    return bool(segment_bases(disk, path)) or disk.exists(internal_path(path, CHECKPOINT))


def _lone_log(disk: Disk, path: str) -> FoundReplica:
    """Return the log in a directory without a journal."""
    return FoundReplica(*parse_log_path(path), path, read_group_from_rolls(disk, path))


def parse_log_path(path: str) -> tuple[str, int]:
    """Return topic and partition by a log's directory names; a lone log is partition 0 of a topic of its name."""
    if path.endswith(f"/{CONTROLLER}"):
        return CONTROLLER_TOPIC, 0
    above, _, name = path.rpartition("/")
    if name.isascii() and name.isdecimal() and len(name) < 10 and above:
        return above.rpartition("/")[2], int(name)
    return name, 0
