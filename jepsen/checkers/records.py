"""Record book, the index of all values of a history: sends, offsets, and the polls that returned them.

Reports at once: `inconsistent-offset` (one offset, two values), `duplicate` (one value, two offsets), `aborted-read`
(a value that definitely failed was read), `phantom` (a value that was never sent was read). Reports at the end:

- `lost-write`: acknowledged, never polled, although that offset or a later one was polled;
- `unseen`: acknowledged, never polled, and no poll reached its offset. It is an error only if the test read the whole
  log at its end. A record is never both.

Offsets below the highest known log start are excused: retention may have deleted them before any read. So are offsets
below the start of a trim of unknown outcome (`trims`); `polls` still detects a reader that skips one. In a compacted
partition tombstones are excused, and records with a possible newer record of their key. This can be a known record, a
tombstone of unknown outcome, or, while the records after the last polled one are unread, any record of unknown outcome
(`compaction` checks the rest). In a topic that may have been deleted (`topics`) no record must be read, because a
reader can begin anywhere; `polls` detects skipped records. Definitions after Jepsen's Kafka workload
(`jepsen.tests.kafka`), for values that are unique per partition.

Cost: a few dictionary entries per record; a repeated poll of known records costs one comparison.
"""

from typing import ClassVar, Final

from jepsen.checkers.checker import AnomalyKind, Checker, Findings
from jepsen.checkers.history import (
    FAIL,
    LIST,
    OK,
    POLL,
    SEND,
    TRIM,
    TXN,
    Fetched,
    Kind,
    ListOffsets,
    Op,
    Poll,
    Scan,
    Send,
    Transaction,
    Trim,
    Value,
)
from jepsen.checkers.trims import UnknownTrims
from raftlog.errors import InvalidArgument
from raftlog.types import Offset, TopicPartition

BEHIND_ALL: Final = Offset(1 << 63)
"""Upper bound of the offset of a record of unknown outcome."""


class PartitionBook:
    """Offsets and values of the known records of one partition, by the entries of a history.

    `offsets` has the first offset of each value, `values` the first value at each offset."""

    __slots__ = (
        "began",
        "end",
        "keys",
        "may_be_deleted",
        "name",
        "offsets",
        "polled",
        "polled_elsewhere",
        "polled_end",
        "polled_op",
        "sent",
        "start",
        "tombstones",
        "values",
        "witnesses",
    )

    def __init__(self, name: TopicPartition) -> None:
        self.name: Final = name
        self.sent: dict[Value, Op] = {}  # completion of the value's send, or its invocation if there is none
        self.values: dict[Offset, Value] = {}
        self.offsets: dict[Value, Offset] = {}
        self.witnesses: dict[Offset, Op] = {}  # first entry that shows the offset
        self.polled: set[Offset] = set()
        self.polled_elsewhere: set[Value] = set()  # polled anywhere but at `offsets[value]`
        self.polled_end = Offset(0)
        self.polled_op: Op | None = None
        self.start = Offset(0)  # highest log start that was returned
        self.end = Offset(0)  # highest end that was listed
        self.keys: dict[Value, str] = {}  # of all values of a compacted partition
        self.began: dict[Value, int] = {}  # the sequence of the invocation of its send, in a compacted partition
        self.tombstones: set[Value] = set()
        self.may_be_deleted = False  # with its topic, by the end: its records need not be seen

    @property
    def is_compacted(self) -> bool:
        """Whether the partition's records have keys."""
        return bool(self.keys)

    def newest_offsets(self) -> dict[str, Offset]:
        """Return the newest known offset of each key; `BEHIND_ALL` if the record may have been replaced."""
        is_read = not self.values or self.polled_end > max(self.values)
        newest: dict[str, Offset] = {}
        for value, key in self.keys.items():
            offset = self.offsets.get(value)
            if offset is None and self.sent[value].type != FAIL and (not is_read or value in self.tombstones):
                offset = BEHIND_ALL
            if offset is not None and offset >= newest.get(key, offset):
                newest[key] = offset
        return newest

    def was_polled(self, value: Value) -> bool:
        """Return whether a poll returned the value, at any offset."""
        offset = self.offsets[value]
        return value in self.polled_elsewhere or (offset in self.polled and self.values[offset] == value)


class RecordBook(Checker):
    """Checker of records: each acknowledged value is stored at one offset, and is read there.

    `Density` and `Polls` read the known records as well."""

    invocations: ClassVar[frozenset[Kind]] = frozenset((SEND, TRIM, TXN))
    completions: ClassVar[frozenset[Kind]] = frozenset((SEND, POLL, LIST, TRIM, TXN))

    def __init__(self, findings: Findings | None = None) -> None:
        super().__init__(findings)
        self.partitions: dict[TopicPartition, PartitionBook] = {}
        self._unknown_trims = UnknownTrims()
        self._reported: set[tuple[AnomalyKind, TopicPartition, Offset | None, Value]] = set()

    def book(self, partition: TopicPartition) -> PartitionBook:
        """Return the book of a partition; create it at the first use."""
        book = self.partitions.get(partition)
        if book is None:
            book = self.partitions[partition] = PartitionBook(partition)
        return book

    def on_invocation(self, op: Op) -> None:
        """Record the values that a send or transaction offers, and their keys, or an open trim.

        Raises `InvalidArgument` for a send without values, or with a value that was sent before."""
        if op.kind == TRIM:
            self._unknown_trims.on_invocation(op)
            return
        if isinstance(op.payload, Transaction):
            for append in op.payload.appends():
                self._add_sent(self.book(append.partition), append.value, op)
            return
        assert isinstance(op.payload, Send), op
        if not op.payload.values:
            raise InvalidArgument(f"a send has no value: {op}")
        book = self.book(op.payload.partition)
        for value in op.payload.values:
            self._add_sent(book, value, op)
        if op.payload.keys:
            book.keys.update(zip(op.payload.values, op.payload.keys, strict=True))
            book.tombstones.update(op.payload.tombstones)
            book.began.update(dict.fromkeys(op.payload.values, op.sequence))

    def _add_sent(self, book: PartitionBook, value: Value, op: Op) -> None:
        """Record a value as sent. Raises `InvalidArgument` if it was sent before."""
        if book.sent.setdefault(value, op) is not op:
            raise InvalidArgument(f"value {value!r} is sent twice; values are unique per partition: {op}")

    def on_crash(self, op: Op) -> None:
        """Record that the open trim of the process may still happen."""
        self._unknown_trims.on_crash(op.process)

    def on_completion(self, invocation: Op, op: Op) -> None:
        """Process the outcome of a send, transaction or trim, received records, or listed starts and ends."""
        if op.kind == TRIM:
            self._unknown_trims.on_completion(op)
        if op.kind == SEND:
            self._on_send(op)
        elif isinstance(op.payload, Transaction):
            self._on_transaction(op, op.payload)
        elif op.type == OK and op.kind == POLL:
            assert isinstance(op.payload, Poll), op
            for fetched in op.payload.fetched:
                self._on_fetched(op, fetched)
        elif op.type == OK and isinstance(op.payload, Trim):
            book = self.book(op.payload.partition)
            book.start = max(book.start, op.payload.start)
        elif op.type == OK:
            assert isinstance(op.payload, ListOffsets), op
            for partition, start, end in op.payload.ranges:
                book = self.book(partition)
                book.start, book.end = max(book.start, start), max(book.end, end)

    def _on_send(self, op: Op) -> None:
        """Record outcome and offsets of a send; report values that were read although the send definitely failed.

        Raises `InvalidArgument` for a value that was not sent, or for a wrong number of offsets."""
        send = op.payload
        assert isinstance(send, Send), op
        book = self.book(send.partition)
        for value in send.values:
            if value not in book.sent:
                raise InvalidArgument(f"value {value!r} completes a send that did not offer it: {op}")
            book.sent[value] = op
        if op.type == OK:
            if len(send.offsets) != len(send.values):
                raise InvalidArgument(f"{len(send.values)} values were acknowledged with {len(send.offsets)} offsets")
            for offset, value in zip(send.offsets, send.values, strict=True):
                self._record_offset(book, offset, value, op)
        elif op.type == FAIL:
            for value in send.values:
                if value in book.offsets:
                    self._report_aborted(book, value, op, book.witnesses[book.offsets[value]])

    def _on_transaction(self, op: Op, transaction: Transaction) -> None:
        """Record the reads of a transaction, and outcome and offsets of its appends.

        Report values that were read although the transaction definitely failed."""
        for step in transaction.steps:
            if isinstance(step, Scan):
                self._on_fetched(op, Fetched(step.partition, step.offsets, step.values))
        for append in transaction.appends():
            book = self.book(append.partition)
            book.sent[append.value] = op
            if op.type == OK:
                if append.offset is None:
                    raise InvalidArgument(f"value {append.value!r} was committed without an offset: {op}")
                self._record_offset(book, append.offset, append.value, op)
            elif op.type == FAIL and append.value in book.offsets:
                self._report_aborted(book, append.value, op, book.witnesses[book.offsets[append.value]])

    def _on_fetched(self, op: Op, fetched: Fetched) -> None:
        """Record received records. Records that are all known at their offsets cost one comparison."""
        partition, offsets, values = fetched
        if not offsets:
            return
        book = self.book(partition)
        if tuple(map(book.values.get, offsets)) == values:
            book.polled.update(offsets)
        else:
            self._check_polled(book, op, fetched)
        if (end := Offset(max(offsets) + 1)) > book.polled_end:
            book.polled_end, book.polled_op = end, op

    def _check_polled(self, book: PartitionBook, op: Op, fetched: Fetched) -> None:
        """Record received records one by one, and report contradictions.

        Raises `InvalidArgument` if the numbers of offsets and values differ."""
        if len(fetched.offsets) != len(fetched.values):
            raise InvalidArgument(f"a poll has {len(fetched.offsets)} offsets and {len(fetched.values)} values: {op}")
        for offset, value in zip(fetched.offsets, fetched.values, strict=True):
            if book.values.get(offset) != value:
                self._check_was_sent_before(book, value, op)
                self._record_offset(book, offset, value, op)
            if book.values[offset] == value:
                book.polled.add(offset)
            if book.values[offset] != value or book.offsets[value] != offset:
                book.polled_elsewhere.add(value)

    def _check_was_sent_before(self, book: PartitionBook, value: Value, op: Op) -> None:
        """Report a value that was read before its send was invoked, or after the send failed."""
        sender = book.sent.get(value)
        if sender is None:
            if self._is_first_report("phantom", book, None, value):
                self.findings.report("phantom", f"{book.name} showed {value!r} before it was sent", (op,))
        elif sender.type == FAIL:
            self._report_aborted(book, value, sender, op)

    def _record_offset(self, book: PartitionBook, offset: Offset, value: Value, op: Op) -> None:
        """Record that the entry shows the value at the offset; report a contradiction to earlier entries."""
        known = book.values.setdefault(offset, value)
        witness = book.witnesses.setdefault(offset, op)
        if known != value and self._is_first_report("inconsistent-offset", book, offset, value):
            text = f"{book.name} offset {offset} held {known!r} and {value!r}"
            self.findings.report("inconsistent-offset", text, (witness, op))
        first = book.offsets.setdefault(value, offset)
        if first != offset and self._is_first_report("duplicate", book, offset, value):
            text = f"{book.name} value {value!r} stands at offsets {first} and {offset}"
            self.findings.report("duplicate", text, (book.witnesses[first], op))

    def _report_aborted(self, book: PartitionBook, value: Value, failed: Op, seen: Op) -> None:
        """Report once that `value` was read although its send definitely failed."""
        if self._is_first_report("aborted-read", book, None, value):
            text = f"{book.name} value {value!r} definitely failed, and yet it was seen"
            self.findings.report("aborted-read", text, (failed, seen))

    def _is_first_report(self, kind: AnomalyKind, book: PartitionBook, offset: Offset | None, value: Value) -> bool:
        """Return whether this anomaly has not been reported before, and record it as reported."""
        key = (kind, book.name, offset, value)
        if key in self._reported:
            return False
        self._reported.add(key)
        return True

    def finish(self) -> None:
        """Report acknowledged records that no poll returned, except in partitions that may be deleted."""
        for book in self.partitions.values():
            if book.may_be_deleted:
                continue
            newest, start_max = book.newest_offsets(), max(book.start, self._unknown_trims.start_max(book.name))
            for value, op in book.sent.items():
                send = op.payload
                # The index has a send with several values once for each value; report it once.
                if op.type == OK and isinstance(send, Send) and value == send.values[0]:
                    for offset, each in zip(send.offsets, send.values, strict=True):
                        self._finish_record(book, op, offset, each, newest, start_max)
                elif op.type == OK and isinstance(send, Transaction):
                    self._finish_record(book, op, book.offsets[value], value, newest, start_max)

    def _finish_record(
        self, book: PartitionBook, op: Op, offset: Offset, value: Value, newest: dict[str, Offset], start_max: Offset
    ) -> None:
        """Report an acknowledged record that was never polled; one below `start_max` may have been deleted."""
        if offset < start_max or book.was_polled(value):
            return
        if value in book.tombstones or offset < newest.get(book.keys.get(value, ""), offset):
            return
        if offset < book.polled_end:
            text = f"{book.name} value {value!r} was acknowledged at offset {offset} and never polled"
            self.findings.report("lost-write", f"{text}; offset {book.polled_end - 1} was", (op, book.polled_op))
        else:
            text = f"{book.name} value {value!r} was acknowledged at offset {offset}; no poll got so far"
            self.findings.report("unseen", text, (op, book.polled_op))
