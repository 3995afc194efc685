"""Small histories written by hand: each checker by itself detects its errors, with the entries that prove them.

A similar history without an error passes."""

import pytest

from jepsen.checkers import (
    Fetched,
    GroupOffsets,
    ListOffsets,
    NeverBack,
    Op,
    Panel,
    Poll,
    Rules,
    Subscribe,
    Verdict,
    judge_history,
    judge_with,
)
from jepsen.checkers.going_back import CommittedOffsets, ListedOffsets
from jepsen.checkers.lag import RealtimeLag
from jepsen.checkers.offset_order import OffsetOrder
from jepsen.checkers.polls import Polls
from jepsen.checkers.records import RecordBook
from raftlog.errors import InvalidArgument
from raftlog.types import Offset
from tests.checkers.story import SECOND, T0, Story


@pytest.fixture
def story() -> Story:
    return Story()


# Records


def test_an_acknowledged_record_that_a_later_poll_passed_over_is_lost(story: Story) -> None:
    lost = story.send(1, 70, 0)
    story.send(1, 71, 1)
    poll = story.poll(2, (1, 71))
    assert "70" in story.only(RecordBook(), "lost-write", lost, poll)


def test_an_acknowledged_record_whose_offset_shows_another_value_is_lost_too(story: Story) -> None:
    story.send(1, 70, 0)
    overwriting = story.begin_send(2, 71)
    story.poll(3, (0, 71))
    story.recorder.info(overwriting)
    assert story.kinds(RecordBook()) == ["inconsistent-offset", "lost-write"]


def test_what_nobody_polled_so_far_is_unseen_and_not_lost(story: Story) -> None:
    story.send(1, 70, 0)
    unseen = story.send(1, 71, 1)
    poll = story.poll(2, (0, 70))
    story.only(RecordBook(), "unseen", unseen, poll)


def test_what_retention_took_before_anybody_read_it_is_excused(story: Story) -> None:
    story.send(1, 70, 0)
    story.send(1, 71, 1)
    story.list_offsets(2, 1, 2)
    story.poll(2, (1, 71))
    assert story.kinds(RecordBook()) == []


@pytest.mark.parametrize("outcome", ["info", "fail"])
def test_a_record_without_acknowledgement_may_be_missing(story: Story, outcome: str) -> None:
    getattr(story.recorder, outcome)(story.begin_send(1, 70))
    story.begin_send(2, 71)
    assert judge_history(story.ops).is_clean()


def test_one_value_at_two_offsets_is_a_duplicate_whether_acknowledged_or_polled(story: Story) -> None:
    acknowledged = story.send(1, 70, 0)
    polled = story.poll(2, (0, 70), (1, 70))
    story.poll(3, (0, 70), (1, 70))
    assert story.only(RecordBook(), "duplicate", acknowledged, polled) == "t/0 value 70 stands at offsets 0 and 1"


def test_two_values_at_one_offset_are_inconsistent_even_when_both_are_acknowledged(story: Story) -> None:
    one, two = story.begin_send(1, 70), story.begin_send(2, 71)
    story.end_send(one, 0)
    story.end_send(two, 0)
    assert story.kinds(RecordBook()) == ["inconsistent-offset", "unseen"]


def test_a_failed_send_that_is_polled_is_an_aborted_read_in_either_order(story: Story) -> None:
    failed = story.recorder.fail(story.begin_send(1, 70), "refused")
    early = story.begin_send(1, 71)
    polled = story.poll(2, (0, 70), (1, 71))
    failed_later = story.recorder.fail(early, "refused")
    anomalies = judge_with(RecordBook(), story.ops).anomalies
    assert [(anomaly.kind, anomaly.ops) for anomaly in anomalies] == [
        ("aborted-read", (failed, polled)),
        ("aborted-read", (polled, failed_later)),
    ]


def test_a_send_of_unknown_outcome_may_be_polled(story: Story) -> None:
    story.recorder.info(story.begin_send(1, 70))
    story.recorder.crash(1)
    open_for_ever = story.begin_send(1, 71)
    story.poll(2, (0, 71), (1, 70))
    assert open_for_ever.type == "invoke"
    assert judge_history(story.ops).is_clean()


def test_a_value_that_nobody_sent_before_the_poll_is_a_phantom(story: Story) -> None:
    polled = story.poll(2, (0, 70))
    story.begin_send(1, 70)
    story.only(RecordBook(), "phantom", polled)


# Polls


def test_polls_of_a_consumer_go_neither_back_nor_past_a_record(story: Story) -> None:
    assigned = story.assign(1, 4)
    skipping = story.poll(1, (5, 75), (6, 76))
    back = story.poll(1, (6, 76))
    anomalies = judge_with(Polls(), story.ops).anomalies
    assert [(anomaly.kind, anomaly.ops) for anomaly in anomalies] == [
        ("poll-skip", (assigned, skipping)),
        ("nonmonotonic-poll", (skipping, back)),
    ]


def test_one_poll_goes_neither_back_nor_past_a_record(story: Story) -> None:
    polled = story.poll(1, (5, 75), (7, 77), (6, 76))
    anomalies = judge_with(Polls(), story.ops).anomalies
    assert [(a.kind, a.ops) for a in anomalies] == [("int-poll-skip", (polled,)), ("int-nonmonotonic-poll", (polled,))]


def test_an_assignment_begins_anew_and_so_does_a_crash(story: Story) -> None:
    story.poll(1, (5, 75))
    story.assign(1, 0)
    story.poll(1, (0, 70))
    story.recorder.crash(1)
    story.poll(1, (9, 79))
    assert story.kinds(Polls()) == []


def test_a_rebalance_may_move_a_subscribed_consumer_but_not_within_a_poll(story: Story) -> None:
    story.do(1, "subscribe", Subscribe(("t",)))
    story.poll(1, (5, 75))
    story.poll(1, (2, 72))
    polled = story.poll(1, (8, 78), (3, 73))
    story.only(Polls(), "int-nonmonotonic-poll", polled)


def test_a_poll_of_unknown_outcome_may_have_moved_the_consumer_on_but_not_back(story: Story) -> None:
    story.poll(1, (5, 75))
    story.recorder.info(story.recorder.invoke(1, "poll", Poll()))
    ahead = story.poll(1, (9, 79))
    back = story.poll(1, (7, 77))
    story.only(Polls(), "nonmonotonic-poll", ahead, back)


def test_without_density_a_skip_needs_a_record_that_was_skipped(story: Story) -> None:
    story.begin_send(1, 73)
    story.begin_send(2, 75)
    story.begin_send(3, 79)
    first = story.poll(4, (3, 73))
    story.poll(4, (5, 75))  # offset 4 may be a transaction's marker
    story.poll(5, (4, 79))
    verdict = judge_history(story.ops[: first.sequence + 3], Rules(dense=False))
    assert verdict.is_clean(), str(verdict)
    assert list(judge_history(story.ops, Rules(dense=False)).counts) == ["poll-skip"]


# The order of offsets


def test_offsets_follow_the_real_order_of_sends(story: Story) -> None:
    before = story.send(1, 70, 5)
    invocation = story.begin_send(2, 71)
    after = story.end_send(invocation, 4)
    story.only(OffsetOrder(), "offset-order", before, invocation, after)


def test_sends_at_the_same_time_may_get_offsets_in_any_order(story: Story) -> None:
    one, two = story.begin_send(1, 70), story.begin_send(2, 71)
    story.end_send(one, 5)
    story.end_send(two, 4)
    assert story.kinds(OffsetOrder()) == []


def test_one_process_that_sends_in_turn_gets_rising_offsets(story: Story) -> None:
    story.send(1, 70, 5)
    story.send(1, 71, 4)
    assert story.kinds(OffsetOrder()) == ["nonmonotonic-send"]


def test_values_of_one_send_get_rising_offsets(story: Story) -> None:
    story.end_send(story.begin_send(1, 70, 71), 5, 4)
    assert story.kinds(OffsetOrder()) == ["int-nonmonotonic-send"]


def test_what_was_polled_or_listed_stands_before_what_is_sent_later(story: Story) -> None:
    story.begin_send(1, 70)
    story.poll(2, (5, 70))
    story.send(3, 71, 4)
    story.list_offsets(2, 0, 9)
    story.send(4, 72, 8)
    assert judge_with(OffsetOrder(), story.ops).counts == {"offset-order": 2}


def test_a_send_of_unknown_outcome_is_judged_when_it_is_polled(story: Story) -> None:
    story.send(1, 70, 5)
    story.recorder.info(story.begin_send(2, 71))
    story.recorder.info(story.begin_send(3, 72))
    story.poll(4, (4, 71), (5, 70), (6, 72))
    assert judge_with(OffsetOrder(), story.ops).counts == {"offset-order": 1}


def test_a_linearizable_list_ends_above_all_that_was_known(story: Story) -> None:
    known = story.send(1, 70, 5)
    story.list_offsets(2, 0, 5)
    stale = story.list_offsets(3, 0, 5, linearizable=True)
    story.list_offsets(4, 0, 6, linearizable=True)
    story.only(OffsetOrder(), "stale-end", known, stale)


# Density


def test_a_hole_that_no_open_send_can_explain_is_a_gap(story: Story) -> None:
    story.send(1, 70, 0)
    story.send(1, 72, 2)
    story.poll(2, (0, 70))
    story.assign(2, 2)
    story.poll(2, (2, 72))
    assert list(judge_history(story.ops).counts) == ["gap"]
    story.recorder.info(story.begin_send(3, 71))
    assert judge_history(story.ops).is_clean()
    assert judge_history(story.ops[:-2], Rules(dense=False)).is_clean()


# Going back


def test_what_a_process_is_told_of_a_log_never_goes_back(story: Story) -> None:
    first = story.list_offsets(1, 3, 9)
    story.list_offsets(2, 1, 5)
    second = story.list_offsets(1, 2, 8)
    anomalies = judge_with(ListedOffsets(), story.ops).anomalies
    assert [(anomaly.kind, anomaly.ops) for anomaly in anomalies] == [
        ("start-went-back", (first, second)),
        ("end-went-back", (first, second)),
    ]


def test_a_committed_offset_never_goes_back_and_comes_from_somebody(story: Story) -> None:
    low = story.commit(1, 3)
    high = story.commit(1, 8)
    story.commit(2, 5)
    story.committed(3, 8)
    back = story.committed(4, 3)
    nothing = story.committed(4, None)
    phantom = story.committed(5, 9)
    assert low.payload != high.payload
    anomalies = judge_with(CommittedOffsets(), story.ops).anomalies
    assert [(anomaly.kind, anomaly.ops) for anomaly in anomalies] == [
        ("committed-went-back", (high, back)),
        ("committed-went-back", (high, nothing)),
        ("phantom-commit", (phantom,)),
    ]


def test_a_commit_that_failed_is_nobodys_and_one_of_unknown_outcome_may_show_up(story: Story) -> None:
    commit = GroupOffsets("g", ((T0, Offset(4)),))
    story.recorder.fail(story.recorder.invoke(1, "commit", commit))
    story.committed(2, 4)
    assert story.kinds(CommittedOffsets()) == ["phantom-commit"]
    story.recorder.info(story.recorder.invoke(1, "commit", commit))
    assert judge_with(CommittedOffsets(), [op for op in story.ops if op.process == 1]).kinds() == []


def test_groups_whose_members_commit_backwards_are_judged_by_origin_only(story: Story) -> None:
    story.commit(1, 8)
    story.commit(1, 5)
    story.committed(2, 5)
    assert story.kinds(CommittedOffsets(forward_only=False)) == []


def test_a_number_fed_by_hand_never_goes_back() -> None:
    guard = NeverBack()
    assert guard.observe("n1 t/0", 5) is None
    assert guard.observe("n2 t/0", 3) is None
    anomaly = guard.observe("n1 t/0", 4)
    assert anomaly is not None
    assert str(anomaly) == "end-went-back: n1 t/0 went back from 5 to 4"
    guard.forget("n1 t/0")
    assert guard.observe("n1 t/0", 0) is None


# Lag


def test_a_stuck_consumer_lags_behind_the_first_record_that_it_misses(story: Story) -> None:
    story.assign(1, 0)  # ends at second 1
    story.send(2, 70, 0)  # acknowledged at second 3
    missed = story.send(2, 71, 1)  # at second 5
    story.poll(1, (0, 70))  # begins at second 6
    stuck = story.poll(1)  # begins at second 8
    story.poll(1)
    judge = RealtimeLag(bound_ns=2 * SECOND)
    story.only(judge, "realtime-lag", missed, stuck)
    assert judge.worst_ns == 5 * SECOND


def test_the_clock_of_lag_starts_with_the_assignment(story: Story) -> None:
    story.send(2, 70, 0)
    story.assign(1, 0)
    story.poll(1)
    judge = RealtimeLag(bound_ns=SECOND)
    assert story.kinds(judge) == []
    assert judge.worst_ns == SECOND


# Histories that are none


def malformed(story: Story, case: str) -> list[Op]:
    if case == "a completion without invocation":
        return [story.send(1, 70, 0)]
    if case == "two operations of one process":
        story.begin_send(1, 70)
        story.begin_send(1, 71)
    elif case == "time that falls":
        story.send(1, 70, 0)
        story.ops[1] = story.ops[1]._replace(time_ns=-1)
    elif case == "a value sent twice":
        story.send(1, 70, 0)
        story.begin_send(1, 70)
    elif case == "more offsets than values":
        story.end_send(story.begin_send(1, 70), 1, 2)
    elif case == "a send of nothing":
        story.begin_send(1)
    elif case == "an entry that comes twice":
        story.ops.append(story.begin_send(1, 70))
        story.ops[-1] = story.ops[-1]._replace(process=2, kind="poll", payload=Poll())
    elif case == "a completion of another kind":
        invocation = story.recorder.invoke(1, "poll", Poll())
        story.recorder.ok(invocation._replace(kind="list"), ListOffsets())
    elif case == "more offsets than values in a poll":
        poll = Poll((Fetched(T0, (Offset(1), Offset(2)), (70,)),))
        story.do(1, "poll", Poll(), poll)
    return story.ops


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
def test_a_history_that_is_none_is_refused(story: Story, case: str) -> None:
    with pytest.raises(InvalidArgument):
        judge_history(malformed(story, case))


# Reports


def test_a_verdict_reads_like_a_report_and_is_bounded(story: Story) -> None:
    for value in range(10):
        story.send(1, value, 0)
    story.recorder.nemesis("cut n1 | n2, n3")
    panel = Panel(kept_max=2)
    for op in story.ops:
        panel.feed(op)
    verdict: Verdict = panel.finish()
    assert verdict.counts["inconsistent-offset"] == 9
    assert not verdict.is_clean(["unseen"])
    assert str(verdict).splitlines()[1:4] == [
        "inconsistent-offset: t/0 offset 0 held 0 and 1",
        "    #1 1.000000 s process 1 ok send t/0 values 0 at offsets 0",
        "    #3 3.000000 s process 1 ok send t/0 values 1 at offsets 0",
    ]
    assert len(verdict.anomalies) == 2 * len(verdict.counts)
    assert str(judge_history([])) == "0 operations, no anomaly"
