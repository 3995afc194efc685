"""Checker of real-time lag: the age of acknowledged records that a consumer has not received yet.

Let p be the last offset that the consumer received before a poll. Its lag at this poll is the time since the first
acknowledgement of any offset above p, but at most the time since its `assign`. The lag of a stuck consumer grows. A
consumer that reads from the beginning starts with a lag, so each test chooses the bound. After `subscribe` a rebalance
may revoke a partition at any time, so only partitions in the result of a poll are checked. After an `assign` of unknown
outcome the position is unknown until the consumer polls. `realtime-lag` is reported once per process and partition,
when the lag first exceeds the bound; `worst_ns` is the highest lag of all."""

from bisect import bisect_right
from collections.abc import Callable
from typing import ClassVar

from jepsen.checkers.checker import Checker, Findings
from jepsen.checkers.history import (
    ASSIGN,
    FAIL,
    INFO,
    OK,
    POLL,
    SEND,
    SUBSCRIBE,
    Assign,
    Kind,
    Op,
    Poll,
    Send,
    Subscribe,
)
from raftlog.types import Offset, TopicPartition


class Acknowledged:
    """Highest acknowledged offsets and the entries that reached them; both lists ascend and are never empty."""

    __slots__ = ("offsets", "ops")

    def __init__(self, offset: Offset, op: Op) -> None:
        self.offsets = [offset]
        self.ops = [op]

    def add(self, offset: Offset, op: Op) -> None:
        """Add an acknowledged offset with its entry, unless a higher offset is known."""
        if offset > self.offsets[-1]:
            self.offsets.append(offset)
            self.ops.append(op)

    def first_above(self, offset: Offset) -> Op | None:
        """Return the first acknowledgement of an offset above this one, or None."""
        if self.offsets[-1] <= offset:
            return None
        return self.ops[bisect_right(self.offsets, offset)]


class Reader:
    """Last offset that a process received in each of its partitions, and the time of its assignment."""

    __slots__ = ("is_subscribed", "last", "missed", "since_ns")

    def __init__(self, since_ns: int, *, is_subscribed: bool = False) -> None:
        self.last: dict[TopicPartition, Offset] = {}
        self.missed: dict[TopicPartition, Op] = {}  # the first acknowledgement above `last`, once there is one
        self.since_ns = since_ns
        self.is_subscribed = is_subscribed


Observe = Callable[[int, int, int], None]
"""Called for each checked poll with the time, the process number and its highest lag; times are in nanoseconds."""


class RealtimeLag(Checker):
    """Checker of the longest time for which consumers do not receive an acknowledged record.

    `bound_ns=None` only measures; `observe` receives the measurements, for plots."""

    completions: ClassVar[frozenset[Kind]] = frozenset((SEND, POLL, ASSIGN, SUBSCRIBE))

    def __init__(
        self, findings: Findings | None = None, *, bound_ns: int | None = None, observe: Observe | None = None
    ) -> None:
        """Set the limit of the lag, in nanoseconds (None: no limit), and a function that receives each measured lag."""
        super().__init__(findings)
        self.worst_ns = 0
        self._observe = observe
        self._bound_ns = bound_ns
        self._acknowledged: dict[TopicPartition, Acknowledged] = {}
        self._readers: dict[int, Reader] = {}
        self._reported: set[tuple[int, TopicPartition]] = set()

    def on_completion(self, invocation: Op, op: Op) -> None:
        """Process an assignment, an acknowledged send or a poll."""
        payload = op.payload
        if isinstance(payload, Assign | Subscribe):
            self._on_assignment(op, payload)
        elif op.type != OK:
            return
        elif isinstance(payload, Send):
            known = self._acknowledged.get(payload.partition)
            if known is None:
                self._acknowledged[payload.partition] = Acknowledged(max(payload.offsets), op)
            else:
                known.add(max(payload.offsets), op)
        elif isinstance(payload, Poll):
            self._on_poll(invocation, op, payload)

    def _on_assignment(self, op: Op, payload: Assign | Subscribe) -> None:
        """Begin to measure the lag of a reader from the position that it was assigned, unless the assignment failed."""
        if op.type == FAIL:
            return
        before = self._readers.get(op.process)
        still_subscribed = op.type == INFO and before is not None and before.is_subscribed
        is_subscribed = still_subscribed or isinstance(payload, Subscribe)
        reader = self._readers[op.process] = Reader(op.time_ns, is_subscribed=is_subscribed)
        if op.type == OK and isinstance(payload, Assign):
            for partition, offset in payload.positions:
                reader.last[partition] = self._highest_start(partition) if offset is None else Offset(offset - 1)

    def on_crash(self, op: Op) -> None:
        """Forget the reader of the process."""
        self._readers.pop(op.process, None)

    def _highest_start(self, partition: TopicPartition) -> Offset:
        """Return the highest acknowledged offset of a partition, or -1 if there is none.

        When the server chooses a reader's position, the reader is expected to receive only records after this offset.
        """
        known = self._acknowledged.get(partition)
        return Offset(-1) if known is None else known.offsets[-1]

    def _on_poll(self, invocation: Op, op: Op, poll: Poll) -> None:
        """Measure the lag of a reader at the beginning of a poll, and report lags above the limit."""
        reader = self._readers.get(op.process)
        if reader is None:
            reader = self._readers[op.process] = Reader(invocation.time_ns)
        if reader.is_subscribed:
            reader.last, reader.missed = {}, {}
        for partition, offsets, _ in poll.fetched:
            if offsets:
                reader.last[partition] = max(offsets)
                reader.missed.pop(partition, None)
        highest_ns = 0
        for partition, offset in reader.last.items():
            missed = reader.missed.get(partition)
            if missed is None:
                known = self._acknowledged.get(partition)
                missed = None if known is None else known.first_above(offset)
                if missed is None:
                    continue
                reader.missed[partition] = missed
            lag_ns = invocation.time_ns - max(missed.time_ns, reader.since_ns)
            highest_ns = max(highest_ns, lag_ns)
            if self._bound_ns is not None and lag_ns > self._bound_ns:
                self._report(partition, lag_ns, offset, (missed, op))
        self.worst_ns = max(self.worst_ns, highest_ns)
        if self._observe is not None:
            self._observe(invocation.time_ns, op.process, highest_ns)

    def _report(self, partition: TopicPartition, lag_ns: int, offset: Offset, ops: tuple[Op, Op]) -> None:
        """Report a lag above the limit, once for each process and partition.

        `ops` are the first acknowledged send that the reader has not received, and its poll."""
        process = ops[1].process
        if (process, partition) not in self._reported:
            self._reported.add((process, partition))
            text = f"process {process} stands at {partition} offset {offset}, {lag_ns / 1e9:.3f} s behind a later one"
            self.findings.report("realtime-lag", text, ops)
