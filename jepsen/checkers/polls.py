"""Checker of consumers: a consumer receives records in the order of offsets, and skips none.

Within one poll (`int-nonmonotonic-poll`, `int-poll-skip`), and from one poll of a process to its next
(`nonmonotonic-poll`, `poll-skip`). An `assign` resets the position, to its offset if it has one. After `subscribe` only
the order within each poll is checked: a rebalance may move a consumer anywhere. A poll of unknown outcome may have
advanced the consumer: the next poll may skip records, but not go back. After an `assign` of unknown outcome the
position and the subscription of the consumer are unknown.

Offsets of a log are dense outside transactions and compaction, so with `dense` a step from 7 to 9 is a skip at once.
Without `dense` a skip is a step over an offset that any process received; the record book shows this at the end.
`compaction` checks which offsets a consumer of a compacted partition may pass over.
"""

from bisect import bisect_right
from typing import ClassVar, NamedTuple

from jepsen.checkers.checker import AnomalyKind, Checker, Findings
from jepsen.checkers.history import (
    ASSIGN,
    INFO,
    OK,
    POLL,
    SUBSCRIBE,
    Assign,
    Fetched,
    Kind,
    Op,
    Poll,
)
from jepsen.checkers.records import RecordBook
from raftlog.types import Offset, TopicPartition


class Consumer:
    """Positions of a consumer process.

    `last[p]` is the last offset that it received, with the entry of the poll."""

    __slots__ = ("last", "maybe_ahead", "subscribed")

    def __init__(self, *, subscribed: bool = False) -> None:
        self.last: dict[TopicPartition, tuple[Offset, Op]] = {}
        self.maybe_ahead: set[TopicPartition] = set()
        self.subscribed = subscribed


class Step(NamedTuple):
    """Offsets that a consumer skipped: it received `last`, and then `first`, without those between."""

    kind: AnomalyKind
    partition: TopicPartition
    last: Offset
    first: Offset
    ops: tuple[Op, Op]


class Polls(Checker):
    """Checker of the polls of consumers: order, repetitions and gaps.

    `book` (the known records) is needed only for logs that are not dense."""

    completions: ClassVar[frozenset[Kind]] = frozenset((POLL, ASSIGN, SUBSCRIBE))

    def __init__(self, findings: Findings | None = None, *, book: RecordBook | None = None, dense: bool = True) -> None:
        """Set whether every offset has a record (`dense`); without `dense`, `book` is required."""
        super().__init__(findings)
        assert dense or book is not None, "which offsets exist is known from the book"
        self._book, self._dense = book, dense
        self._consumers: dict[int, Consumer] = {}
        self._steps: list[Step] = []

    def on_completion(self, invocation: Op, op: Op) -> None:
        """Check a poll, or reset the position of a consumer after its assignment or subscription."""
        if op.kind == POLL:
            self._on_poll(op)
        elif op.type == OK or op.type == INFO:
            before = self._consumers.get(op.process)
            still_subscribed = op.type == INFO and before is not None and before.subscribed
            subscribed = still_subscribed or op.kind == SUBSCRIBE
            consumer = self._consumers[op.process] = Consumer(subscribed=subscribed)
            if op.type == OK and isinstance(op.payload, Assign):
                for partition, offset in op.payload.positions:
                    if offset is not None:
                        consumer.last[partition] = Offset(offset - 1), op

    def on_crash(self, op: Op) -> None:
        """Forget the position of the process."""
        self._consumers.pop(op.process, None)

    def _on_poll(self, op: Op) -> None:
        """Check the records of a poll. After a poll of unknown outcome the consumer may skip records once."""
        consumer = self._consumers.get(op.process)
        if consumer is None:
            consumer = self._consumers[op.process] = Consumer()
        if op.type == OK:
            assert isinstance(op.payload, Poll), op
            for fetched in op.payload.fetched:
                if fetched.offsets:
                    self._check_fetched(consumer, op, fetched)
        elif op.type == INFO:
            consumer.maybe_ahead.update(consumer.last)

    def _check_fetched(self, consumer: Consumer, op: Op, fetched: Fetched) -> None:
        """Check the offsets of one partition in a poll.

        They must be consecutive and, unless the consumer is subscribed, follow its last position."""
        partition, offsets, _ = fetched
        first, count = offsets[0], len(offsets)
        if count > 1 and offsets != tuple(range(first, first + count)):
            self._check_within_poll(op, fetched)
        if consumer.subscribed:
            return
        previous = consumer.last.get(partition)
        consumer.last[partition] = offsets[-1], op
        if previous is not None and first != previous[0] + 1:
            self._check_step(consumer, partition, previous, first, op)
        if consumer.maybe_ahead:
            consumer.maybe_ahead.discard(partition)

    def _check_step(
        self, consumer: Consumer, partition: TopicPartition, previous: tuple[Offset, Op], first: Offset, op: Op
    ) -> None:
        """Report a poll that began at or below the consumer's last offset, or that skipped offsets.

        `previous` is this last offset and the entry of its poll; `first` is the first offset of the poll `op`."""
        last, before = previous
        if first <= last:
            text = f"process {op.process} polled {partition} offset {first} after it was at {last}"
            self.findings.report("nonmonotonic-poll", text, (before, op))
        elif partition not in consumer.maybe_ahead:
            self._report_skip(Step("poll-skip", partition, last, first, (before, op)))

    def _check_within_poll(self, op: Op, fetched: Fetched) -> None:
        """Report offsets of one poll and partition that do not ascend by 1."""
        for last, first in zip(fetched.offsets, fetched.offsets[1:], strict=False):
            if first <= last:
                text = f"one poll of {fetched.partition} returned offset {first} after {last}"
                self.findings.report("int-nonmonotonic-poll", text, (op,))
            elif first > last + 1:
                self._report_skip(Step("int-poll-skip", fetched.partition, last, first, (op, op)))

    def _report_skip(self, step: Step) -> None:
        """Report skipped offsets, except in compacted partitions.

        If offsets are not dense, `finish` checks the step."""
        if self._book is not None and self._book.book(step.partition).is_compacted:
            return
        if not self._dense:
            self._steps.append(step)
            return
        text = f"process {step.ops[1].process} went from {step.partition} offset {step.last} to {step.first}"
        self.findings.report(step.kind, f"{text}; offsets between were skipped", step.ops)

    def finish(self) -> None:
        """Report the recorded steps that skipped an offset at which some process received a record."""
        known: dict[TopicPartition, list[Offset]] = {}
        for step in self._steps:
            assert self._book is not None, "logs that are not dense have a book"
            book = self._book.book(step.partition)
            if step.partition not in known:
                known[step.partition] = sorted(book.values)
            offsets = known[step.partition]
            skipped = bisect_right(offsets, step.last)
            if offsets[skipped] < step.first:
                text = f"process {step.ops[1].process} went from {step.partition} offset {step.last} to {step.first}"
                between = offsets[skipped]
                text += f" past offset {between}, which holds {book.values[between]!r}"
                self.findings.report(step.kind, text, (book.witnesses[between], *step.ops))
