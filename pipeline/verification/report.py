"""Report of a verification: counts, a table of partitions, and problems.

All problems are counted and listed up to a limit, so that the report of a log full of them stays small. Created by
`verdicts` and `archive_comparison`, read by users and by the command."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

PROBLEMS_MAX: Final = 1_000
"""Limit of listed problems."""
NOTES_MAX: Final = 100


class PartitionVerdict(NamedTuple):
    """Result of the verification of one partition, with its number of replicas.

    Entries `first_index` to `last_index` were compared: up to the last one that is committed in all of them, before
    `end_offset`; none where `last_index` is the smaller. `bytes`, `batches`, `records` and `segments` are those of all
    replicas together."""

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

    `different` are in both and not the same, `missing` are in the log alone, `unknown` in the archive alone, `doubled`
    more than once in the archive."""

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
        """Add problems; `count` is their number if the list was already shortened."""
        number = 0
        for number, problem in enumerate(problems, 1):  # noqa: B007 - it is counted
            if len(self.listed) < self._most:
                self.listed.append(str(problem))
        self.count += number if count is None else count


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """Report of a verification: the first of `problem_count` problems; `notes` are no errors, such as missing copies.

    `tail_bytes` are no error either: writes under way, or torn by a crash, which the next start cuts off."""

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
