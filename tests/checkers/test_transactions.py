"""Histories of transactions written by hand: each anomaly is found, with its proof, and similar correct ones pass.

One line of a history is `begin(process, step …)` or `commit(invocation, step …)`; steps are made by short functions."""

from typing import Any

import pytest

from jepsen.checkers import (
    Append,
    Consumed,
    HistoryChecker,
    OffsetsRead,
    Op,
    Rules,
    Scan,
    Transaction,
    Verdict,
    check_history,
    read_lines,
    write_lines,
)
from jepsen.checkers.history import Fetched, Poll
from raftlog.errors import InvalidArgument
from raftlog.types import Offset, TopicPartition
from tests.checkers.written_history import WrittenHistory

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
RULES = Rules(dense=False)


def append(place: TopicPartition, value: int, offset: int | None = None, amount: int = 0) -> Append:
    return Append(place, value, None if offset is None else Offset(offset), amount)


def scan(place: TopicPartition, end: int, records: dict[int, int]) -> Scan:
    """Return a read from offset 0 to `end` that showed these values by offset."""
    return Scan(place, Offset(0), Offset(end), tuple(map(Offset, records)), tuple(records.values()))


def consumed(first: int, end: int, place: TopicPartition = A) -> Consumed:
    return Consumed(place, Offset(first), Offset(end))


def offset_at(offset: int | None, place: TopicPartition = A) -> OffsetsRead:
    return OffsetsRead(((place, None if offset is None else Offset(offset)),))


class TransactionHistory(WrittenHistory):
    """History of transactions: two partitions, and groups that consume the first."""

    def begin(self, process: int, *steps: Any, consumes: tuple[Consumed, ...] = ()) -> Op:
        offered = tuple(
            step._replace(offset=None)
            if isinstance(step, Append)
            else (Scan(step.partition) if isinstance(step, Scan) else OffsetsRead())
            for step in steps
        )
        return self.recorder.invoke(process, "txn", Transaction(offered, "g" if consumes else "", consumes))

    def commit(self, begun: Op, *steps: Any) -> Op:
        assert isinstance(begun.payload, Transaction)
        return self.recorder.ok(begun, begun.payload._replace(steps=steps))

    def end(self, begun: Op, outcome: str, *steps: Any) -> Op:
        assert isinstance(begun.payload, Transaction)
        made: Op = getattr(self.recorder, outcome)(begun, "why", begun.payload._replace(steps=steps))
        return made

    def run(self, process: int, *steps: Any, outcome: str = "ok", consumes: tuple[Consumed, ...] = ()) -> Op:
        begun = self.begin(process, *steps, consumes=consumes)
        return self.commit(begun, *steps) if outcome == "ok" else self.end(begun, outcome, *steps)

    def show(self, place: TopicPartition, records: dict[int, int], process: int = 90) -> Op:
        """Poll these values by offset."""
        fetched = Fetched(place, tuple(map(Offset, records)), tuple(records.values()))
        return self.recorder.ok(self.recorder.invoke(process, "poll", Poll()), Poll((fetched,)))

    def verdict(self, rules: Rules = RULES) -> Verdict:
        """Check the history as it was written, and as it is after a file."""
        verdict = check_history(self.ops, rules)
        assert check_history(read_lines(write_lines(self.ops)), rules) == verdict
        return verdict

    def found(self, rules: Rules = RULES) -> list[str]:
        return list(self.verdict(rules).counts)

    def check_found(self, kind: str, *proof: Op, rules: Rules = RULES) -> str:
        """Check that exactly this anomaly is found, with this proof; return its sentence."""
        verdict = self.verdict(rules)
        assert [each.kind for each in verdict.anomalies] == [kind], verdict
        assert verdict.anomalies[0].ops == proof
        return verdict.anomalies[0].what


@pytest.fixture
def history() -> TransactionHistory:
    return TransactionHistory()


# records of transactions in the record book


def test_a_committed_record_that_is_passed_over_is_lost(history: TransactionHistory) -> None:
    lost = history.run(1, append(A, 70, 0))
    history.run(1, append(A, 71, 2))
    poll = history.show(A, {2: 71})
    assert "70" in history.check_found("lost-write", lost, poll)


def test_a_committed_record_at_two_offsets_is_a_duplicate(history: TransactionHistory) -> None:
    made = history.run(1, append(A, 70, 0))
    poll = history.show(A, {0: 70, 1: 70})
    history.check_found("duplicate", made, poll)


def test_a_record_of_an_aborted_transaction_must_not_be_seen(history: TransactionHistory) -> None:
    """G1a."""
    aborted = history.run(1, append(A, 70, 0), outcome="fail")
    poll = history.show(A, {0: 70})
    history.check_found("aborted-read", aborted, poll)


def test_an_aborted_read_is_found_in_a_transaction_too_and_in_either_order(history: TransactionHistory) -> None:
    begun = history.begin(1, append(A, 70))
    reader = history.run(2, scan(A, 1, {0: 70}), outcome="info")
    aborted = history.end(begun, "fail", append(A, 70, 0))
    history.check_found("aborted-read", reader, aborted)


def test_a_record_that_no_transaction_appended_is_a_phantom(history: TransactionHistory) -> None:
    reader = history.run(2, scan(A, 1, {0: 70}))
    history.check_found("phantom", reader)


def test_a_reader_that_skips_a_committed_record_is_found(history: TransactionHistory) -> None:
    history.run(1, append(A, 70, 0), append(A, 71, 1), append(A, 72, 2))
    history.show(A, {0: 70, 1: 71, 2: 72})
    history.show(A, {0: 70, 2: 72}, process=91)
    assert history.found() == ["int-poll-skip"]


def test_offsets_of_markers_and_aborted_records_are_no_gap(history: TransactionHistory) -> None:
    history.run(1, append(A, 70, 0))
    history.run(1, append(A, 71, 2), outcome="fail")
    history.run(1, append(A, 72, 4))
    history.show(A, {0: 70, 4: 72})
    assert history.found() == []


@pytest.mark.parametrize("outcome", ["info", "fail", "open", "crash"])
def test_a_transaction_without_an_acknowledged_commit_may_be_missing(history: TransactionHistory, outcome: str) -> None:
    begun = history.begin(1, append(A, 70), append(B, 71))
    if outcome == "crash":
        history.recorder.crash(1)
    elif outcome != "open":
        history.end(begun, outcome, append(A, 70, 0), append(B, 71, 0))
    history.run(2, append(A, 72, 2), append(B, 73, 2))
    history.show(A, {2: 72})
    history.show(B, {2: 73})
    assert history.found() == []


@pytest.mark.parametrize("is_told", [True, False])
def test_a_transaction_of_unknown_outcome_may_be_visible(history: TransactionHistory, is_told: bool) -> None:
    begun = history.begin(1, append(A, 70), append(B, 71))
    if is_told:
        history.end(begun, "info", append(A, 70, 0), append(B, 71, 0))
    history.show(A, {0: 70})
    history.show(B, {0: 71})
    assert history.found() == []


# atomicity


def test_a_transaction_of_which_a_part_is_visible_is_torn(history: TransactionHistory) -> None:
    torn = history.run(1, append(A, 70, 0), append(B, 71, 0), outcome="info")
    history.run(2, append(B, 72, 2))
    history.show(A, {0: 70})
    poll = history.show(B, {2: 72})
    assert "not 71 at 0" in history.check_found("torn-transaction", torn, poll)


def test_a_part_that_was_not_read_yet_is_not_torn(history: TransactionHistory) -> None:
    history.run(1, append(A, 70, 0), append(B, 71, 3), outcome="info")
    history.run(2, append(B, 72, 0))
    history.show(A, {0: 70})
    history.show(B, {0: 72})
    assert history.found() == []


def test_a_read_that_ends_inside_of_a_transaction_is_intermediate(history: TransactionHistory) -> None:
    """G1b: the last stable offset lies before the first record of an open transaction, or after its last one."""
    begun = history.begin(1, append(A, 70), append(A, 71))
    reader = history.run(2, scan(A, 1, {0: 70}))
    writer = history.commit(begun, append(A, 70, 0), append(A, 71, 1))
    history.show(A, {0: 70, 1: 71})
    assert "ended at 1, between 0 and 1" in history.check_found("intermediate-read", reader, writer)


@pytest.mark.parametrize("outcome", ["ok", "fail", "info"])
def test_a_read_that_ends_where_another_transaction_was_open_is_correct(
    history: TransactionHistory, outcome: str
) -> None:
    """The last stable offset, that of the first open transaction, may lie between records of a committed one."""
    other = history.begin(1, append(A, 80))
    history.run(2, append(A, 70, 0), append(A, 71, 2))
    history.run(3, scan(A, 1, {0: 70}))
    if outcome == "ok":
        history.commit(other, append(A, 80, 1))
    else:
        history.end(other, outcome, append(A, 80, 1))
    history.show(A, {0: 70, 1: 80, 2: 71} if outcome == "ok" else {0: 70, 2: 71})
    assert history.found() == []


def test_a_read_that_ends_at_a_plain_record_inside_of_a_transaction_is_intermediate(
    history: TransactionHistory,
) -> None:
    history.run(2, append(A, 70, 0), append(A, 71, 2))
    sent = history.begin_send(1, 80)
    history.end_send(sent, 1)
    history.run(3, scan(A, 1, {0: 70}))
    history.show(A, {0: 70, 1: 80, 2: 71})
    assert history.found() == ["intermediate-read"]


@pytest.mark.parametrize("end", [0, 3])
def test_a_read_that_ends_before_or_after_a_transaction_is_correct(history: TransactionHistory, end: int) -> None:
    begun = history.begin(1, append(A, 70), append(A, 71))
    history.commit(begun, append(A, 70, 0), append(A, 71, 1))
    history.run(2, scan(A, end, {0: 70, 1: 71} if end else {}))
    history.show(A, {0: 70, 1: 71})
    assert history.found() == []


@pytest.mark.parametrize("is_read", [True, False])
def test_a_list_of_committed_records_may_end_below_a_record_that_was_not_read(
    history: TransactionHistory,
    is_read: bool,
) -> None:
    """An open transaction holds up the last stable offset, but never moves it back."""
    sent = history.send(1, 70, 4)
    poll = history.poll(2, (4, 70)) if is_read else sent
    listed = history.list_offsets(3, 0, 3, linearizable=True)
    if is_read:
        history.check_found("stale-end", poll, listed)
    else:
        history.poll(2, (4, 70))
        assert history.found() == []


# cycles


def test_sequential_transactions_have_one_order_in_all_partitions(history: TransactionHistory) -> None:
    """G0 against real time: the second transaction began after the commit of the first."""
    first = history.run(1, append(A, 70, 0), append(B, 71, 4))
    second = history.run(2, append(A, 72, 2), append(B, 73, 2))
    history.show(A, {0: 70, 2: 72})
    history.show(B, {2: 73, 4: 71})
    what = history.check_found("write-cycle", first, second)
    assert "transaction #2 wrote before transaction #0" in what


def test_overlapping_transactions_may_interleave_unless_they_must_be_serializable(history: TransactionHistory) -> None:
    """G0 by Adya: Kafka's protocol does not isolate writes."""
    one = history.begin(1, append(A, 70), append(B, 71))
    other = history.begin(2, append(B, 73), append(A, 72))
    first = history.commit(one, append(A, 70, 0), append(B, 71, 1))
    second = history.commit(other, append(B, 73, 0), append(A, 72, 1))
    history.show(A, {0: 70, 1: 72})
    history.show(B, {0: 73, 1: 71})
    assert history.found() == []
    history.check_found("write-cycle", first, second, rules=Rules(dense=False, serial_transactions=True))


def test_writes_against_the_order_of_both_transactions_are_a_cycle_although_they_overlap(
    history: TransactionHistory,
) -> None:
    one = history.begin(1, append(A, 70), append(B, 71))
    other = history.begin(2, append(B, 73), append(A, 72))
    first = history.commit(one, append(A, 70, 1), append(B, 71, 0))
    second = history.commit(other, append(B, 73, 1), append(A, 72, 0))
    history.show(A, {0: 72, 1: 70})
    history.show(B, {0: 71, 1: 73})
    history.check_found("write-cycle", first, second)


def test_transactions_that_read_each_other_are_a_cycle(history: TransactionHistory) -> None:
    """G1c of reads alone: each was committed before the other one read it."""
    one = history.begin(1, append(A, 70), scan(B, 1, {}))
    other = history.begin(2, append(B, 71), scan(A, 1, {}))
    first = history.commit(one, append(A, 70, 0), scan(B, 1, {0: 71}))
    second = history.commit(other, append(B, 71, 0), scan(A, 1, {0: 70}))
    assert "read what" in history.check_found("circular-information-flow", first, second)


def test_a_transaction_that_reads_its_own_open_records_is_a_cycle(history: TransactionHistory) -> None:
    reader = history.run(1, append(A, 70, 0), scan(A, 1, {0: 70}))
    history.check_found("circular-information-flow", reader)


def test_a_cycle_of_a_write_and_a_read_is_found_for_serializable_transactions(history: TransactionHistory) -> None:
    """G1c by Adya; legal in Kafka: the reader appended before the other one committed, and read afterwards."""
    reader = history.begin(1, append(A, 70), scan(B, 1, {}))
    writer = history.run(2, append(A, 72, 1), append(B, 73, 0))
    reading = history.commit(reader, append(A, 70, 0), scan(B, 1, {0: 73}))
    history.show(A, {0: 70, 1: 72})
    assert history.found() == []
    rules = Rules(dense=False, serial_transactions=True)
    history.check_found("circular-information-flow", writer, reading, rules=rules)


def test_a_longer_cycle_is_found_and_reported_once(history: TransactionHistory) -> None:
    places = [TopicPartition("t", number) for number in range(3)]
    begun = [history.begin(n, append(place, n), scan(places[n - 1], 1, {})) for n, place in enumerate(places)]
    made = [
        history.commit(op, append(place, n, 0), scan(places[n - 1], 1, {0: (n - 1) % 3}))
        for n, (op, place) in enumerate(zip(begun, places, strict=True))
    ]
    history.check_found("circular-information-flow", *made)


def test_a_chain_of_reads_is_no_cycle(history: TransactionHistory) -> None:
    history.run(1, append(A, 70, 0))
    history.run(2, scan(A, 1, {0: 70}), append(B, 71, 0))
    history.run(1, scan(B, 1, {0: 71}), append(A, 72, 2))
    history.show(A, {0: 70, 2: 72})
    assert history.found(Rules(dense=False, serial_transactions=True)) == []


def test_many_transactions_are_checked_without_recursion(history: TransactionHistory) -> None:
    for number in range(3_000):
        history.run(1, append(A, number, 2 * number), scan(B, 0, {}))
    history.show(A, {2 * number: number for number in range(3_000)})
    assert check_history(history.ops, RULES).is_clean()


# bank


def test_amounts_that_were_read_add_up_to_nothing(history: TransactionHistory) -> None:
    history.run(1, append(A, 70, 0, -5), append(B, 71, 0, 5))
    history.run(1, append(A, 72, 2, 3), append(B, 73, 2, -3), outcome="fail")
    history.show(A, {0: 70})
    history.show(B, {0: 71})
    assert history.found() == []


def test_a_duplicated_amount_is_unbalanced(history: TransactionHistory) -> None:
    history.run(1, append(A, 70, 0, -5), append(B, 71, 0, 5))
    history.show(A, {0: 70, 1: 70})
    history.show(B, {0: 71})
    assert history.found() == ["duplicate", "unbalanced"]


def test_amounts_of_a_torn_transfer_are_unbalanced(history: TransactionHistory) -> None:
    history.run(1, append(A, 70, 0, -5), append(B, 71, 0, 5), outcome="info")
    history.run(1, append(A, 72, 2, 2), append(B, 73, 2, -2))
    history.show(A, {0: 70, 2: 72})
    poll = history.show(B, {2: 73})
    verdict = history.verdict()
    assert list(verdict.counts) == ["torn-transaction", "unbalanced"]
    assert verdict.anomalies[1].what == "the amounts in 2 partitions add up to -5"
    assert verdict.anomalies[1].ops == (poll,)


def test_amounts_that_were_not_read_yet_are_not_compared(history: TransactionHistory) -> None:
    history.run(1, append(A, 70, 0, -5), append(B, 71, 0, 5))
    history.show(A, {0: 70})
    assert history.found() == ["unseen"]


def test_unequal_amounts_are_an_error_of_the_recorder(history: TransactionHistory) -> None:
    history.begin(1, append(A, 70, 0, -5))
    with pytest.raises(InvalidArgument, match="do not add up"):
        check_history(history.ops)


# read-process-write


def make_chain(history: TransactionHistory) -> None:
    """Add a chain that consumed the three records of partition A."""
    history.run(1, append(A, 70, 0), append(A, 71, 1), append(A, 72, 2))
    history.run(2, offset_at(None), append(B, 700, 0), append(B, 710, 1), consumes=(consumed(0, 2),))
    history.run(2, offset_at(2), append(B, 720, 3), consumes=(consumed(2, 3),))
    history.show(A, {0: 70, 1: 71, 2: 72})
    history.show(B, {0: 700, 1: 710, 3: 720})


def test_a_chain_consumes_each_record_once(history: TransactionHistory) -> None:
    make_chain(history)
    history.run(3, offset_at(3), consumes=(consumed(3, 4),))
    assert history.found() == []


def test_two_committed_transactions_that_consume_a_record_are_found(history: TransactionHistory) -> None:
    make_chain(history)
    first = next(op for op in history.ops if op.type == "ok" and op.process == 2)
    again = history.run(3, append(B, 711, 5), consumes=(consumed(1, 2),))
    history.show(B, {5: 711}, process=91)
    assert "offsets 1 to 2 twice" in history.check_found("consumed-twice", first, again)


def test_a_chain_that_goes_past_a_record_skipped_it(history: TransactionHistory) -> None:
    """A transaction began at an offset that another one had committed and that was aborted."""
    history.run(1, append(A, 70, 0), append(A, 71, 1), append(A, 72, 2))
    history.run(2, append(B, 700, 0), consumes=(consumed(0, 1),), outcome="fail")
    skipping = history.run(3, append(B, 710, 2), consumes=(consumed(1, 2),))
    history.show(A, {0: 70, 1: 71, 2: 72})
    history.show(B, {2: 710})
    assert "past the record at 0" in history.check_found("skipped-input", skipping)


def test_gaps_without_records_and_of_unknown_outcome_are_allowed(history: TransactionHistory) -> None:
    history.run(1, append(A, 70, 0))
    history.run(1, append(A, 71, 2))
    history.run(2, consumes=(consumed(0, 1),), outcome="info")
    history.run(2, append(B, 710, 0), consumes=(consumed(2, 3),))
    history.show(A, {0: 70, 2: 71})
    history.show(B, {0: 710})
    assert history.found() == []


def test_offsets_committed_without_the_records_of_their_transaction_skip_its_input(history: TransactionHistory) -> None:
    history.run(1, append(A, 70, 0), append(A, 71, 1))
    history.run(2, append(B, 700, 0), consumes=(consumed(0, 1),), outcome="info")
    history.run(2, append(B, 710, 2), consumes=(consumed(1, 2),))
    history.show(A, {0: 70, 1: 71})
    history.show(B, {2: 710})
    assert history.found() == ["skipped-input"]


def test_records_committed_without_the_offsets_of_their_transaction_are_consumed_twice(
    history: TransactionHistory,
) -> None:
    history.run(1, append(A, 70, 0))
    history.run(2, append(B, 700, 0), consumes=(consumed(0, 1),), outcome="info")
    history.run(2, append(B, 701, 2), consumes=(consumed(0, 1),))
    history.show(A, {0: 70})
    history.show(B, {0: 700, 2: 701})
    assert history.found() == ["consumed-twice"]


def test_an_offset_of_an_aborted_transaction_must_not_be_read(history: TransactionHistory) -> None:
    aborted = history.run(2, consumes=(consumed(0, 2),), outcome="fail")
    reader = history.run(3, offset_at(2), consumes=(consumed(2, 3),))
    history.check_found("aborted-offset", aborted, reader)


def test_an_offset_that_nothing_committed_must_not_be_read(history: TransactionHistory) -> None:
    reader = history.run(3, offset_at(2), consumes=(consumed(2, 3),))
    history.check_found("phantom-commit", reader)


def test_an_offset_of_an_unknown_commit_may_be_read(history: TransactionHistory) -> None:
    history.run(2, consumes=(consumed(0, 2),), outcome="info")
    history.run(3, offset_at(2), consumes=(consumed(2, 3),))
    assert history.found() == []


def test_a_stable_read_shows_every_commit_that_was_answered_before(history: TransactionHistory) -> None:
    """A transaction is answered before its markers; meanwhile its offsets are pending, and a stable read waits."""
    committed = history.run(2, consumes=(consumed(0, 2),))
    reader = history.run(3, offset_at(None), outcome="fail", consumes=(consumed(0, 1),))
    assert "at 0 after 2 was committed" in history.check_found("stale-offset", committed, reader)


def test_a_read_beside_the_commit_may_show_either_offset(history: TransactionHistory) -> None:
    begun = history.begin(2, consumes=(consumed(0, 2),))
    history.run(3, offset_at(None), outcome="fail", consumes=(consumed(0, 1),))
    history.run(3, offset_at(2), outcome="fail", consumes=(consumed(2, 3),))
    history.commit(begun)
    assert history.found() == []


def test_the_checker_needs_an_offset_for_each_committed_record() -> None:
    history = TransactionHistory()
    history.run(1, append(A, 70))
    checker = HistoryChecker(RULES)
    checker.feed(history.ops[0])
    with pytest.raises(InvalidArgument, match="without an offset"):
        checker.feed(history.ops[1])
