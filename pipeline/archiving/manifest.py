"""What an archive's commits say, and their bytes.

A commit is one JSON object in `_raftlog/commits/{number:020d}.json`; together, in order, they are the archive's truth:
which offsets it covers, and which files hold them. `number` counts from 0 without holes, and a commit is created
exclusively, so that whoever writes number n has seen all before it. A `checksum` member (CRC-32C of the rest in
canonical form) tells a damaged commit. docs/FORMATS.md specifies the bytes. Pure; called by `state` and `writing`.

    created     the first: an id, nothing else
    claimed     a run begins: whoever claimed before cannot commit any more
    archived    partitions are covered further, by the files that were added
    compacted   files were added in the place of others, with the same rows
"""

import json
from datetime import date, timedelta
from typing import Any, Final, Literal, NamedTuple, cast, get_args

from crc32c import crc32c

from raftlog.pipeline.archiving.validation import (
    NO_DATE,
    PARTITION_MAX,
    day,
    integer,
    one_of,
    path_of,
    rows_path,
    staged_path,
    text,
    topic_name,
    uuid_text,
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
"""To the end of the year 9999, behind which neither Spark nor Python has dates."""

Kind = Literal["created", "claimed", "archived", "compacted"]


class Coverage(NamedTuple):
    """The archive has what the log held of `start ≤ offset < end`; `log_id` is the partition's group id."""

    log_id: str
    start: int
    end: int


class LostRange(NamedTuple):
    """Offsets that were gone before they were archived: `start ≤ offset < end`."""

    topic: str
    partition: int
    start: int
    end: int


class ArchivedFile(NamedTuple):
    """A Parquet file with rows of one topic, partition and day, by rising offset from `first` to `last`.

    `day` is what `day_of` gives. Files of one partition and day do not overlap; those of different days may.
    """

    topic: str
    partition: int
    day: str
    first: int
    last: int
    rows: int
    size: int
    """In bytes."""

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def path(self) -> str:
        """Relative to the archive."""
        return path_of(self.topic, self.partition, self.day, self.first, self.last)


class StagedFile(NamedTuple):
    """A file that a task has written, and where it lies until a commit names it."""

    staged: str
    file: ArchivedFile


class Commit(NamedTuple):
    """One step. `covered` are the partitions whose coverage it changes, as they are afterwards."""

    number: int
    kind: Kind
    run: str
    time_ms: int
    archive_id: str = ""
    covered: dict[TopicPartition, Coverage] = {}  # noqa: RUF012 - never changed
    added: tuple[StagedFile, ...] = ()
    dropped: tuple[str, ...] = ()
    """Paths of files whose rows others hold from now on; they are deleted later."""
    deleted: tuple[str, ...] = ()
    """Paths of such files that are gone."""
    lost: tuple[LostRange, ...] = ()

    @property
    def name(self) -> str:
        return numbered(COMMITS, self.number)


def day_of(days: int | None) -> str:
    """The `date=` of records made so many days after 1970-01-01 in UTC, at most `DAYS_MAX`; null's without a time."""
    if days is None:
        return NO_DATE
    return (_EPOCH + timedelta(days=days)).isoformat()


def numbered(directory: str, number: int) -> str:
    return f"{directory}/{number:020d}{_SUFFIX}"


def numbers_in(names: list[str]) -> list[int]:
    """The numbers of commits or snapshots among a directory's names, rising."""
    stems = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
    return sorted(int(stem) for stem in stems if len(stem) == 20 and stem.isdecimal())


def encoded(commit: Commit) -> bytes:
    return sealed(
        {
            "format": FORMAT,
            "number": commit.number,
            "kind": commit.kind,
            "run": commit.run,
            "time_ms": commit.time_ms,
            "archive_id": commit.archive_id,
            "covered": [[*place, *coverage] for place, coverage in sorted(commit.covered.items())],
            "added": [[staged, *file] for staged, file in commit.added],
            "dropped": commit.dropped,
            "deleted": commit.deleted,
            "lost": commit.lost,
        }
    )


def decoded(name: str, content: bytes) -> Commit:
    """Raises `ArchiveDamaged`, which says what is wrong with the file called `name`."""
    fields = opened(name, content)
    try:
        run = uuid_text(fields["run"], "run")
        return Commit(
            integer(fields["number"], "number"),
            cast(Kind, one_of(fields["kind"], "kind", get_args(Kind))),
            run,
            integer(fields["time_ms"], "time_ms"),
            text(fields["archive_id"], "archive_id"),
            coverage_of(fields["covered"]),
            tuple(
                StagedFile(staged_path(row[0], f"{STAGING}/{run}"), file_of(row[1:])) for row in _rows(fields, "added")
            ),
            tuple(map(rows_path, _rows(fields, "dropped"))),
            tuple(map(rows_path, _rows(fields, "deleted"))),
            tuple(map(_lost_of, _rows(fields, "lost"))),
        )
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise unwritten(name, "a commit", error) from error


def unwritten(name: str, what: str, error: Exception) -> ArchiveDamaged:
    """For a file with a right checksum that raftlog would not write."""
    why = str(error) if type(error) is ValueError else repr(error)
    return ArchiveDamaged(f"{name}: not {what} of an archive: {why}; nothing was read or deleted by it")


def coverage_of(rows: Any) -> dict[TopicPartition, Coverage]:
    """From rows of JSON; raises `ValueError` and `TypeError`."""
    covered = {}
    for topic, partition, log_id, start, end in rows:
        place = TopicPartition(topic_name(topic), integer(partition, "partition", 0, PARTITION_MAX))
        covered[place] = Coverage(text(log_id, "group id"), integer(start, "start"), integer(end, "end"))
    return covered


def file_of(row: Any) -> ArchivedFile:
    """From a row of JSON; raises `ValueError` and `TypeError`."""
    topic, partition, date_, first, last, rows, size = row
    first = integer(first, "first offset")
    last = integer(last, "last offset", first)
    return ArchivedFile(
        topic_name(topic),
        integer(partition, "partition", 0, PARTITION_MAX),
        day(date_),
        first,
        last,
        integer(rows, "rows", 1, last - first + 1),
        integer(size, "bytes"),
    )


def _lost_of(row: Any) -> LostRange:
    topic, partition, start, end = row
    start = integer(start, "start")
    partition = integer(partition, "partition", 0, PARTITION_MAX)
    return LostRange(topic_name(topic), partition, start, integer(end, "end", start))


def _rows(fields: dict[str, Any], name: str) -> list[Any]:
    if type(fields[name]) is not list:
        raise ValueError(f"{name} is no list")
    return cast(list[Any], fields[name])


def sealed(fields: dict[str, Any]) -> bytes:
    """The JSON object with its checksum."""
    return _canonical({**fields, "checksum": crc32c(_canonical(fields))})


def opened(name: str, content: bytes) -> dict[str, Any]:
    """The members of a sealed object; raises `ArchiveDamaged`, also for another format."""
    try:
        fields = json.loads(content)
        checksum = fields.pop("checksum")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise ArchiveDamaged(f"{name}: not a file of an archive: {error}") from error
    if checksum != crc32c(_canonical(fields)):
        raise ArchiveDamaged(f"{name}: the checksum does not match; bring the file back from a copy of the archive")
    if fields.get("format") != FORMAT:
        raise ArchiveDamaged(f"{name}: format {fields.get('format')} is not known here, only {FORMAT}")
    opened_fields: dict[str, Any] = fields
    return opened_fields


def _canonical(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
