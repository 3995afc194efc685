"""Commits of an archive, with their encoding.

A commit is one JSON object in `_raftlog/commits/{number:020d}.json`. All commits in order define the archive: the
offsets that it covers, and the files with their rows. `number` counts from 0 without gaps, and the creation of a commit
fails if the file exists, so the writer of commit n has read all commits before it. A `checksum` member (CRC-32C of the
rest in canonical form) detects a damaged commit. docs/FORMATS.md specifies the bytes. Pure; called by `state` and
`writer`.

    created     the first: an id, nothing else
    claimed     a run begins: earlier runs cannot commit any more
    archived    coverage of partitions grows, by the files that were added
    compacted   files replaced others, with the same rows"""

import json
from collections.abc import Iterable
from datetime import date, timedelta
from typing import Any, Final, Literal, NamedTuple

import msgspec
from crc32c import crc32c

from raftlog.pipeline.archives.validation import (
    NO_DATE,
    Count,
    PartitionNumber,
    UuidText,
    check_rows_path,
    check_staged_path,
    check_topic_name,
    path_of,
)
from raftlog.pipeline.errors import ArchiveDamaged
from raftlog.types import TopicPartition

FORMAT: Final = 1
INTERNALS: Final = "_raftlog"
COMMITS: Final = f"{INTERNALS}/commits"
SNAPSHOTS: Final = f"{INTERNALS}/snapshots"
STAGING: Final = f"{INTERNALS}/staging"
_SUFFIX: Final = ".json"
_EPOCH: Final = date(1970, 1, 1)
DAYS_MAX: Final = (date.max - _EPOCH).days
"""Last day of the year 9999, after which neither Spark nor Python has dates."""

Kind = Literal["created", "claimed", "archived", "compacted"]


class Coverage(NamedTuple):
    """Range of a log that the archive covers, `start ≤ offset < end`; `log_id` is the partition's group id."""

    log_id: str
    start: Count
    end: Count


CoveredRow = tuple[str, PartitionNumber, str, Count, Count]
"""Topic, partition and `Coverage`, as they are stored."""


class LostRange(NamedTuple):
    """Offsets that were deleted before they were archived: `start ≤ offset < end`."""

    topic: str
    partition: PartitionNumber
    start: Count
    end: Count


class ArchivedFile(NamedTuple):
    """Parquet file with rows of one topic, partition and day, by rising offset from `first` to `last`.

    `day` is the result of `day_of`. Files of one partition and day do not overlap; those of different days may."""

    topic: str
    partition: PartitionNumber
    day: str
    first: Count
    last: Count
    rows: Count
    size: Count
    """Size in bytes."""

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def path(self) -> str:
        """Path relative to the archive."""
        return path_of(self.topic, self.partition, self.day, self.first, self.last)


class StagedFile(NamedTuple):
    """File that a task has written, and its path in the staging directory until a commit contains it."""

    staged: str
    file: ArchivedFile


class Commit(NamedTuple):
    """Commit of one step; `covered` has the new coverage of the partitions that the step changes."""

    number: int
    kind: Kind
    run: str
    time_ms: int
    archive_id: str = ""
    covered: dict[TopicPartition, Coverage] = {}  # noqa: RUF012 - never changed
    added: tuple[StagedFile, ...] = ()
    dropped: tuple[str, ...] = ()
    """Paths of files whose rows are in other files from this commit on; they are deleted later."""
    deleted: tuple[str, ...] = ()
    """Paths of dropped files that are deleted."""
    lost: tuple[LostRange, ...] = ()

    @property
    def name(self) -> str:
        return path_of_number(COMMITS, self.number)


class _StoredCommit(msgspec.Struct):
    """Members of a commit's JSON object with their types."""

    number: Count
    kind: Kind
    run: UuidText
    time_ms: Count
    archive_id: str
    covered: list[CoveredRow]
    added: list[list[Any]]
    """Rows for the added files: path of the staged file, then the fields of `ArchivedFile`."""
    dropped: list[str]
    deleted: list[str]
    lost: list[LostRange]


def day_of(days: int | None) -> str:
    """Return the value of `date=` in a path from days since 1970-01-01 in UTC, at most `DAYS_MAX`.

    `NO_DATE` for None, the day of records without a timestamp."""
    if days is None:
        return NO_DATE
    return (_EPOCH + timedelta(days=days)).isoformat()


def path_of_number(directory: str, number: int) -> str:
    """Return the path of the commit or snapshot with this number."""
    return f"{directory}/{number:020d}{_SUFFIX}"


def numbers_in(names: list[str]) -> list[int]:
    """Return the numbers of commits or snapshots from the names in a directory, sorted."""
    stems = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
    return sorted(int(stem) for stem in stems if len(stem) == 20 and stem.isdecimal())


def encode_commit(commit: Commit) -> bytes:
    """Return a commit as sealed JSON."""
    added = [[staged, *file] for staged, file in commit.added]
    return seal({**commit._asdict(), "covered": encode_coverage(commit.covered), "added": added})


def decode_commit(name: str, content: bytes) -> Commit:
    """Decode a commit. Raises `ArchiveDamaged` with the reason and the file's `name`."""
    fields = unseal(name, content)
    try:
        stored = msgspec.convert(fields, _StoredCommit)
        staging = f"{STAGING}/{stored.run}"
        return Commit(
            stored.number,
            stored.kind,
            stored.run,
            stored.time_ms,
            stored.archive_id,
            decode_coverage(stored.covered),
            tuple(StagedFile(check_staged_path(staged, staging), decode_file(row)) for staged, *row in stored.added),
            tuple(map(check_rows_path, stored.dropped)),
            tuple(map(check_rows_path, stored.deleted)),
            tuple(map(_require_range, stored.lost)),
        )
    except ValueError as error:
        raise invalid_content_error(name, "a commit", error) from error


def invalid_content_error(name: str, label: str, error: ValueError) -> ArchiveDamaged:
    """Return the error for a file with a correct checksum that is no valid `label`, such as a commit."""
    return ArchiveDamaged(f"{name}: not {label} of an archive: {error}; nothing was read or deleted by it")


def encode_coverage(covered: dict[TopicPartition, Coverage]) -> list[list[object]]:
    """Return coverage as JSON rows, sorted by topic and partition."""
    return [[*place, *coverage] for place, coverage in sorted(covered.items())]


def decode_coverage(rows: Iterable[CoveredRow]) -> dict[TopicPartition, Coverage]:
    """Decode coverage from JSON rows. Raises `ValueError`."""
    return {TopicPartition(check_topic_name(row[0]), row[1]): Coverage(*row[2:]) for row in rows}


def decode_file(row: Any) -> ArchivedFile:
    """Decode a file from its JSON row; raises `ValueError`."""
    file = msgspec.convert(row, ArchivedFile)
    check_rows_path(file.path)
    if not 0 < file.rows <= file.last - file.first + 1:
        raise ValueError(f"{file.path} cannot have {file.rows} rows")
    return file


def _require_range(lost: LostRange) -> LostRange:
    """Check a lost range and return it. Raises `ValueError`."""
    check_topic_name(lost.topic)
    if lost.end < lost.start:
        raise ValueError(f"{lost} ends before it starts")
    return lost


def seal(fields: dict[str, Any]) -> bytes:
    """Return a JSON object, encoded with its format and checksum."""
    fields = {**fields, "format": FORMAT}
    return _encode_canonical({**fields, "checksum": crc32c(_encode_canonical(fields))})


def unseal(name: str, content: bytes) -> dict[str, Any]:
    """Return the members of a sealed object; raises `ArchiveDamaged`, also for another format."""
    try:
        fields = json.loads(content)
        checksum = fields.pop("checksum")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise ArchiveDamaged(f"{name}: not a file of an archive: {error}") from error
    if checksum != crc32c(_encode_canonical(fields)):
        raise ArchiveDamaged(f"{name}: the checksum does not match; bring the file back from a copy of the archive")
    if fields.get("format") != FORMAT:
        raise ArchiveDamaged(f"{name}: format {fields.get('format')} is not supported, only {FORMAT}")
    return dict(fields)


def _encode_canonical(fields: dict[str, Any]) -> bytes:
    """Return the one encoding of a JSON object over which checksums are computed."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
