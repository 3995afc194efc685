"""Interface of a system in the race, and the figures of its measures."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, NamedTuple

Values = dict[str, float]
"""Figures of one run of a measure, by name."""


class RunningSystem(NamedTuple):
    """Three running nodes and their measures; `pids()` returns the processes of the nodes that run now."""

    pids: Callable[[], Sequence[int]]
    measures: Mapping[str, Callable[[], Values]]
    """Functions that run one measure each, by the name of the measure in `MEASURES`."""


class System(NamedTuple):
    """System of the race; `promise` describes how durable an acknowledged write is."""

    key: str
    name: str
    promise: str
    start: Callable[[Path], AbstractContextManager[RunningSystem]]


class RaceMeasure(NamedTuple):
    """Measure of the race; `runs` overrides the usual number of runs."""

    key: str
    text: str
    runs: int | None = None


MEASURES: Final = (
    RaceMeasure("idle", "memory of the largest node with 5,000 idle connections to one", 1),
    RaceMeasure("produce", "1 KB records as fast as they are taken"),
    RaceMeasure("consume", "the same records read from the start"),
    RaceMeasure("closed", "64 connections, one record of 100 bytes a request, closed loop"),
    RaceMeasure("offered", "1,000 records of 100 bytes a second offered by 4 connections"),
    RaceMeasure("wide", "50 consumers each read all of 1,000 partitions, 100 records a second in total", 1),
    RaceMeasure("group", "10 Java consumers: until all have their partitions after one joined, or was killed", 1),
    RaceMeasure("transactions", "16 Java producers, transactions of 10 records over 3 partitions, closed loop"),
    RaceMeasure("transactions_offered", "100 such transactions a second: time of a commit"),
    RaceMeasure("transactions_beside", "16 plain producers with 50 open transactions in their partition ÷ without", 1),
    RaceMeasure("transactions_stall", "transaction coordinator killed: longest time between two commits of one", 3),
    RaceMeasure("gap", "leader killed: longest time between two answers of the Java client or the system's own", 5),
    RaceMeasure("gap_librdkafka", "the same with librdkafka", 5),
)


class Column(NamedTuple):
    """Column of the table: one figure of one measure."""

    measure: str
    figure: str
    title: str
    digits: int


COLUMNS: Final = (
    Column("idle", "memory_mib", "5,000 conn. MiB", 0),
    Column("produce", "mib_per_s", "produce MiB/s", 1),
    Column("consume", "mib_per_s", "consume MiB/s", 0),
    Column("closed", "per_s", "64 conn. /s", 0),
    Column("closed", "p99", "… p99 ms", 1),
    Column("offered", "p50", "1,000/s p50 ms", 2),
    Column("offered", "p99", "… p99 ms", 2),
    Column("wide", "cpu", "1,000 partitions CPU", 2),
    Column("group", "join_range_s", "join s, range", 1),
    Column("group", "join_cooperative_s", "… cooperative", 1),
    Column("group", "killed_s", "member killed s", 1),
    Column("gap", "gap_ms", "gap ms", 0),
    Column("gap_librdkafka", "gap_ms", "librdkafka gap ms", 0),
)

TRANSACTION_COLUMNS: Final = (
    Column("transactions", "per_s", "16 producers /s", 0),
    Column("transactions", "commit_p50", "… commit p50 ms", 1),
    Column("transactions", "commit_p99", "… p99 ms", 1),
    Column("transactions_offered", "commit_p50", "100/s, commit p50 ms", 1),
    Column("transactions_offered", "commit_p99", "… p99 ms", 1),
    Column("transactions_offered", "p99", "… whole p99 ms", 1),
    Column("transactions_beside", "ratio", "beside open ones ÷ without", 3),
    Column("transactions_beside", "cpu_ratio", "… CPU of nodes for a record", 3),
    Column("transactions_beside", "noise", "… noise", 3),
    Column("transactions_stall", "gap_ms", "coordinator killed ms", 0),
)
"""Columns of the second table, which has only systems with transactions."""
