"""Checker of idempotent producers: their values are in the log in the order of their sequences, without a gap.

- `sequence-order`: of two values of one producer's epoch, the one with the greater number has the smaller offset;
- `sequence-gap`: two are in the log, and one between them is not, although that part of it was read. A producer
  retries a batch without an answer and sends no later one before, so the log must have refused later batches.

Numbers that only the `ok` of a send contains are those of a client that may have abandoned others, so gaps between them
are no anomaly; their order is checked all the same.

`records` checks that each value is stored once, at the offset in its answer (`duplicate`, `inconsistent-offset`). Reads
the book at the end; in compacted partitions only the order is checked.
"""

from itertools import pairwise
from typing import ClassVar, NamedTuple

from jepsen.checkers.checker import Checker, Findings
from jepsen.checkers.history import OK, SEND, Kind, Op, Send, Value
from jepsen.checkers.records import PartitionBook, RecordBook
from raftlog.types import Offset, TopicPartition


class _EpochKey(NamedTuple):
    """Key of the values of one producer epoch in one partition."""

    partition: TopicPartition
    producer: int
    epoch: int


class Sequences(Checker):
    """See the module."""

    invocations: ClassVar[frozenset[Kind]] = frozenset((SEND,))
    completions: ClassVar[frozenset[Kind]] = frozenset((SEND,))

    def __init__(self, book: RecordBook, findings: Findings | None = None) -> None:
        super().__init__(findings)
        self._book = book
        self._lines: dict[_EpochKey, dict[int, Value]] = {}
        self._of_answered: dict[_EpochKey, dict[int, Value]] = {}

    def on_invocation(self, op: Op) -> None:
        assert isinstance(op.payload, Send), op
        _add_send(op.payload, self._lines)

    def on_completion(self, invocation: Op, op: Op) -> None:
        assert isinstance(op.payload, Send), op
        assert isinstance(invocation.payload, Send), invocation
        if op.type == OK and invocation.payload.sequenced is None:
            _add_send(op.payload, self._of_answered)

    def finish(self) -> None:
        for line, values in self._lines.items():
            self._finish_line(line, values, self._book.book(line.partition))
        for line, values in self._of_answered.items():
            self._finish_line(line, values, self._book.book(line.partition), is_whole=False)

    def _finish_line(
        self, line: _EpochKey, values: dict[int, Value], book: PartitionBook, *, is_whole: bool = True
    ) -> None:
        known = [(number, book.offsets[value]) for number, value in sorted(values.items()) if value in book.offsets]
        for (number, offset), (later, after) in pairwise(known):
            ops = (book.witnesses[offset], book.witnesses[after])
            of = f"{line.partition} of producer {line.producer}/{line.epoch}"
            if after <= offset:
                text = f"{of}: number {later} stands at offset {after}, and {number} at {offset}"
                self.findings.report("sequence-order", text, ops)
            elif is_whole and later > number + 1 and self._was_read(book, offset, after):
                text = f"{of}: number {later} follows {number} at offsets {offset} and {after}; {number + 1} is missing"
                self.findings.report("sequence-gap", text, ops)

    def _was_read(self, book: PartitionBook, offset: Offset, after: Offset) -> bool:
        """Return whether the polls cover all offsets from `offset` to `after`."""
        return not book.is_compacted and offset >= book.start and after < book.polled_end


def _add_send(send: Send, lines: dict[_EpochKey, dict[int, Value]]) -> None:
    if send.sequenced is not None:
        producer, epoch, first = send.sequenced
        lines.setdefault(_EpochKey(send.partition, producer, epoch), {}).update(enumerate(send.values, first))
