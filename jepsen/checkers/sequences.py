"""Checker of idempotent producers: their values are in the log in the order of their sequences, without a gap.

- `sequence-order`: of two values of one producer epoch, the one with the greater sequence has the smaller offset;
- `sequence-gap`: two values are in the log, and one between them is missing, although this part of the log was read. A
  log must refuse a batch while an earlier one of the producer is missing.

If only the `ok` of a send has its sequence, the client may have abandoned other sends. Then, and in compacted
partitions, gaps are no anomaly, and only the order is checked.

`records` checks that each value is stored once, at the offset in its answer (`duplicate`, `inconsistent-offset`). This
checker reads the record book at the end.
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
    """Checker that the values of idempotent producers are stored once each, in the order of their sequences."""

    invocations: ClassVar[frozenset[Kind]] = frozenset((SEND,))
    completions: ClassVar[frozenset[Kind]] = frozenset((SEND,))

    def __init__(self, book: RecordBook, findings: Findings | None = None) -> None:
        super().__init__(findings)
        self._book = book
        self._epochs: dict[_EpochKey, dict[int, Value]] = {}
        self._answered_epochs: dict[_EpochKey, dict[int, Value]] = {}

    def on_invocation(self, op: Op) -> None:
        """Record the values by sequence that the producer of a send names at once."""
        assert isinstance(op.payload, Send), op
        _add_send(op.payload, self._epochs)

    def on_completion(self, invocation: Op, op: Op) -> None:
        """Record the values by sequence of a successful send if the sequence is known only from its answer."""
        assert isinstance(op.payload, Send), op
        assert isinstance(invocation.payload, Send), invocation
        if op.type == OK and invocation.payload.sequenced is None:
            _add_send(op.payload, self._answered_epochs)

    def finish(self) -> None:
        """Check the offsets of each producer epoch in each partition."""
        for key, values in self._epochs.items():
            self._check_epoch(key, values, self._book.book(key.partition))
        for key, values in self._answered_epochs.items():
            self._check_epoch(key, values, self._book.book(key.partition), is_complete=False)

    def _check_epoch(
        self, key: _EpochKey, values: dict[int, Value], book: PartitionBook, *, is_complete: bool = True
    ) -> None:
        """Report values out of order and, if all values of the epoch are known (`is_complete`), missing ones."""
        known = [(number, book.offsets[value]) for number, value in sorted(values.items()) if value in book.offsets]
        for (number, offset), (later, after) in pairwise(known):
            ops = (book.witnesses[offset], book.witnesses[after])
            of = f"{key.partition} of producer {key.producer}/{key.epoch}"
            if after <= offset:
                text = f"{of}: number {later} stands at offset {after}, and {number} at {offset}"
                self.findings.report("sequence-order", text, ops)
            elif is_complete and later > number + 1 and self._was_read(book, offset, after):
                text = f"{of}: number {later} follows {number} at offsets {offset} and {after}; {number + 1} is missing"
                self.findings.report("sequence-gap", text, ops)

    def _was_read(self, book: PartitionBook, offset: Offset, after: Offset) -> bool:
        """Return whether the polls cover all offsets from `offset` to `after`."""
        return not book.is_compacted and offset >= book.start and after < book.polled_end


def _add_send(send: Send, epochs: dict[_EpochKey, dict[int, Value]]) -> None:
    """Add the values of a send to its producer epoch, by sequence; nothing if the send has no sequence."""
    if send.sequenced is not None:
        producer, epoch, first = send.sequenced
        epochs.setdefault(_EpochKey(send.partition, producer, epoch), {}).update(enumerate(send.values, first))
