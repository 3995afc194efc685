"""Checker of compaction: a reader past an offset has received the newest value of every key below that offset.

- `lost-key`: a consumer passed over a record although no newer record of the same key had been sent when the consumer
  passed. Tombstones may be removed.
- `resurrected-key`: a final reader of the partition saw a value of a key and passed over the tombstone that is the
  newest record of the key. A final reader reads a log at rest to its end, after all sends have ended; an earlier reader
  may see an old value that is about to be removed and find its tombstone removed.

The offsets and the order of the remaining records are checked by `records` and `polls`. A consumer reads on from its
`assign`; offsets are looked up in the record book at the end. Subscribed consumers are not checked."""

from bisect import bisect_left
from typing import ClassVar, NamedTuple

from jepsen.checkers.checker import Checker, Findings
from jepsen.checkers.history import ASSIGN, FAIL, INFO, OK, POLL, SUBSCRIBE, Assign, Fetched, Kind, Op, Poll, Value
from jepsen.checkers.records import PartitionBook, RecordBook
from raftlog.types import Offset, TopicPartition


class _Step(NamedTuple):
    """Offsets that a consumer skipped: it received `last`, and then `first`, without those between."""

    last: Offset
    first: Offset
    op: Op


class _Pass:
    """Offsets that one consumer received since its assignment: from `start` to `last`, except those that `steps` skip.

    `sequence` is the entry of the assignment."""

    __slots__ = ("last", "sequence", "start", "steps")

    def __init__(self, start: Offset, sequence: int) -> None:
        self.start, self.sequence = start, sequence
        self.last = Offset(start - 1)
        self.steps: list[_Step] = []


class Compaction(Checker):
    """Checker of compacted partitions: readers miss only records that were replaced or deleted."""

    completions: ClassVar[frozenset[Kind]] = frozenset((ASSIGN, SUBSCRIBE, POLL))

    def __init__(self, book: RecordBook, findings: Findings | None = None) -> None:
        super().__init__(findings)
        self._book = book
        self._reading: dict[int, dict[TopicPartition, _Pass]] = {}
        self._passes: dict[TopicPartition, list[_Pass]] = {}

    def on_completion(self, invocation: Op, op: Op) -> None:
        """Process a poll, or begin a new pass of the process over each partition that it is assigned with an offset."""
        if op.kind == POLL:
            self._on_poll(op)
        elif op.type != FAIL:
            self._reading.pop(op.process, None)
            if op.type == OK and isinstance(op.payload, Assign):
                for partition, offset in op.payload.positions:
                    if offset is not None:
                        reading = _Pass(offset, op.sequence)
                        self._reading.setdefault(op.process, {})[partition] = reading
                        self._passes.setdefault(partition, []).append(reading)

    def on_crash(self, op: Op) -> None:
        """End the pass of the process."""
        self._reading.pop(op.process, None)

    def _on_poll(self, op: Op) -> None:
        """Add the records that a poll received to the passes of the process.

        End the passes after an unknown outcome."""
        if op.type == INFO:
            self._reading.pop(op.process, None)  # it may have moved on
        elif op.type == OK:
            assert isinstance(op.payload, Poll), op
            for fetched in op.payload.fetched:
                reading = self._reading.get(op.process, {}).get(fetched.partition)
                if reading is not None and self._book.book(fetched.partition).is_compacted:
                    self._add_fetched(reading, fetched, op)

    def _add_fetched(self, reading: _Pass, fetched: Fetched, op: Op) -> None:
        """Advance a pass by the received offsets, and record each range of offsets that it skipped."""
        for offset in fetched.offsets:
            if offset > reading.last + 1:
                reading.steps.append(_Step(reading.last, offset, op))
            reading.last = max(reading.last, offset)

    def finish(self) -> None:
        """Check all passes over compacted partitions."""
        for partition, passes in self._passes.items():
            book = self._book.book(partition)
            if book.is_compacted:
                self._finish_partition(book, passes)

    def _finish_partition(self, book: PartitionBook, passes: list[_Pass]) -> None:
        """Report the records that passes over one compacted partition missed, and old values of deleted keys.

        Only the last pass can be a final reader: it began after all sends had ended, and it reached the last known
        offset."""
        offsets = sorted(book.values)
        history = _group_by_key(book, offsets)
        rests_from = max((end.sequence for end in book.sent.values()), default=0)
        for reading in passes:
            is_last = reading is passes[-1] and reading.sequence > rests_from
            is_at_rest = is_last and bool(offsets) and reading.last >= offsets[-1]
            for step in reading.steps:
                for place in range(bisect_left(offsets, step.last + 1), bisect_left(offsets, step.first)):
                    self._check_missed(book, history, offsets[place], step, is_at_rest=is_at_rest)
            if is_at_rest:
                self._check_tombstones(book, history, reading)

    def _check_missed(
        self, book: PartitionBook, history: dict[str, list[Offset]], offset: Offset, step: _Step, *, is_at_rest: bool
    ) -> None:
        """Report a skipped record unless it was deleted, or a newer record of its key was or may be in the log."""
        value = book.values[offset]
        if offset < book.start or value in book.tombstones or value not in book.keys:
            return
        same = history[book.keys[value]]
        newer = same[bisect_left(same, offset) + 1 :]
        if any(_was_send_invoked(book, book.values[each], step.op) for each in newer):
            return
        if _may_be_replaced(book, value, step.op, by_any=not is_at_rest):
            return
        text = f"process {step.op.process} went from {book.name} offset {step.last} to {step.first}, past offset"
        text += f" {offset} with {value!r}, the newest of key {book.keys[value]!r}"
        self.findings.report("lost-key", text, (book.witnesses[offset], step.op))

    def _check_tombstones(self, book: PartitionBook, history: dict[str, list[Offset]], last: _Pass) -> None:
        """Report keys whose newest record, a tombstone, was skipped while an older record was read."""
        missed = _skipped_offsets(history, last)
        for key, offsets in history.items():
            newest = offsets[-1]
            removal = book.values[newest]
            if newest not in missed or removal not in book.tombstones or newest < book.start:
                continue
            step = missed[newest]
            shown = [offset for offset in offsets if last.start <= offset < newest and offset not in missed]
            if not shown or book.values[shown[-1]] in book.tombstones:
                continue
            if not _may_be_replaced(book, removal, step.op, by_any=True):
                text = f"{book.name}: key {key!r} was removed at offset {newest}, and is back with offset {shown[-1]}"
                self.findings.report("resurrected-key", text, (book.witnesses[newest], step.op))


def _group_by_key(book: PartitionBook, offsets: list[Offset]) -> dict[str, list[Offset]]:
    """Return the known offsets of each key, ascending."""
    found: dict[str, list[Offset]] = {}
    for offset in offsets:
        key = book.keys.get(book.values[offset])
        if key is not None:
            found.setdefault(key, []).append(offset)
    return found


def _skipped_offsets(history: dict[str, list[Offset]], reading: _Pass) -> dict[Offset, _Step]:
    """Return the known offsets that a consumer skipped, each with the step that skipped it."""
    known = sorted(offset for offsets in history.values() for offset in offsets)
    return {
        known[place]: step
        for step in reading.steps
        for place in range(bisect_left(known, step.last + 1), bisect_left(known, step.first))
    }


def _was_send_invoked(book: PartitionBook, value: Value, by: Op) -> bool:
    """Return whether the value's send was invoked before this entry."""
    return book.began[value] < by.sequence


def _may_be_replaced(book: PartitionBook, value: Value, by: Op, *, by_any: bool) -> bool:
    """Return whether the log may hold, or have held, an unseen newer record of the key, whose send had unknown outcome.

    Such a record is a tombstone that was removed or, with `by_any` (for early readers), any record that was replaced
    later."""
    key = book.keys[value]
    return any(
        book.keys[each] == key
        and each not in book.offsets
        and book.sent[each].type != FAIL
        and _was_send_invoked(book, each, by)
        for each in (book.keys if by_any else book.tombstones)
    )
