"""Status of every record sent, as columns for plots: time of the send, offset, status.

It agrees with the record book but stores no evidence, so it needs a tenth of the memory and can process a long history
a second time, after the check. It checks nothing; `records` finds and proves anomalies.

One row per record in the order of the invocations. `status` of a record whose send was

    acknowledged   ok, duplicate (at two offsets), lost (not polled, although a later offset was), unseen (not polled
                   yet), excused (not polled; below the log start, or where a trim of unknown outcome may have put it;
                   replaced in a compacted partition; of a topic that may have been deleted)
    refused        refused, aborted (refused, and yet polled)
    neither        stored (polled), absent

A record that was polled and is missing at the end of the history is vanished, regardless of the answer to its send: its
offset was last read with another value, or a linearizable list that was requested later ended at or below it. This
status comes first, because the others already follow from a single poll."""

from array import array
from collections.abc import Callable
from typing import ClassVar, Final, Literal, NamedTuple, get_args

from jepsen.checkers.checker import Checker, Findings
from jepsen.checkers.history import (
    FAIL,
    INFO,
    LIST,
    OK,
    POLL,
    SEND,
    TRIM,
    Fetched,
    Kind,
    ListOffsets,
    Op,
    Poll,
    Send,
    Trim,
    Value,
)
from jepsen.checkers.records import BEHIND_ALL
from jepsen.checkers.trims import UnknownTrims
from raftlog.errors import InvalidArgument
from raftlog.types import TopicPartition

Status = Literal["ok", "duplicate", "lost", "unseen", "excused", "refused", "aborted", "stored", "absent", "vanished"]
STATUSES: Final[tuple[Status, ...]] = get_args(Status)
_CODES: Final[dict[Status, int]] = {status: code for code, status in enumerate(STATUSES)}
_OUTCOMES: Final = {INFO: 0, OK: 1, FAIL: 2}
_NOWHERE: Final = -1
_HOLE_MAX: Final = 1_000_000
"""Largest distance, in offsets, of a new highest offset from the one before, up to which offsets are tracked."""


class StatusColumns(NamedTuple):
    """Columns of equal length, one row per record."""

    partitions: tuple[TopicPartition, ...]
    invoked_ns: "array[int]"
    partition: "array[int]"
    """Index into `partitions`."""
    offset: "array[int]"
    """Offset of the acknowledgement, else of the first poll, else −1."""
    status: "array[int]"
    """Index into `STATUSES`."""

    def counts(self) -> dict[Status, int]:
        """Return the number of records of each status that occurs."""
        return {status: count for code, status in enumerate(STATUSES) if (count := self.status.count(code))}


class _Partition:
    """Sent and received records of one partition.

    `polled_end` is the offset after the highest polled one, `start` the highest returned log start, `start_max` the
    highest possible log start. `phantoms` are values that were polled before they were sent, with their first
    offset."""

    __slots__ = (
        "holders",
        "keys",
        "may_be_deleted",
        "number",
        "phantoms",
        "polled_end",
        "rows",
        "start",
        "start_max",
        "tombstones",
    )

    def __init__(self, number: int) -> None:
        self.number = number
        self.rows: dict[Value, int] = {}
        self.phantoms: dict[Value, int] = {}
        self.holders = array("q")  # by offset: row of the value that was last read there; `_NOWHERE` if none was
        self.polled_end = 0
        self.may_be_deleted = False
        self.start = self.start_max = 0
        self.keys: dict[Value, str] = {}
        self.tombstones: set[Value] = set()


class RecordStatuses(Checker):
    """Status of each record at the end of a test, such as lost, or acknowledged and read.

    Feed it a history, then call `statuses`, which calls `may_be_deleted` (see `Topics`)."""

    invocations: ClassVar[frozenset[Kind]] = frozenset((SEND, TRIM))
    completions: ClassVar[frozenset[Kind]] = frozenset((SEND, POLL, LIST, TRIM))

    def __init__(
        self, findings: Findings | None = None, *, may_be_deleted: Callable[[TopicPartition], bool] | None = None
    ) -> None:
        """Create empty columns.

        `may_be_deleted` returns whether a partition may have been deleted with its topic; default: none."""
        super().__init__(findings)
        self._may_be_deleted = may_be_deleted
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._unknown_trims = UnknownTrims()
        self._invoked_ns = array("q")
        self._partition = array("I")
        self._acknowledged = array("q")  # the offset, or nowhere
        self._polled_at = array("q")  # the first offset at which it was polled, or nowhere
        self._outcome = array("B")
        self._is_duplicated = array("B")
        self._known_ns = array("q")  # when it was first known to stand somewhere
        self._is_missing = array("B")

    def _partition_of(self, name: TopicPartition) -> _Partition:
        """Return the records of a partition; create them at the first use."""
        known = self._partitions.get(name)
        if known is None:
            known = self._partitions[name] = _Partition(len(self._partitions))
        return known

    def on_crash(self, op: Op) -> None:
        """Record that the open trim of the process may still happen."""
        self._unknown_trims.on_crash(op.process)

    def on_invocation(self, op: Op) -> None:
        """Add a row of unknown outcome for each value of a send, or record an open trim."""
        if op.kind == TRIM:
            self._unknown_trims.on_invocation(op)
            return
        send = op.payload
        assert isinstance(send, Send), op
        place = self._partition_of(send.partition)
        count, row = len(send.values), len(self._invoked_ns)
        place.rows.update(zip(send.values, range(row, row + count), strict=True))
        self._invoked_ns.extend([op.time_ns] * count)
        self._partition.extend([place.number] * count)
        self._acknowledged.extend([_NOWHERE] * count)
        self._polled_at.extend([place.phantoms.pop(value, _NOWHERE) for value in send.values])
        self._outcome.extend([_OUTCOMES[INFO]] * count)
        self._is_duplicated.extend([0] * count)
        self._known_ns.extend([0] * count)
        self._is_missing.extend([0] * count)
        if send.keys:
            place.keys.update(zip(send.values, send.keys, strict=True))
            place.tombstones.update(send.tombstones)

    def on_completion(self, invocation: Op, op: Op) -> None:
        """Process the outcome of a send or trim, received records, or listed log starts and ends."""
        payload = op.payload
        if op.kind == TRIM:
            self._unknown_trims.on_completion(op)
        if isinstance(payload, Send):
            self._on_send(op, payload)
        elif op.type != OK:
            return
        elif isinstance(payload, Poll):
            for fetched in payload.fetched:
                self._on_fetched(fetched, op.time_ns)
        elif isinstance(payload, ListOffsets):
            for partition, start, end in payload.ranges:
                place = self._partition_of(partition)
                place.start = max(place.start, start)
                if payload.linearizable:
                    self._mark_vanished(place, end, invocation.time_ns)
        elif isinstance(payload, Trim):
            place = self._partition_of(payload.partition)
            place.start = max(place.start, payload.start)

    def _on_send(self, op: Op, send: Send) -> None:
        """Record outcome and offsets of a send's values. Raises `InvalidArgument` for a value that was not sent."""
        place = self._partition_of(send.partition)
        rows = place.rows
        for number, value in enumerate(send.values):
            row = rows.get(value)
            if row is None:
                raise InvalidArgument(f"value {value!r} completes a send that did not offer it: {op}")
            self._outcome[row] = _OUTCOMES[op.type]
            if op.type == OK:
                offset = self._acknowledged[row] = send.offsets[number]
                if self._polled_at[row] not in (_NOWHERE, offset):
                    self._is_duplicated[row] = 1
                self._record_seen(place, offset, row, op.time_ns)

    def _record_seen(self, place: _Partition, offset: int, row: int, now_ns: int) -> None:
        """Record that a client received the record of this row at the offset; a phantom has no row."""
        missing = offset + 1 - len(place.holders)
        if missing > _HOLE_MAX:
            return
        if missing > 0:
            place.holders.extend([_NOWHERE] * missing)
        before = place.holders[offset]
        if before not in (row, _NOWHERE):
            self._is_missing[before] = 1
        place.holders[offset] = row
        if row != _NOWHERE:
            self._is_missing[row] = 0
            self._known_ns[row] = self._known_ns[row] or now_ns

    def _mark_vanished(self, place: _Partition, end: int, asked_ns: int) -> None:
        """Mark rows as vanished that were known at or above `end` before the list with this end was requested."""
        for row in place.holders[end:]:
            if row != _NOWHERE and self._known_ns[row] < asked_ns:
                self._is_missing[row] = 1

    def _on_fetched(self, fetched: Fetched, now_ns: int) -> None:
        """Record the offsets at which values were received. A value that was not sent yet is recorded as phantom."""
        place = self._partition_of(fetched.partition)
        polled_at, acknowledged, is_gone = self._polled_at, self._acknowledged, self._is_missing
        rows = map(place.rows.get, fetched.values)
        for offset, row, value in zip(fetched.offsets, rows, fetched.values, strict=True):
            if row is None:
                place.phantoms.setdefault(value, offset)
                self._record_seen(place, offset, _NOWHERE, now_ns)
                continue
            if polled_at[row] != offset:
                if polled_at[row] != _NOWHERE or acknowledged[row] not in (_NOWHERE, offset):
                    self._is_duplicated[row] = 1
                if polled_at[row] == _NOWHERE:
                    polled_at[row] = offset
            elif not is_gone[row]:
                continue
            self._record_seen(place, offset, row, now_ns)
        if fetched.offsets:
            place.polled_end = max(place.polled_end, max(fetched.offsets) + 1)

    def statuses(self) -> StatusColumns:
        """Return the status of each record according to the entries read until now."""
        offset = array(
            "q", (a if a != _NOWHERE else p for a, p in zip(self._acknowledged, self._polled_at, strict=True))
        )
        status = array("B", bytes(len(offset)))
        for name, place in self._partitions.items():
            place.may_be_deleted = self._may_be_deleted is not None and self._may_be_deleted(name)
            place.start_max = max(place.start, self._unknown_trims.start_max(name))
            newest = _newest_offsets(place, offset, self._outcome)
            for value, row in place.rows.items():
                status[row] = _CODES[self._status_of(place, value, row, newest)]
        return StatusColumns(tuple(self._partitions), self._invoked_ns, self._partition, offset, status)

    def _status_of(self, place: _Partition, value: Value, row: int, newest: dict[str, int]) -> Status:
        """Return the status of a record at the end of the history (see module).

        `newest` is the highest offset of each key."""
        is_polled = self._polled_at[row] != _NOWHERE
        if self._is_duplicated[row]:
            return "duplicate"
        if is_polled and self._is_missing[row] and self._polled_at[row] >= place.start and not place.may_be_deleted:
            return "vanished"
        if self._outcome[row] == _OUTCOMES[INFO]:
            return "stored" if is_polled else "absent"
        if self._outcome[row] == _OUTCOMES[FAIL]:
            return "aborted" if is_polled else "refused"
        if is_polled:
            return "ok"
        offset = self._acknowledged[row]
        is_replaced = value in place.tombstones or offset < newest.get(place.keys.get(value, ""), offset)
        if offset < place.start_max or is_replaced or place.may_be_deleted:
            return "excused"
        return "lost" if offset < place.polled_end else "unseen"


def _newest_offsets(place: _Partition, offsets: "array[int]", outcomes: "array[int]") -> dict[str, int]:
    """Return the highest known offset of each key of a compacted partition.

    The offset is `BEHIND_ALL` if the newest record may have been replaced."""
    is_read = place.polled_end > max((offsets[row] for row in place.rows.values()), default=_NOWHERE)
    newest: dict[str, int] = {}
    for value, key in place.keys.items():
        row = place.rows[value]
        offset = offsets[row]
        is_unknown = offset == _NOWHERE and outcomes[row] != _OUTCOMES[FAIL]
        if is_unknown and (not is_read or value in place.tombstones):
            offset = BEHIND_ALL
        if offset != _NOWHERE and offset >= newest.get(key, offset):
            newest[key] = offset
    return newest
