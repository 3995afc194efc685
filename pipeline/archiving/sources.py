"""Where an archive's rows come from, as `archive` sees it; `log_sources` has the sources that there are.

A partition is known by its group id, whatever the way to it: an archive that was begun through brokers can be
continued from a backup's files. Planning is on the driver, reading in tasks.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

import pyarrow as pa

from raftlog.pipeline.options import TopicChoice
from raftlog.types import TopicPartition

S = TypeVar("S")
R = TypeVar("R")


class ArchiveSplit(NamedTuple):
    """Offsets `start ≤ offset < end` of a partition, which one task reads by rising offset by calling `read`."""

    place: TopicPartition
    start: int
    end: int
    read: Callable[[], Iterator[pa.RecordBatch]]


class SourceLog(NamedTuple):
    """A partition and what it holds: `start ≤ offset < end`."""

    place: TopicPartition
    log_id: str
    start: int
    end: int
    cut: Callable[[int, int], Sequence[ArchiveSplit]]
    """From a range of its offsets, which is not empty, to splits without a hole, by rising offset."""


class ArchiveSource(Protocol):
    """A cluster or a backup."""

    @property
    def may_lag(self) -> bool:
        """Whether it can be behind the archive without anything being wrong, as a backup is."""
        ...

    def logs(self, choice: TopicChoice, *, fail_on_data_loss: bool) -> list[SourceLog]:
        """Every partition of the topics; raises `UnknownTopic` for a name that is not there. Records that are trimmed
        before a task has read them are an error there, or with `fail_on_data_loss` false left out."""
        ...


class Waves(Protocol):
    """Runs `work` on every split, wave after wave: on Spark by `jobs`, in tests by a loop.

    A wave is what is committed together: it bounds what a run that is cut off loses, what a commit says, and what the
    driver holds.
    """

    def __call__(
        self, what: str, splits: Sequence[S], work: Callable[[S], Iterable[R]]
    ) -> Iterator[tuple[Sequence[S], list[R]]]:
        """The splits of each wave, and their results in the same order; the next wave begins when it is asked for."""
        ...
