"""Report of a verification: counts, a table of partitions, and problems.

All problems are counted, but listed only up to a limit, so that the report of a badly damaged log stays small. Created
by `verdicts` and `archive_comparison`, read by users and by `raftlog pipeline`."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

PROBLEMS_MAX: Final = 1_000
"""Limit of listed problems."""
NOTES_MAX: Final = 100


class PartitionVerdict(NamedTuple):
    """Result of the verification of one partition, with its number of replicas.

    Entries `first_index` to `last_index` were compared, up to the last one that is committed on all replicas; none if
    `last_index` is lower than `first_index`. `end_offset` is the offset after `last_index`. `bytes`, `batches`,
    `records` and `segments` are sums over all replicas."""

    topic: str
    partition: int
    group_id: str
    replicas: int
    segments: int
    batches: int
    records: int
    bytes: int
    first_index: int
    last_index: int
    end_offset: int
    problems: int

    @property
    def is_compared(self) -> bool:
        return self.replicas > 1 and self.last_index >= self.first_index


class ArchiveVerdict(NamedTuple):
    """Result of comparing the archive of a partition with its log from offset `start` to `end` (exclusive).

    Numbers of records: `different` ones are in both with other content, `missing` ones only in the log, `unknown` ones
    only in the archive, `doubled` ones more than once in the archive."""

    topic: str
    partition: int
    start: int
    end: int
    records: int
    different: int
    missing: int
    unknown: int
    doubled: int

    @property
    def counts(self) -> tuple[int, ...]:
        """Numbers of compared records, and of records with each kind of difference."""
        return self[4:]


class Problems:
    """Bounded list of problems; `count` includes problems that are not listed."""

    def __init__(self, most: int = PROBLEMS_MAX) -> None:
        self.listed: list[str] = []
        self.count = 0
        self._most = most

    def add(self, problems: Iterable[object], count: int | None = None) -> None:
        """Add problems; `count` is their number if `problems` does not have all of them."""
        number = 0
        for number, problem in enumerate(problems, 1):  # noqa: B007 - it is counted
            if len(self.listed) < self._most:
                self.listed.append(str(problem))
        self.count += number if count is None else count


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """Report of a verification; `problems` has the first of `problem_count` problems.

    `notes` are no errors, for example about missing copies. `tail_bytes` is no error either: bytes of writes in
    progress, or of incomplete writes before a crash, which the next start removes."""

    logs: int
    segments: int
    batches: int
    records: int
    bytes: int
    tail_bytes: int
    partitions: tuple[PartitionVerdict, ...]
    problem_count: int = 0
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    archive: tuple[ArchiveVerdict, ...] = field(default=())

    @property
    def is_sound(self) -> bool:
        return self.problem_count == 0

    def as_json(self) -> dict[str, object]:
        """Return the report as a JSON object."""
        return {
            "sound": self.is_sound,
            "logs": self.logs,
            "segments": self.segments,
            "batches": self.batches,
            "records": self.records,
            "bytes": self.bytes,
            "tail_bytes": self.tail_bytes,
            "problem_count": self.problem_count,
            "problems": list(self.problems),
            "notes": list(self.notes),
            "partitions": [each._asdict() for each in self.partitions],
            "archive": [each._asdict() for each in self.archive],
        }
