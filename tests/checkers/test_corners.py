"""Corners of the judges that generated histories seldom reach: what is counted once, what is excused, what is not."""

import pytest

from jepsen.checkers import Assign, GroupOffsets, Poll, Rules, Subscribe, judge_history, judge_with
from jepsen.checkers.going_back import CommittedOffsets, ListedOffsets
from jepsen.checkers.lag import RealtimeLag
from jepsen.checkers.offset_order import OffsetOrder
from jepsen.checkers.polls import Polls
from jepsen.checkers.records import RecordBook
from raftlog.types import Offset
from tests.checkers.story import SECOND, T0, Story


@pytest.fixture
def story() -> Story:
    return Story()


def counts(story: Story) -> dict[str, int]:
    return dict(judge_with(RecordBook(), story.ops).counts)


# records


def test_each_value_of_a_send_is_lost_once(story: Story) -> None:
    story.end_send(story.begin_send(1, 70, 71), 0, 1)
    story.send(1, 72, 2)
    story.poll(2, (2, 72))
    assert counts(story) == {"lost-write": 2}


def test_a_value_that_was_polled_at_another_offset_is_doubled_and_not_lost(story: Story) -> None:
    story.send(1, 70, 0)
    early = story.begin_send(3, 71)
    story.poll(2, (1, 70), (2, 71))
    story.end_send(early, 3)
    story.send(1, 72, 4)
    story.poll(2, (4, 72))
    assert counts(story) == {"duplicate": 2}


@pytest.mark.parametrize("polled", [70, 71])
def test_of_two_values_at_one_offset_the_one_that_nobody_polls_is_lost(story: Story, polled: int) -> None:
    one, two = story.begin_send(1, 70), story.begin_send(2, 71)
    story.end_send(one, 0)
    story.end_send(two, 0)
    story.poll(3, (0, polled))
    assert counts(story) == {"inconsistent-offset": 1, "lost-write": 1}


def test_retention_is_known_from_the_greatest_start_that_anybody_was_told(story: Story) -> None:
    story.send(1, 70, 0)
    story.send(1, 71, 1)
    story.list_offsets(2, 1, 2)
    story.list_offsets(3, 0, 1)
    story.poll(2, (1, 71))
    assert counts(story) == {}


# density


def test_what_lies_below_the_first_known_offset_is_no_gap(story: Story) -> None:
    story.send(1, 70, 5)
    story.poll(2, (5, 70))
    assert judge_history(story.ops).is_clean()


def test_what_lies_below_the_start_is_no_gap(story: Story) -> None:
    story.send(1, 70, 5)
    story.send(1, 71, 8)
    story.list_offsets(2, 8, 9)
    story.assign(2, 8)
    story.poll(2, (8, 71))
    assert judge_history(story.ops).is_clean()
    story.ops[-6:-4] = []  # without the list
    assert judge_history(story.ops).counts["gap"] == 1


def test_offsets_below_the_end_that_nobody_sent_are_a_gap(story: Story) -> None:
    story.send(1, 70, 0)
    story.poll(2, (0, 70))
    story.list_offsets(3, 0, 2)
    assert list(judge_history(story.ops).counts) == ["gap"]
    assert judge_history(story.ops, Rules(dense=False)).is_clean()


# polls


def test_one_poll_that_returns_an_offset_twice_goes_back(story: Story) -> None:
    assert story.kinds(Polls()) == []
    story.poll(1, (5, 75), (5, 75))
    assert story.kinds(Polls()) == ["int-nonmonotonic-poll"]


def test_after_an_assign_of_unknown_outcome_a_subscribed_consumer_may_still_be_moved(story: Story) -> None:
    story.do(1, "subscribe", Subscribe(("t",)))
    story.recorder.info(story.recorder.invoke(1, "assign", Assign(((T0, Offset(5)),))))
    story.poll(1, (5, 75))
    story.poll(1, (2, 72))
    assert story.kinds(Polls()) == []
    story.assign(1, 2)
    story.poll(1, (2, 72))
    story.poll(1, (2, 72))
    assert story.kinds(Polls()) == ["nonmonotonic-poll"]


# the order of offsets


def test_a_process_is_compared_with_the_greatest_offset_that_it_was_told(story: Story) -> None:
    for value, offset in ((70, 5), (71, 3), (72, 4)):
        story.send(1, value, offset)
    assert judge_with(OffsetOrder(), story.ops).counts == {"nonmonotonic-send": 2}


def test_a_list_of_a_crashed_client_is_not_answered_by_the_next_one(story: Story) -> None:
    story.send(1, 70, 5)
    story.recorder.invoke(2, "list", story.list_offsets(3, 0, 6, linearizable=True).payload)
    story.recorder.crash(2)
    story.list_offsets(2, 0, 3)
    assert story.kinds(OffsetOrder()) == []


# numbers that go back


def test_what_went_back_once_does_not_lower_the_bar(story: Story) -> None:
    for end in (9, 5, 7):
        story.list_offsets(1, 0, end)
    assert judge_with(ListedOffsets(), story.ops).counts == {"end-went-back": 2}


def test_a_commit_that_failed_after_it_was_read_is_nobodys_unless_another_one_did_not(story: Story) -> None:
    commit = GroupOffsets("g", ((T0, Offset(4)),))
    failing = story.recorder.invoke(1, "commit", commit)
    other = story.recorder.invoke(2, "commit", commit)
    read = story.committed(3, 4)
    story.recorder.fail(failing)
    assert story.kinds(CommittedOffsets()) == []
    failed = story.recorder.fail(other)
    story.only(CommittedOffsets(), "phantom-commit", read, failed)


# lag


def test_the_lag_of_a_subscribed_consumer_is_that_of_what_its_polls_return(story: Story) -> None:
    """It may have lost the partition: an empty poll says nothing."""
    story.do(1, "subscribe", Subscribe(("t",)))
    story.send(2, 70, 0)
    story.send(2, 71, 1)
    story.poll(1, (0, 70))
    story.recorder.info(story.recorder.invoke(1, "assign", Assign(((T0, Offset(1)),))))
    story.poll(1, (0, 70))
    for _ in range(5):
        story.poll(1)
    judge = RealtimeLag()
    judge_with(judge, story.ops)
    assert judge.worst_ns == SECOND


def test_after_an_assign_of_unknown_outcome_nobody_knows_where_the_consumer_stands(story: Story) -> None:
    story.assign(1, 0)
    story.send(2, 70, 0)
    story.recorder.info(story.recorder.invoke(1, "assign", Assign(())))
    for _ in range(5):
        story.poll(1)
    judge = RealtimeLag()
    judge_with(judge, story.ops)
    assert judge.worst_ns == 0


def test_a_client_that_crashed_stands_nowhere(story: Story) -> None:
    story.assign(1, 0)
    story.send(2, 70, 0)
    story.recorder.crash(1)
    story.poll(1)
    assert story.kinds(RealtimeLag(bound_ns=0)) == []


def test_a_poll_that_nobody_answered_lags_behind_nothing(story: Story) -> None:
    story.assign(1, 0)
    story.send(2, 70, 0)
    story.recorder.info(story.recorder.invoke(1, "poll", Poll()))
    judge = RealtimeLag(bound_ns=0)
    assert story.kinds(judge) == []
