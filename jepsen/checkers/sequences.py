"""Values of idempotent producers stand in the log in the order of their numbers, and none is left out.

- `sequence-order`: of two values of one producer's epoch, the one with the greater number has the smaller offset;
- `sequence-gap`: two are in the log, and one between them is not, although that part of it was read. A
  producer repeats what has no answer and never goes on without it, so the log must have refused what came after.

A number that only the `ok` of a send says is one of a client that may have given up others, so nothing is missing
between such; their order is checked all the same.

That each is there once, and where its answer says, is checked by `records` (`duplicate`, `inconsistent-offset`). Reads
the book at the end; partitions that are compacted are looked at for order only.
"""

from itertools import pairwise
from typing import ClassVar, NamedTuple

from jepsen.checkers.checker import Checker, Findings
from jepsen.checkers.history import OK, SEND, Kind, Op, Send, Value
from jepsen.checkers.records import PartitionBook, RecordBook
from raftlog.types import Offset, TopicPartition


class _Line(NamedTuple):
    """All values of one producer's epoch in one partition."""

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
        self._lines: dict[_Line, dict[int, Value]] = {}
        self._of_answered: dict[_Line, dict[int, Value]] = {}

    def invoked(self, op: Op) -> None:
        assert isinstance(op.payload, Send), op
        _note(op.payload, self._lines)

    def completed(self, invocation: Op, op: Op) -> None:
        assert isinstance(op.payload, Send), op
        assert isinstance(invocation.payload, Send), invocation
        if op.type == OK and invocation.payload.sequenced is None:
            _note(op.payload, self._of_answered)

    def finish(self) -> None:
        for line, values in self._lines.items():
            self._finish_line(line, values, self._book.book(line.partition))
        for line, values in self._of_answered.items():
            self._finish_line(line, values, self._book.book(line.partition), is_whole=False)

    def _finish_line(
        self, line: _Line, values: dict[int, Value], book: PartitionBook, *, is_whole: bool = True
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


def _note(send: Send, lines: dict[_Line, dict[int, Value]]) -> None:
    if send.sequenced is not None:
        producer, epoch, first = send.sequenced
        lines.setdefault(_Line(send.partition, producer, epoch), {}).update(enumerate(send.values, first))
