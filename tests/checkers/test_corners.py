"""Rare cases of the checkers that generated histories seldom reach: counted once, excused, or neither."""

import pytest

from jepsen.checkers import Assign, GroupOffsets, Poll, Rules, Subscribe, check_history, check_with
from jepsen.checkers.lag import RealtimeLag
from jepsen.checkers.monotonicity import CommittedOffsets, ListedOffsets
from jepsen.checkers.offset_order import OffsetOrder
from jepsen.checkers.polls import Polls
from jepsen.checkers.records import RecordBook
from raftlog.types import Offset
from tests.checkers.written_history import SECOND, T0, WrittenHistory


@pytest.fixture
def history() -> WrittenHistory:
    return WrittenHistory()


def count_anomalies(history: WrittenHistory) -> dict[str, int]:
    return dict(check_with(RecordBook(), history.ops).counts)


# records


def test_each_lost_value_of_a_send_counts_once(history: WrittenHistory) -> None:
    history.end_send(history.begin_send(1, 70, 71), 0, 1)
    history.send(1, 72, 2)
    history.poll(2, (2, 72))
    assert count_anomalies(history) == {"lost-write": 2}


def test_a_value_polled_at_another_offset_is_a_duplicate_and_not_lost(history: WrittenHistory) -> None:
    history.send(1, 70, 0)
    early = history.begin_send(3, 71)
    history.poll(2, (1, 70), (2, 71))
    history.end_send(early, 3)
    history.send(1, 72, 4)
    history.poll(2, (4, 72))
    assert count_anomalies(history) == {"duplicate": 2}


@pytest.mark.parametrize("polled", [70, 71])
def test_of_two_values_at_one_offset_the_unpolled_one_is_lost(history: WrittenHistory, polled: int) -> None:
    one, two = history.begin_send(1, 70), history.begin_send(2, 71)
    history.end_send(one, 0)
    history.end_send(two, 0)
    history.poll(3, (0, polled))
    assert count_anomalies(history) == {"inconsistent-offset": 1, "lost-write": 1}


def test_retention_is_derived_from_the_highest_start_in_any_answer(history: WrittenHistory) -> None:
    history.send(1, 70, 0)
    history.send(1, 71, 1)
    history.list_offsets(2, 1, 2)
    history.list_offsets(3, 0, 1)
    history.poll(2, (1, 71))
    assert count_anomalies(history) == {}


# density


def test_offsets_below_the_first_known_one_are_no_gap(history: WrittenHistory) -> None:
    history.send(1, 70, 5)
    history.poll(2, (5, 70))
    assert check_history(history.ops).is_clean()


def test_offsets_below_the_start_are_no_gap(history: WrittenHistory) -> None:
    history.send(1, 70, 5)
    history.send(1, 71, 8)
    history.list_offsets(2, 8, 9)
    history.assign(2, 8)
    history.poll(2, (8, 71))
    assert check_history(history.ops).is_clean()
    history.ops[-6:-4] = []  # without the list
    assert check_history(history.ops).counts["gap"] == 1


def test_unsent_offsets_below_the_end_are_a_gap(history: WrittenHistory) -> None:
    history.send(1, 70, 0)
    history.poll(2, (0, 70))
    history.list_offsets(3, 0, 2)
    assert list(check_history(history.ops).counts) == ["gap"]
    assert check_history(history.ops, Rules(dense=False)).is_clean()


# polls


def test_one_poll_that_returns_an_offset_twice_goes_back(history: WrittenHistory) -> None:
    assert history.kinds(Polls()) == []
    history.poll(1, (5, 75), (5, 75))
    assert history.kinds(Polls()) == ["int-nonmonotonic-poll"]


def test_after_an_assign_of_unknown_outcome_a_rebalance_may_still_move_a_subscribed_consumer(
    history: WrittenHistory,
) -> None:
    history.complete(1, "subscribe", Subscribe(("t",)))
    history.recorder.info(history.recorder.invoke(1, "assign", Assign(((T0, Offset(5)),))))
    history.poll(1, (5, 75))
    history.poll(1, (2, 72))
    assert history.kinds(Polls()) == []
    history.assign(1, 2)
    history.poll(1, (2, 72))
    history.poll(1, (2, 72))
    assert history.kinds(Polls()) == ["nonmonotonic-poll"]


# the order of offsets


def test_a_process_is_compared_with_the_highest_offset_that_it_received(history: WrittenHistory) -> None:
    for value, offset in ((70, 5), (71, 3), (72, 4)):
        history.send(1, value, offset)
    assert check_with(OffsetOrder(), history.ops).counts == {"nonmonotonic-send": 2}


def test_the_list_of_a_crashed_client_is_not_completed_by_the_next_client(history: WrittenHistory) -> None:
    history.send(1, 70, 5)
    history.recorder.invoke(2, "list", history.list_offsets(3, 0, 6, linearizable=True).payload)
    history.recorder.crash(2)
    history.list_offsets(2, 0, 3)
    assert history.kinds(OffsetOrder()) == []


# numbers that go back


def test_an_offset_that_went_back_does_not_lower_the_bound(history: WrittenHistory) -> None:
    for end in (9, 5, 7):
        history.list_offsets(1, 0, end)
    assert check_with(ListedOffsets(), history.ops).counts == {"end-went-back": 2}


def test_a_commit_known_to_have_failed_after_its_read_counts_only_if_another_succeeded(history: WrittenHistory) -> None:
    commit = GroupOffsets("g", ((T0, Offset(4)),))
    failing = history.recorder.invoke(1, "commit", commit)
    other = history.recorder.invoke(2, "commit", commit)
    read = history.read_committed(3, 4)
    history.recorder.fail(failing)
    assert history.kinds(CommittedOffsets()) == []
    failed = history.recorder.fail(other)
    history.check_single(CommittedOffsets(), "phantom-commit", read, failed)


# lag


def test_the_lag_of_a_subscribed_consumer_follows_the_records_of_its_polls(history: WrittenHistory) -> None:
    """An empty poll proves nothing, since the consumer may have lost the partition."""
    history.complete(1, "subscribe", Subscribe(("t",)))
    history.send(2, 70, 0)
    history.send(2, 71, 1)
    history.poll(1, (0, 70))
    history.recorder.info(history.recorder.invoke(1, "assign", Assign(((T0, Offset(1)),))))
    history.poll(1, (0, 70))
    for _ in range(5):
        history.poll(1)
    checker = RealtimeLag()
    check_with(checker, history.ops)
    assert checker.worst_ns == SECOND


def test_after_an_assign_of_unknown_outcome_the_position_is_unknown(history: WrittenHistory) -> None:
    history.assign(1, 0)
    history.send(2, 70, 0)
    history.recorder.info(history.recorder.invoke(1, "assign", Assign(())))
    for _ in range(5):
        history.poll(1)
    checker = RealtimeLag()
    check_with(checker, history.ops)
    assert checker.worst_ns == 0


def test_a_crashed_client_has_no_position(history: WrittenHistory) -> None:
    history.assign(1, 0)
    history.send(2, 70, 0)
    history.recorder.crash(1)
    history.poll(1)
    assert history.kinds(RealtimeLag(bound_ns=0)) == []


def test_an_unanswered_poll_has_no_lag(history: WrittenHistory) -> None:
    history.assign(1, 0)
    history.send(2, 70, 0)
    history.recorder.info(history.recorder.invoke(1, "poll", Poll()))
    checker = RealtimeLag(bound_ns=0)
    assert history.kinds(checker) == []
