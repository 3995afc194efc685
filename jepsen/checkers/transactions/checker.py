"""Checker of transactions, after Adya's definitions and Elle's use of lists.

    aborted-read (G1a)        reported by the record book, as are lost, duplicated and unsent records
    intermediate-read (G1b)   a read ended between two records of a transaction, where no other one was open
    torn-transaction          one record of a transaction was read, and readers skipped another one
    unbalanced                the amounts of all read records do not add up to 0
    G0, G1c                   reported by `happened_before`
    offsets                   reported by `consumption`

A transaction is committed if its commit was acknowledged, or if any of its records was read. The order of writes to a
partition is known from the offsets. A commit becomes visible in each partition independently: a read of two partitions
may return the records of a transaction in only one of them."""

from typing import ClassVar, Final

from jepsen.checkers.checker import Checker, Findings
from jepsen.checkers.history import FAIL, OK, TXN, Append, Kind, Op, Scan, Transaction
from jepsen.checkers.records import RecordBook
from jepsen.checkers.transactions.consumption import Consumption, Ended
from jepsen.checkers.transactions.happened_before import Committed, HappenedBefore
from raftlog.errors import InvalidArgument
from raftlog.types import Offset, TopicPartition


class Transactions(Checker):
    """Checker of transactions, which reports at the end; `book` has the records that were read.

    `is_serial`: transactions that overlap must be serializable too."""

    invocations: ClassVar[frozenset[Kind]] = frozenset((TXN,))
    completions: ClassVar[frozenset[Kind]] = frozenset((TXN,))

    def __init__(self, book: RecordBook, findings: Findings | None = None, *, is_serial: bool = False) -> None:
        super().__init__(findings)
        self._book: Final = book
        self._is_serial = is_serial
        self._invoked: dict[int, Op] = {}
        self._ops: list[tuple[Op, Op | None]] = []

    def on_invocation(self, op: Op) -> None:
        """Record an open transaction. Raises `InvalidArgument` if its amounts do not add up to 0."""
        assert isinstance(op.payload, Transaction), op
        if sum(append.amount for append in op.payload.appends()):
            raise InvalidArgument(f"the amounts of a transaction do not add up to 0: {op}")
        self._invoked[op.process] = op

    def on_completion(self, invocation: Op, op: Op) -> None:
        """Record the end of a transaction."""
        del self._invoked[op.process]
        self._ops.append((invocation, op))

    def on_crash(self, op: Op) -> None:
        """Record that the open transaction of the process has no end."""
        invocation = self._invoked.pop(op.process, None)
        if invocation is not None:
            self._ops.append((invocation, None))

    def finish(self) -> None:
        """Check all transactions together (see module)."""
        self._ops += [(invocation, None) for invocation in self._invoked.values()]
        self._ops.sort(key=lambda pair: pair[0].sequence)
        ended = [self._judge(invocation, completion) for invocation, completion in self._ops]
        committed = [self._commit(each) for each in ended if each.is_committed]
        for each in ended:
            if each.is_committed and each.can_be_committed:
                self._check_whole(each)
        self._check_reads(ended, committed)
        HappenedBefore(committed, is_serial=self._is_serial).report(self.findings)
        Consumption(ended, self._book, self.findings).report()
        self._check_balance(ended)

    def _judge(self, invocation: Op, completion: Op | None) -> Ended:
        """Return the transaction with its outcome, as far as the history shows it."""
        transaction = (completion or invocation).payload
        assert isinstance(transaction, Transaction), invocation
        appends = transaction.appends()
        is_seen = any(map(self._is_polled, appends))
        is_acknowledged = completion is not None and completion.type == OK
        is_passed_over = not is_seen and any(map(self._is_passed, appends))
        return Ended(invocation, completion, transaction, is_seen or is_acknowledged, is_passed_over)

    def _is_polled(self, append: Append) -> bool:
        """Return whether any process received the appended value."""
        book = self._book.book(append.partition)
        return append.value in book.offsets and book.was_polled(append.value)

    def _is_passed(self, append: Append) -> bool:
        """Return whether readers have received records from beyond the offset of an append."""
        book = self._book.book(append.partition)
        return append.offset is not None and book.start <= append.offset < book.polled_end

    def _commit(self, ended: Ended) -> Committed:
        """Return a committed transaction with the known offsets of its appends, by number of the step."""
        offsets = {}
        for number, step in enumerate(ended.transaction.steps):
            if isinstance(step, Append):
                offset = self._book.book(step.partition).offsets.get(step.value, step.offset)
                if offset is not None:
                    offsets[number] = offset
        answered = ended.completion if ended.completion is not None and ended.completion.type == OK else None
        return Committed(ended.invocation, answered, ended.transaction, offsets)

    def _check_whole(self, transaction: Ended) -> None:
        """Report a transaction if one of its records was read, and a reader skipped another one."""
        appends = transaction.transaction.appends()
        seen = [append for append in appends if self._is_polled(append)]
        for append in appends:
            book = self._book.book(append.partition)
            if seen and self._is_passed(append) and append not in seen:
                text = f"{seen[0].partition} showed {seen[0].value!r} of a transaction, and {append.partition} showed "
                text += f"offset {book.polled_end - 1} and not {append.value!r} at {append.offset}"
                self.findings.report("torn-transaction", text, (transaction.op, book.polled_op))
                return

    def _check_reads(self, ended: list[Ended], committed: list[Committed]) -> None:
        """Report reads that ended between two records of a transaction, unless another one may have been open there.

        A read ends at the first record of an open transaction, or after a marker."""
        spans: dict[TopicPartition, list[tuple[Offset, Offset, Committed]]] = {}
        for each in committed:
            places: dict[TopicPartition, list[Offset]] = {}
            for number, offset in each.offsets.items():
                step = each.transaction.steps[number]
                assert isinstance(step, Append), step
                places.setdefault(step.partition, []).append(offset)
            for place, offsets in places.items():
                if len(offsets) > 1:
                    spans.setdefault(place, []).append((min(offsets), max(offsets), each))
        owners = self._owners(ended)
        for reader in ended:
            for step in reader.transaction.steps:
                if not isinstance(step, Scan):
                    continue
                for first, last, each in spans.get(step.partition, ()):
                    if first < step.end <= last and self._is_settled(step, each, owners):
                        text = f"a read of {step.partition} ended at {step.end}, between {first} and {last} of one "
                        self.findings.report("intermediate-read", f"{text}transaction", (each.op, reader.op))

    def _owners(self, ended: list[Ended]) -> dict[tuple[TopicPartition, Offset], Op]:
        """Return for every known offset the transaction that wrote it, by its invocation."""
        found = {}
        for each in ended:
            for append in each.transaction.appends():
                offset = self._book.book(append.partition).offsets.get(append.value, append.offset)
                if offset is not None:
                    found[append.partition, offset] = each.invocation
        return found

    def _is_settled(self, scan: Scan, between: Committed, owners: dict[tuple[TopicPartition, Offset], Op]) -> bool:
        """Return whether the record at the end of a read belongs to this transaction, or to none."""
        owner = owners.get((scan.partition, scan.end))
        is_plain = owner is None and scan.end in self._book.book(scan.partition).values
        return is_plain or owner is between.invocation

    def _check_balance(self, ended: list[Ended]) -> None:
        """Report amounts that do not add up to 0, if all records of committed transactions were read."""
        amounts: dict[TopicPartition, dict[object, int]] = {}
        for each in ended:
            for append in each.transaction.appends():
                if not append.amount:
                    continue
                amounts.setdefault(append.partition, {})[append.value] = append.amount
                book = self._book.book(append.partition)
                offset = book.offsets.get(append.value, append.offset)
                is_unread = offset is None or offset >= book.polled_end
                if each.is_committed and (is_unread or (each.completion is not None and each.completion.type == FAIL)):
                    return
        total, last = 0, None
        for place, by_value in amounts.items():
            book = self._book.book(place)
            total += sum(by_value.get(book.values[offset], 0) for offset in book.polled)
            last = book.polled_op or last
        if total:
            text = f"the amounts in {len(amounts)} partitions add up to {total}"
            self.findings.report("unbalanced", text, (last,))
