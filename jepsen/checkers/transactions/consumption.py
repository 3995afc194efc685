"""Offsets that transactions consume, compared with each other and with the committed offsets that reads return.

    consumed-twice    two committed transactions of a group consumed one record
    skipped-input     a group committed an offset above a record that no transaction consumed
    aborted-offset    a read returned an offset that only an aborted transaction had committed
    stale-offset      a read of stable offsets missed a transaction that was committed before the read began
    phantom-commit    a read returned an offset that no transaction committed

A transaction of unknown outcome may have consumed its offsets, unless readers skipped its records."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from jepsen.checkers.checker import AnomalyKind, Findings
from jepsen.checkers.history import FAIL, OK, Consumed, OffsetsRead, Op, Transaction
from jepsen.checkers.records import RecordBook
from raftlog.types import Offset, TopicPartition

Place = tuple[str, TopicPartition]
"""Group and partition."""


class Ended(NamedTuple):
    """Transaction with its invocation, its completion (None without one), and the known part of its outcome."""

    invocation: Op
    completion: Op | None
    transaction: Transaction
    is_committed: bool
    """Whether it was certainly committed: its commit was acknowledged, or a record was read."""
    is_passed_over: bool
    """Whether readers skipped one of its records and read none of them."""

    @property
    def op(self) -> Op:
        """Last entry of the transaction: its completion, or the invocation if it has no completion."""
        return self.completion or self.invocation

    @property
    def can_be_committed(self) -> bool:
        """Whether nothing proves that the transaction was not committed."""
        is_failed = self.completion is not None and self.completion.type == FAIL
        return not is_failed and not (self.is_passed_over and not self.is_committed)


class _Range(NamedTuple):
    """Offsets that a transaction consumed."""

    first: Offset
    end: Offset
    by: Ended


class Consumption:
    """Ranges of offsets that transactions consumed, by group and partition."""

    def __init__(self, transactions: Sequence[Ended], book: RecordBook, findings: Findings) -> None:
        """Collect the consumed ranges of all transactions, by group and partition."""
        self._book, self._findings = book, findings
        self._transactions = transactions
        self._ranges: dict[Place, list[_Range]] = {}
        for each in transactions:
            for consumed in each.transaction.consumed:
                self._add(each, consumed)

    def _add(self, transaction: Ended, consumed: Consumed) -> None:
        """Add a range of offsets that the transaction consumed."""
        place = transaction.transaction.group, consumed.partition
        self._ranges.setdefault(place, []).append(_Range(consumed.first, consumed.end, transaction))

    def report(self) -> None:
        """Report all anomalies of consumed ranges, and of committed offsets that transactions read."""
        for (group, partition), ranges in self._ranges.items():
            self._check_ranges(group, partition, ranges)
        for each in self._transactions:
            for step in each.transaction.steps:
                if isinstance(step, OffsetsRead):
                    self._check_read(each, step)

    def _check_ranges(self, group: str, partition: TopicPartition, ranges: Iterable[_Range]) -> None:
        """Check that committed ranges are disjoint, and that the gaps between them hold no records."""
        possible = sorted(each for each in ranges if not each.by.is_committed and each.by.can_be_committed)
        last: _Range | None = None
        for each in sorted((each for each in ranges if each.by.is_committed), key=lambda each: each[:2]):
            at = last.end if last is not None else Offset(0)
            if last is not None and each.first < at:
                text = f"group {group} consumed {partition} offsets {each.first} to {min(at, each.end)} twice"
                self._findings.report("consumed-twice", text, (last.by.op, each.by.op))
            elif each.first > at:
                for offset in self._unconsumed(partition, at, each.first, possible):
                    text = (
                        f"group {group} went from {partition} offset {at} to {each.first} past the record at {offset}"
                    )
                    self._findings.report("skipped-input", text, (None if last is None else last.by.op, each.by.op))
                    break
            if last is None or each.end > last.end:
                last = each

    def _unconsumed(
        self, partition: TopicPartition, start: Offset, end: Offset, possible: Iterable[_Range]
    ) -> Iterable[Offset]:
        """Return offsets of records from `start` to `end` that no transaction of unknown outcome can have consumed."""
        book = self._book.book(partition)
        known = sorted(offset for offset in book.polled if start <= offset < end)
        return [offset for offset in known if not any(each.first <= offset < each.end for each in possible)]

    def _check_read(self, reader: Ended, step: OffsetsRead) -> None:
        """Report committed offsets that a transaction read, if they were never committed or are stale.

        An offset is stale if a transaction that ended before the read began had committed a higher one."""
        for partition, offset in step.offsets:
            ranges = self._ranges.get((reader.transaction.group, partition), [])
            shown = Offset(0) if offset is None else offset
            ends = [each for each in ranges if each.end == shown]
            if shown and not any(each.by.can_be_committed for each in ends):
                kind: AnomalyKind = "aborted-offset" if ends else "phantom-commit"
                text = f"group {reader.transaction.group} showed {partition} at {shown}, which was not committed"
                self._findings.report(kind, text, (*(each.by.op for each in ends), reader.op))
            before = [
                each
                for each in ranges
                if each.by.completion is not None
                and each.by.completion.type == OK
                and each.by.completion.sequence < reader.invocation.sequence
                and each.end > shown
            ]
            if before:
                newest = max(before, key=lambda each: each.end)
                text = (
                    f"group {reader.transaction.group} showed {partition} at {shown} after {newest.end} was committed"
                )
                self._findings.report("stale-offset", text, (newest.by.op, reader.op))
