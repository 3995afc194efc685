"""Checker of records handled by members of a consumer group: none skipped below a committed offset, keys in order.

`unhandled`: a read returned a committed offset above a record, and no handler had returned for this record when the
read ended. Only acknowledged records with keys are checked. `handled-out-of-order`: the first handler of a record began
before any handler had returned for an earlier record of the same key, although one returned later. A record may be
handled any number of times.

Memory: three numbers for each record that was handled."""

from typing import ClassVar, NamedTuple

from jepsen.checkers.checker import Checker, Findings
from jepsen.checkers.history import COMMITTED, HANDLE, OK, SEND, GroupOffsets, Handle, Kind, Op, Send
from raftlog.types import Offset, TopicPartition


class _Handled(NamedTuple):
    """First call of the handler for one record in one group: its invocation, and its return if it returned."""

    key: str
    began: Op
    returned: Op | None


class HandlerOrder(Checker):
    """Checker that handlers of a group receive the records of each key in order, and that no record is skipped."""

    invocations: ClassVar[frozenset[Kind]] = frozenset((HANDLE,))
    completions: ClassVar[frozenset[Kind]] = frozenset((HANDLE, SEND, COMMITTED))

    def __init__(self, findings: Findings | None = None) -> None:
        super().__init__(findings)
        self._stored: dict[TopicPartition, dict[Offset, Op]] = {}
        self._handled: dict[tuple[str, TopicPartition], dict[Offset, _Handled]] = {}
        self._reads: list[Op] = []

    def on_invocation(self, op: Op) -> None:
        """Record the first call of a handler for a record."""
        handle = op.payload
        assert isinstance(handle, Handle), op
        records = self._handled.setdefault((handle.group, handle.partition), {})
        records.setdefault(handle.offset, _Handled(handle.key, op, None))

    def on_completion(self, invocation: Op, op: Op) -> None:
        """Record a stored keyed send, a read of committed offsets, or the first return of a handler for a record."""
        payload = op.payload
        if op.type != OK:
            return
        if isinstance(payload, Send) and payload.keys:
            self._stored.setdefault(payload.partition, {}).update(dict.fromkeys(payload.offsets, op))
        elif isinstance(payload, GroupOffsets):
            self._reads.append(op)
        elif isinstance(payload, Handle):
            records = self._handled[payload.group, payload.partition]
            if records[payload.offset].returned is None:
                records[payload.offset] = records[payload.offset]._replace(returned=op)

    def finish(self) -> None:
        """Report records that were handled out of order, and committed offsets above unhandled records."""
        for (group, partition), records in self._handled.items():
            self._check_order(group, partition, records)
        for read in self._reads:
            assert isinstance(read.payload, GroupOffsets), read
            for partition, committed in read.payload.offsets:
                handled = self._handled.get((read.payload.group, partition))
                if committed is not None and handled is not None:
                    self._check_committed(read, partition, committed, handled)

    def _check_order(self, group: str, partition: TopicPartition, records: dict[Offset, _Handled]) -> None:
        """Report records whose first handler call began before the call for an earlier record of their key returned.

        `records` are all handled records of the group in the partition."""
        latest: dict[str, Op] = {}
        """For each key the latest of its earlier records' first returns."""
        for offset in sorted(records):
            key, began, returned = records[offset]
            before = latest.get(key)
            if before is not None and began.sequence < before.sequence:
                text = (
                    f"group {group}: {partition} offset {offset} began before an earlier record of key {key} returned"
                )
                self.findings.report("handled-out-of-order", text, (began, before))
            if returned is not None and (before is None or returned.sequence > before.sequence):
                latest[key] = returned

    def _check_committed(
        self, read: Op, partition: TopicPartition, committed: Offset, handled: dict[Offset, _Handled]
    ) -> None:
        """Report stored records below a committed offset for which no handler had returned when the offset was read.

        `read` is the completion of this read, `handled` has the handled records by offset."""
        for offset, sent in self._stored.get(partition, {}).items():
            record = handled.get(offset)
            returned = None if record is None else record.returned
            if offset < committed and (returned is None or returned.sequence > read.sequence):
                text = f"{partition} is committed up to {committed}, and no handler had returned for offset {offset}"
                self.findings.report("unhandled", text, (sent, returned, read))
