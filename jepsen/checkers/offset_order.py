"""Checker of offset assignment: the order of offsets agrees with real time.

A record is *known* when it was acknowledged, polled, or below a listed end. A record that is sent later must have a
greater offset. Otherwise the anomaly is `int-nonmonotonic-send` (one request sent both), `nonmonotonic-send` (one
process sent both) or `offset-order`. A linearizable list that was requested after a record was known must end above it;
otherwise it is a `stale-end`. With transactions a list may end below an acknowledged record, but not below one that was
read or listed. Because offsets are a total order and values are unique, these pairwise checks suffice for
linearizability of appends.

The checker makes one pass. The highest known offset of a partition is its *floor*. For each send the checker stores the
floor at the invocation, and the highest offset of earlier sends of the process; the offset of the send must be above
both. Sends of unknown outcome are checked when a poll returns their values.
"""

from typing import ClassVar, NamedTuple

from jepsen.checkers.checker import AnomalyKind, Checker, Findings
from jepsen.checkers.history import LIST, OK, POLL, SEND, Kind, ListOffsets, Op, Poll, Send, Value
from raftlog.types import Offset, TopicPartition


class Floor(NamedTuple):
    """Lower bound for later offsets: the highest known offset, and the entry that proves it."""

    offset: Offset
    op: Op


class OpenSend(NamedTuple):
    """Send without a known offset yet; its offset must be above the floor, and above its process's earlier ones."""

    invocation: Op
    floor: Floor | None
    own: Floor | None
    """Highest offset that the same process received for a send; at most the floor."""


class OffsetOrder(Checker):
    """Checker that the offset of a send is above all offsets that were known before the send."""

    invocations: ClassVar[frozenset[Kind]] = frozenset((SEND, LIST))
    completions: ClassVar[frozenset[Kind]] = frozenset((SEND, POLL, LIST))

    def __init__(self, findings: Findings | None = None, *, has_transactions: bool = False) -> None:
        """Create a checker; with transactions, acknowledged records may be above the end of a list."""
        super().__init__(findings)
        self._floors: dict[TopicPartition, Floor] = {}
        self._list_floors: dict[TopicPartition, Floor] = {} if has_transactions else self._floors
        """Highest offset of each partition that every later list must end above."""
        self._own_floors: dict[tuple[int, TopicPartition], Floor] = {}
        self._open: dict[TopicPartition, dict[Value, OpenSend]] = {}
        self._lists: dict[int, dict[TopicPartition, Floor]] = {}

    def on_invocation(self, op: Op) -> None:
        """Record the floors that hold when a send or a linearizable list begins."""
        payload = op.payload
        if isinstance(payload, Send):
            sends = self._open.get(payload.partition)
            if sends is None:
                sends = self._open[payload.partition] = {}
            own = self._own_floors.get((op.process, payload.partition))
            send = OpenSend(op, self._floors.get(payload.partition), own)
            for value in payload.values:
                sends[value] = send
        elif isinstance(payload, ListOffsets) and payload.linearizable:
            self._lists[op.process] = self._list_floors.copy()

    def on_crash(self, op: Op) -> None:
        """Forget the open list of the process."""
        self._lists.pop(op.process, None)

    def on_completion(self, invocation: Op, op: Op) -> None:
        """Check the offsets that a send, a list or a poll returned."""
        payload = op.payload
        if isinstance(payload, Send):
            self._on_send(op, payload)
        elif isinstance(payload, ListOffsets):
            self._on_list(op, payload)
        elif op.type == OK and isinstance(payload, Poll):
            for partition, offsets, values in payload.fetched:
                if offsets:
                    self._on_poll(op, partition, offsets, values)

    def _on_send(self, op: Op, payload: Send) -> None:
        """Check the offsets of an acknowledged send against its floor, and raise the floors of partition and process.

        A failed send is forgotten; one of unknown outcome is checked when a poll returns its values."""
        if op.type == "info":
            return
        sends = self._open[payload.partition]
        send = None
        for value in payload.values:
            send = sends.pop(value, send)
        if op.type != OK or not payload.offsets:
            return
        offsets = payload.offsets
        if len(offsets) > 1:
            self._check_within_send(op, payload)
        if send is not None and send.floor is not None and min(offsets) <= send.floor.offset:
            self._report(payload.partition, min(offsets), send, op)
        self._raise_floor(payload.partition, max(offsets), op)
        own = self._own_floors.get((op.process, payload.partition))
        if own is None or max(offsets) > own.offset:
            self._own_floors[op.process, payload.partition] = Floor(max(offsets), op)

    def _check_within_send(self, op: Op, payload: Send) -> None:
        """Report values of one send that did not get ascending offsets."""
        for last, first in zip(payload.offsets, payload.offsets[1:], strict=False):
            if first <= last:
                text = f"one send to {payload.partition} got offset {first} for a value behind that of offset {last}"
                self.findings.report("int-nonmonotonic-send", text, (op,))

    def _on_poll(
        self, op: Op, partition: TopicPartition, offsets: tuple[Offset, ...], values: tuple[Value, ...]
    ) -> None:
        """Check the offsets of received values whose send is not checked yet, and raise the floor of the partition."""
        sends = self._open.get(partition)
        if sends and not sends.keys().isdisjoint(values):
            for offset, value in zip(offsets, values, strict=True):
                send = sends.pop(value, None)
                if send is not None and send.floor is not None and offset <= send.floor.offset:
                    self._report(partition, offset, send, op)
        self._raise_floor(partition, max(offsets), op)

    def _on_list(self, op: Op, payload: ListOffsets) -> None:
        """Report ends of a linearizable list at or below an offset that was known before it, and raise the floors."""
        floors = self._lists.pop(op.process, {})
        if op.type != OK:
            return
        for partition, _, end in payload.ranges:
            floor = floors.get(partition)
            if floor is not None and end <= floor.offset:
                text = f"{partition} ended at {end} for a linearizable list; offset {floor.offset} was known before it"
                self.findings.report("stale-end", text, (floor.op, op))
            if end > 0:
                self._raise_floor(partition, Offset(end - 1), op)

    def _raise_floor(self, partition: TopicPartition, offset: Offset, op: Op) -> None:
        """Record that `offset` is known by the entry `op`.

        A send does not raise the floor of lists if there are transactions."""
        for floors in (self._floors,) if op.kind == SEND else (self._floors, self._list_floors):
            floor = floors.get(partition)
            if floor is None or offset > floor.offset:
                floors[partition] = Floor(offset, op)

    def _report(self, partition: TopicPartition, offset: Offset, send: OpenSend, evidence: Op) -> None:
        """Report that a send got an offset that is not above its floor; `evidence` is the entry with this offset."""
        assert send.floor is not None, send
        kind: AnomalyKind = "offset-order"
        before = send.floor
        if send.own is not None and offset <= send.own.offset:
            kind, before = "nonmonotonic-send", send.own
        text = f"{partition} offset {before.offset} was known before a send that got offset {offset}"
        self.findings.report(kind, text, (before.op, send.invocation, evidence))
