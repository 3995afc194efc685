"""Interface of an archive's sources, as `archive` uses it; `log_sources` has the implementations.

Every source identifies a partition by its group id, so that an archive that was begun from brokers can be continued
from a backup's files. Plans are made on the driver; rows are read in tasks."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

import pyarrow as pa

from raftlog.pipeline.options import TopicChoice
from raftlog.types import TopicPartition

S = TypeVar("S")
R = TypeVar("R")


class ArchiveSplit(NamedTuple):
    """Offsets `start ≤ offset < end` of a partition for one task; `read()` yields the rows, sorted by offset."""

    place: TopicPartition
    start: int
    end: int
    read: Callable[[], Iterator[pa.RecordBatch]]


class SourceLog(NamedTuple):
    """Log of a partition in the source of an archive, `start ≤ offset < end`."""

    place: TopicPartition
    log_id: str
    start: int
    end: int
    cut: Callable[[int, int], Sequence[ArchiveSplit]]
    """Function that divides a non-empty range of offsets (start, end) into splits without gaps, by rising offset."""


class ArchiveSource(Protocol):
    """Interface of the sources of an archive: a cluster, or data directories."""

    @property
    def may_lag(self) -> bool:
        """Whether a log of the source may end before the archive's coverage, as in an old backup."""
        ...

    def logs(self, choice: TopicChoice, *, fail_on_data_loss: bool) -> list[SourceLog]:
        """Return all partitions of the topics; raises `UnknownTopic` for a topic that does not exist.

        If records are trimmed before a task has read them, the task fails. Without `fail_on_data_loss` it leaves them
        out."""
        ...


class SplitBatches(Protocol):
    """Interface of executors that run `work` on splits, in batches: Spark in `jobs`, a loop in tests.

    A batch is committed as a whole. Its size bounds the work that an interrupted run loses, the size of a commit, and
    the memory of the driver."""

    def __call__(
        self, label: str, splits: Sequence[S], work: Callable[[S], Iterable[R]]
    ) -> Iterator[tuple[Sequence[S], list[R]]]:
        """Yield the splits of each batch with their results in the same order, one batch for each iteration."""
        ...
