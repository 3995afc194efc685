"""Small histories written by hand: each checker alone detects its anomalies, with the entries that prove them.

A similar history without an error passes."""

import pytest

from jepsen.checkers import (
    Fetched,
    GroupOffsets,
    HistoryChecker,
    ListOffsets,
    MonotonicCheck,
    Op,
    Poll,
    Rules,
    Subscribe,
    Verdict,
    check_history,
    check_with,
)
from jepsen.checkers.lag import RealtimeLag
from jepsen.checkers.monotonicity import CommittedOffsets, ListedOffsets
from jepsen.checkers.offset_order import OffsetOrder
from jepsen.checkers.polls import Polls
from jepsen.checkers.records import RecordBook
from raftlog.errors import InvalidArgument
from raftlog.types import Offset
from tests.checkers.written_history import SECOND, T0, WrittenHistory


@pytest.fixture
def history() -> WrittenHistory:
    return WrittenHistory()


# Records


def test_an_acknowledged_record_that_a_later_poll_skipped_is_lost(history: WrittenHistory) -> None:
    lost = history.send(1, 70, 0)
    history.send(1, 71, 1)
    poll = history.poll(2, (1, 71))
    assert "70" in history.check_single(RecordBook(), "lost-write", lost, poll)


def test_an_acknowledged_record_whose_offset_shows_another_value_is_lost_too(history: WrittenHistory) -> None:
    history.send(1, 70, 0)
    overwriting = history.begin_send(2, 71)
    history.poll(3, (0, 71))
    history.recorder.info(overwriting)
    assert history.kinds(RecordBook()) == ["inconsistent-offset", "lost-write"]


def test_unpolled_records_are_unseen_and_not_lost(history: WrittenHistory) -> None:
    history.send(1, 70, 0)
    unseen = history.send(1, 71, 1)
    poll = history.poll(2, (0, 70))
    history.check_single(RecordBook(), "unseen", unseen, poll)


def test_unread_records_removed_by_retention_are_excused(history: WrittenHistory) -> None:
    history.send(1, 70, 0)
    history.send(1, 71, 1)
    history.list_offsets(2, 1, 2)
    history.poll(2, (1, 71))
    assert history.kinds(RecordBook()) == []


@pytest.mark.parametrize("outcome", ["info", "fail"])
def test_a_record_without_acknowledgement_may_be_missing(history: WrittenHistory, outcome: str) -> None:
    getattr(history.recorder, outcome)(history.begin_send(1, 70))
    history.begin_send(2, 71)
    assert check_history(history.ops).is_clean()


def test_one_value_at_two_offsets_is_a_duplicate_whether_acknowledged_or_polled(history: WrittenHistory) -> None:
    acknowledged = history.send(1, 70, 0)
    polled = history.poll(2, (0, 70), (1, 70))
    history.poll(3, (0, 70), (1, 70))
    assert (
        history.check_single(RecordBook(), "duplicate", acknowledged, polled)
        == "t/0 value 70 stands at offsets 0 and 1"
    )


def test_two_values_at_one_offset_are_inconsistent_even_when_both_are_acknowledged(history: WrittenHistory) -> None:
    one, two = history.begin_send(1, 70), history.begin_send(2, 71)
    history.end_send(one, 0)
    history.end_send(two, 0)
    assert history.kinds(RecordBook()) == ["inconsistent-offset", "unseen"]


def test_a_failed_send_that_is_polled_is_an_aborted_read_in_either_order(history: WrittenHistory) -> None:
    failed = history.recorder.fail(history.begin_send(1, 70), "refused")
    early = history.begin_send(1, 71)
    polled = history.poll(2, (0, 70), (1, 71))
    failed_later = history.recorder.fail(early, "refused")
    anomalies = check_with(RecordBook(), history.ops).anomalies
    assert [(anomaly.kind, anomaly.ops) for anomaly in anomalies] == [
        ("aborted-read", (failed, polled)),
        ("aborted-read", (polled, failed_later)),
    ]


def test_a_send_of_unknown_outcome_may_be_polled(history: WrittenHistory) -> None:
    history.recorder.info(history.begin_send(1, 70))
    history.recorder.crash(1)
    open_for_ever = history.begin_send(1, 71)
    history.poll(2, (0, 71), (1, 70))
    assert open_for_ever.type == "invoke"
    assert check_history(history.ops).is_clean()


def test_a_value_not_sent_before_the_poll_is_a_phantom(history: WrittenHistory) -> None:
    polled = history.poll(2, (0, 70))
    history.begin_send(1, 70)
    history.check_single(RecordBook(), "phantom", polled)


# Polls


def test_polls_of_a_consumer_neither_go_back_nor_skip_a_record(history: WrittenHistory) -> None:
    assigned = history.assign(1, 4)
    skipping = history.poll(1, (5, 75), (6, 76))
    back = history.poll(1, (6, 76))
    anomalies = check_with(Polls(), history.ops).anomalies
    assert [(anomaly.kind, anomaly.ops) for anomaly in anomalies] == [
        ("poll-skip", (assigned, skipping)),
        ("nonmonotonic-poll", (skipping, back)),
    ]


def test_one_poll_neither_goes_back_nor_skips_a_record(history: WrittenHistory) -> None:
    polled = history.poll(1, (5, 75), (7, 77), (6, 76))
    anomalies = check_with(Polls(), history.ops).anomalies
    assert [(a.kind, a.ops) for a in anomalies] == [("int-poll-skip", (polled,)), ("int-nonmonotonic-poll", (polled,))]


def test_an_assignment_and_a_crash_reset_the_position(history: WrittenHistory) -> None:
    history.poll(1, (5, 75))
    history.assign(1, 0)
    history.poll(1, (0, 70))
    history.recorder.crash(1)
    history.poll(1, (9, 79))
    assert history.kinds(Polls()) == []


def test_a_rebalance_may_move_a_subscribed_consumer_but_not_within_a_poll(history: WrittenHistory) -> None:
    history.complete(1, "subscribe", Subscribe(("t",)))
    history.poll(1, (5, 75))
    history.poll(1, (2, 72))
    polled = history.poll(1, (8, 78), (3, 73))
    history.check_single(Polls(), "int-nonmonotonic-poll", polled)


def test_a_poll_of_unknown_outcome_may_have_moved_the_consumer_forward_but_not_back(history: WrittenHistory) -> None:
    history.poll(1, (5, 75))
    history.recorder.info(history.recorder.invoke(1, "poll", Poll()))
    ahead = history.poll(1, (9, 79))
    back = history.poll(1, (7, 77))
    history.check_single(Polls(), "nonmonotonic-poll", ahead, back)


def test_without_density_a_skip_needs_a_polled_record(history: WrittenHistory) -> None:
    history.begin_send(1, 73)
    history.begin_send(2, 75)
    history.begin_send(3, 79)
    first = history.poll(4, (3, 73))
    history.poll(4, (5, 75))  # offset 4 may be a transaction's marker
    history.poll(5, (4, 79))
    verdict = check_history(history.ops[: first.sequence + 3], Rules(dense=False))
    assert verdict.is_clean(), str(verdict)
    assert list(check_history(history.ops, Rules(dense=False)).counts) == ["poll-skip"]


# The order of offsets


def test_offsets_follow_the_real_time_order_of_sends(history: WrittenHistory) -> None:
    before = history.send(1, 70, 5)
    invocation = history.begin_send(2, 71)
    after = history.end_send(invocation, 4)
    history.check_single(OffsetOrder(), "offset-order", before, invocation, after)


def test_concurrent_sends_may_get_offsets_in_any_order(history: WrittenHistory) -> None:
    one, two = history.begin_send(1, 70), history.begin_send(2, 71)
    history.end_send(one, 5)
    history.end_send(two, 4)
    assert history.kinds(OffsetOrder()) == []


def test_consecutive_sends_of_one_process_get_rising_offsets(history: WrittenHistory) -> None:
    history.send(1, 70, 5)
    history.send(1, 71, 4)
    assert history.kinds(OffsetOrder()) == ["nonmonotonic-send"]


def test_values_of_one_send_get_rising_offsets(history: WrittenHistory) -> None:
    history.end_send(history.begin_send(1, 70, 71), 5, 4)
    assert history.kinds(OffsetOrder()) == ["int-nonmonotonic-send"]


def test_polled_or_listed_offsets_precede_later_sends(history: WrittenHistory) -> None:
    history.begin_send(1, 70)
    history.poll(2, (5, 70))
    history.send(3, 71, 4)
    history.list_offsets(2, 0, 9)
    history.send(4, 72, 8)
    assert check_with(OffsetOrder(), history.ops).counts == {"offset-order": 2}


def test_a_send_of_unknown_outcome_is_checked_once_it_is_polled(history: WrittenHistory) -> None:
    history.send(1, 70, 5)
    history.recorder.info(history.begin_send(2, 71))
    history.recorder.info(history.begin_send(3, 72))
    history.poll(4, (4, 71), (5, 70), (6, 72))
    assert check_with(OffsetOrder(), history.ops).counts == {"offset-order": 1}


def test_a_linearizable_list_ends_above_all_known_offsets(history: WrittenHistory) -> None:
    known = history.send(1, 70, 5)
    history.list_offsets(2, 0, 5)
    stale = history.list_offsets(3, 0, 5, linearizable=True)
    history.list_offsets(4, 0, 6, linearizable=True)
    history.check_single(OffsetOrder(), "stale-end", known, stale)


# Density


def test_a_hole_that_no_open_send_explains_is_a_gap(history: WrittenHistory) -> None:
    history.send(1, 70, 0)
    history.send(1, 72, 2)
    history.poll(2, (0, 70))
    history.assign(2, 2)
    history.poll(2, (2, 72))
    assert list(check_history(history.ops).counts) == ["gap"]
    history.recorder.info(history.begin_send(3, 71))
    assert check_history(history.ops).is_clean()
    assert check_history(history.ops[:-2], Rules(dense=False)).is_clean()


# Going back


def test_offsets_reported_to_a_process_never_go_back(history: WrittenHistory) -> None:
    first = history.list_offsets(1, 3, 9)
    history.list_offsets(2, 1, 5)
    second = history.list_offsets(1, 2, 8)
    anomalies = check_with(ListedOffsets(), history.ops).anomalies
    assert [(anomaly.kind, anomaly.ops) for anomaly in anomalies] == [
        ("start-went-back", (first, second)),
        ("end-went-back", (first, second)),
    ]


def test_a_committed_offset_never_goes_back_and_was_sent_by_a_client(history: WrittenHistory) -> None:
    low = history.commit(1, 3)
    high = history.commit(1, 8)
    history.commit(2, 5)
    history.read_committed(3, 8)
    back = history.read_committed(4, 3)
    nothing = history.read_committed(4, None)
    phantom = history.read_committed(5, 9)
    assert low.payload != high.payload
    anomalies = check_with(CommittedOffsets(), history.ops).anomalies
    assert [(anomaly.kind, anomaly.ops) for anomaly in anomalies] == [
        ("committed-went-back", (high, back)),
        ("committed-went-back", (high, nothing)),
        ("phantom-commit", (phantom,)),
    ]


def test_a_failed_commit_must_not_be_read_and_one_of_unknown_outcome_may_be(history: WrittenHistory) -> None:
    commit = GroupOffsets("g", ((T0, Offset(4)),))
    history.recorder.fail(history.recorder.invoke(1, "commit", commit))
    history.read_committed(2, 4)
    assert history.kinds(CommittedOffsets()) == ["phantom-commit"]
    history.recorder.info(history.recorder.invoke(1, "commit", commit))
    assert check_with(CommittedOffsets(), [op for op in history.ops if op.process == 1]).kinds() == []


def test_groups_whose_members_commit_backwards_are_checked_by_origin_only(history: WrittenHistory) -> None:
    history.commit(1, 8)
    history.commit(1, 5)
    history.read_committed(2, 5)
    assert history.kinds(CommittedOffsets(forward_only=False)) == []


def test_a_number_observed_directly_never_goes_back() -> None:
    guard = MonotonicCheck()
    assert guard.observe("n1 t/0", 5) is None
    assert guard.observe("n2 t/0", 3) is None
    anomaly = guard.observe("n1 t/0", 4)
    assert anomaly is not None
    assert str(anomaly) == "end-went-back: n1 t/0 went back from 5 to 4"
    guard.forget("n1 t/0")
    assert guard.observe("n1 t/0", 0) is None


# Lag


def test_a_stuck_consumer_lags_behind_the_first_missed_record(history: WrittenHistory) -> None:
    history.assign(1, 0)  # ends at second 1
    history.send(2, 70, 0)  # acknowledged at second 3
    missed = history.send(2, 71, 1)  # at second 5
    history.poll(1, (0, 70))  # begins at second 6
    stuck = history.poll(1)  # begins at second 8
    history.poll(1)
    checker = RealtimeLag(bound_ns=2 * SECOND)
    history.check_single(checker, "realtime-lag", missed, stuck)
    assert checker.worst_ns == 5 * SECOND


def test_the_lag_of_a_new_assignment_starts_with_it(history: WrittenHistory) -> None:
    history.send(2, 70, 0)
    history.assign(1, 0)
    history.poll(1)
    checker = RealtimeLag(bound_ns=SECOND)
    assert history.kinds(checker) == []
    assert checker.worst_ns == SECOND


# Histories that are none


def make_malformed(history: WrittenHistory, case: str) -> list[Op]:
    if case == "a completion without invocation":
        return [history.send(1, 70, 0)]
    if case == "two operations of one process":
        history.begin_send(1, 70)
        history.begin_send(1, 71)
    elif case == "time that falls":
        history.send(1, 70, 0)
        history.ops[1] = history.ops[1]._replace(time_ns=-1)
    elif case == "a value sent twice":
        history.send(1, 70, 0)
        history.begin_send(1, 70)
    elif case == "more offsets than values":
        history.end_send(history.begin_send(1, 70), 1, 2)
    elif case == "a send of nothing":
        history.begin_send(1)
    elif case == "an entry that comes twice":
        history.ops.append(history.begin_send(1, 70))
        history.ops[-1] = history.ops[-1]._replace(process=2, kind="poll", payload=Poll())
    elif case == "a completion of another kind":
        invocation = history.recorder.invoke(1, "poll", Poll())
        history.recorder.ok(invocation._replace(kind="list"), ListOffsets())
    elif case == "more offsets than values in a poll":
        poll = Poll((Fetched(T0, (Offset(1), Offset(2)), (70,)),))
        history.complete(1, "poll", Poll(), poll)
    return history.ops


@pytest.mark.parametrize(
    "case",
    [
        "a completion without invocation",
        "two operations of one process",
        "time that falls",
        "a value sent twice",
        "more offsets than values",
        "more offsets than values in a poll",
        "a send of nothing",
        "an entry that comes twice",
        "a completion of another kind",
    ],
)
def test_a_malformed_history_is_refused(history: WrittenHistory, case: str) -> None:
    with pytest.raises(InvalidArgument):
        check_history(make_malformed(history, case))


# Reports


def test_a_verdict_is_printed_as_a_bounded_report(history: WrittenHistory) -> None:
    for value in range(10):
        history.send(1, value, 0)
    history.recorder.nemesis("cut n1 | n2, n3")
    checker = HistoryChecker(kept_max=2)
    for op in history.ops:
        checker.feed(op)
    verdict: Verdict = checker.finish()
    assert verdict.counts["inconsistent-offset"] == 9
    assert not verdict.is_clean(["unseen"])
    assert str(verdict).splitlines()[1:4] == [
        "inconsistent-offset: t/0 offset 0 held 0 and 1",
        "    #1 1.000000 s process 1 ok send t/0 values 0 at offsets 0",
        "    #3 3.000000 s process 1 ok send t/0 values 1 at offsets 0",
    ]
    assert len(verdict.anomalies) == 2 * len(verdict.counts)
    assert str(check_history([])) == "0 operations, no anomaly"
