"""Data of a history for plots: columns with a few bytes per operation, read in one pass over its lines.

Times are in seconds from the beginning of the load. An operation that was never completed has a line in `offered`, and
none in the other columns."""

from array import array
from collections.abc import Collection
from pathlib import Path
from typing import ClassVar, Final, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from jepsen.checkers import Op
from jepsen.checkers.checker import Checker
from jepsen.checkers.history import ASSIGN, NEMESIS, SEND, SUBSCRIBE, Kind
from jepsen.checkers.history_checker import Pairing
from jepsen.checkers.json_lines import read_entries
from jepsen.checkers.lag import RealtimeLag
from jepsen.checkers.record_status import RecordStatuses, StatusColumns
from jepsen.checkers.records import RecordBook
from jepsen.checkers.topics import Topics

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
LOCAL: Final = frozenset((ASSIGN, SUBSCRIBE))
"""Kinds of operations that send no request."""
OUTCOMES: Final = ("ok", "fail", "info")
LINE_MAX: Final = 2000
"""Number of characters of a history line that the page shows."""
Floats = NDArray[np.float64]
Codes = NDArray[np.uint8]


class Operations(NamedTuple):
    """Completed operations, in the order of their completion. `kind` and `outcome` are indices."""

    invoked_s: Floats
    completed_s: Floats
    kind: Codes
    outcome: Codes

    def kinds_by_frequency(self) -> list[int]:
        """Return the kinds that occur and that send requests, the most frequent first."""
        counts = np.bincount(self.kind, minlength=len(KINDS))
        codes = [int(code) for code in np.argsort(-counts, kind="stable")]
        return [code for code in codes if counts[code] and KINDS[code] not in LOCAL]

    def timings(self, kind: int, outcome: int) -> tuple[Floats, Floats]:
        """Return the invocation times and the durations, in seconds, of the operations with this kind and outcome."""
        which = (self.kind == kind) & (self.outcome == outcome)
        return self.invoked_s[which], self.completed_s[which] - self.invoked_s[which]


class Records(NamedTuple):
    """Every record that was sent. `offset` is −1 where none is known."""

    partitions: tuple[str, ...]
    invoked_s: Floats
    partition: NDArray[np.uint32]
    offset: NDArray[np.int64]
    status: Codes
    counts: dict[str, int]
    """Number of records of each status."""


class Lags(NamedTuple):
    """Lag of a consumer at each of its successful polls."""

    at_s: Floats
    process: NDArray[np.int64]
    lag_s: Floats


class Series(NamedTuple):
    """Data for the plots of a run; `lines` are the requested lines of the history, by number (from 0)."""

    offered_s: Floats
    operations: Operations
    records: Records
    lags: Lags
    lines: dict[int, str]
    end_s: float


class _Columns(Checker):
    """Collector of the data of all operations, of every kind, in columns."""

    invocations: ClassVar[frozenset[Kind]] = frozenset(KINDS)
    completions: ClassVar[frozenset[Kind]] = frozenset(KINDS)

    def __init__(self) -> None:
        super().__init__()
        self.offered = array("q")
        self.invoked_ns, self.completed_ns = array("q"), array("q")
        self.kind, self.outcome = array("B"), array("B")
        self._kinds = {kind: code for code, kind in enumerate(KINDS)}
        self._outcomes = {outcome: code for code, outcome in enumerate(OUTCOMES)}

    def on_invocation(self, op: Op) -> None:
        """Record the time of an invocation."""
        self.offered.append(op.time_ns)

    def on_completion(self, invocation: Op, op: Op) -> None:
        """Record times, kind and outcome of a completed operation."""
        self.invoked_ns.append(invocation.time_ns)
        self.completed_ns.append(op.time_ns)
        self.kind.append(self._kinds[op.kind])
        self.outcome.append(self._outcomes[op.type])


class _LagColumns:
    """Collector of the lags of all consumers, in columns."""

    def __init__(self) -> None:
        self.at_ns, self.process, self.lag_ns = array("q"), array("q"), array("q")

    def record(self, at_ns: int, process: int, lag_ns: int) -> None:
        """Add a measured lag."""
        self.at_ns.append(at_ns)
        self.process.append(process)
        self.lag_ns.append(lag_ns)


def read_series(
    history: Path, begin_s: float | None, first_fault_s: float | None, wanted: Collection[int] = ()
) -> Series:
    """Read the series of a history; `begin_s` is the beginning of the load on the history's clock.

    When it was not recorded, the first fault began `first_fault_s` later; without faults the load begins with the first
    send. Raises `InvalidArgument` when the file is no history."""
    columns, topics, lagging = _Columns(), Topics(RecordBook()), _LagColumns()
    statuses = RecordStatuses(may_be_deleted=topics.may_be_deleted)
    pairing = Pairing((columns, topics, statuses, RealtimeLag(observe=lagging.record)))
    lines: dict[int, str] = {}
    first_send_ns = first_nemesis_ns = None
    last_ns = 0
    with open(history, "rb") as file:
        for op, _, line in read_entries(file):
            pairing.feed(op)
            if op.sequence in wanted:
                lines[op.sequence] = line[:LINE_MAX].decode(errors="replace").rstrip()
            last_ns = op.time_ns
            if op.kind == NEMESIS and first_nemesis_ns is None:
                first_nemesis_ns = op.time_ns
            elif op.kind == SEND and first_send_ns is None:
                first_send_ns = op.time_ns
    if begin_s is not None:
        begin_ns = round(begin_s * 1e9)
    elif first_fault_s is not None and first_nemesis_ns is not None:
        begin_ns = first_nemesis_ns - round(first_fault_s * 1e9)
    else:
        begin_ns = first_send_ns or 0
    return Series(
        offered_s=_seconds(columns.offered, begin_ns),
        operations=Operations(
            _seconds(columns.invoked_ns, begin_ns),
            _seconds(columns.completed_ns, begin_ns),
            np.frombuffer(columns.kind, np.uint8),
            np.frombuffer(columns.outcome, np.uint8),
        ),
        records=_records(statuses.statuses(), begin_ns),
        lags=Lags(
            _seconds(lagging.at_ns, begin_ns), np.frombuffer(lagging.process, np.int64), _seconds(lagging.lag_ns, 0)
        ),
        lines=lines,
        end_s=(last_ns - begin_ns) / 1e9,
    )


def _records(statuses: StatusColumns, begin_ns: int) -> Records:
    """Return the columns of records with times in seconds since `begin_ns`."""
    return Records(
        tuple(map(str, statuses.partitions)),
        _seconds(statuses.invoked_ns, begin_ns),
        np.frombuffer(statuses.partition, np.uint32),
        np.frombuffer(statuses.offset, np.int64),
        np.frombuffer(statuses.status, np.uint8),
        {str(status): count for status, count in statuses.counts().items()},
    )


def _seconds(times_ns: "array[int]", begin_ns: int) -> Floats:
    """Convert nanoseconds to seconds since `begin_ns`."""
    return (np.frombuffer(times_ns, np.int64) - begin_ns) / 1e9
