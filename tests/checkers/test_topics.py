"""Topics that are deleted and created anew: planted errors are detected with the entries that prove them.

A similar history without an error passes."""

import pytest

from jepsen.checkers import Assign, Fetched, Op, Poll, Rules, Send, Topic, judge_history, read_lines, write_lines
from raftlog.types import Offset, TopicPartition
from tests.checkers.story import Story

OLD, NEW = TopicPartition("t@old", 0), TopicPartition("t@new", 0)


class Tale(Story):
    """Of the topic `t`; process 1 creates and deletes, the others are clients."""

    def begin(self, action: str, process: int = 1) -> Op:
        return self.recorder.invoke(process, "topic", Topic(action, "t"))  # type: ignore[arg-type]

    def create(self, topic_id: str, process: int = 1) -> Op:
        return self.end(self.begin("create", process), topic_id)

    def end(self, invocation: Op, topic_id: str) -> Op:
        assert isinstance(invocation.payload, Topic)
        return self.recorder.ok(invocation, invocation.payload._replace(topic_id=topic_id))

    def delete(self, process: int = 1) -> Op:
        return self.recorder.ok(self.begin("delete", process))

    def refused(self, action: str, error: str, process: int = 1) -> Op:
        return self.recorder.fail(self.begin(action, process), error)

    def unknown(self, action: str, process: int = 1) -> Op:
        return self.recorder.info(self.begin(action, process), "no answer")

    def find(self, process: int, topic_id: str) -> Op:
        return self.end(self.begin("find", process), topic_id)

    def send_to(self, place: TopicPartition, process: int, value: int, offset: int) -> Op:
        invocation = self.recorder.invoke(process, "send", Send(place, (value,)))
        return self.recorder.ok(invocation, Send(place, (value,), (Offset(offset),)))

    def poll_of(self, place: TopicPartition, process: int, *values: int) -> Op:
        offsets = tuple(map(Offset, range(len(values))))
        invocation = self.recorder.invoke(process, "poll", Poll())
        return self.recorder.ok(invocation, Poll((Fetched(place, offsets, values),)))

    def kinds(self) -> list[str]:  # type: ignore[override]
        return sorted(judge_history(self.ops, Rules()).counts)

    def proof(self, kind: str) -> tuple[Op, ...]:
        """Of the one anomaly of this kind."""
        (found,) = (each for each in judge_history(self.ops).anomalies if each.kind == kind)
        return found.ops


@pytest.fixture
def tale() -> Tale:
    return Tale()


def test_each_incarnation_is_judged_by_itself(tale: Tale) -> None:
    tale.create("old")
    tale.send_to(OLD, 2, 7, 0)
    tale.poll_of(OLD, 3, 7)
    tale.delete()
    tale.create("new")
    tale.send_to(NEW, 2, 8, 0)
    tale.find(3, "new")
    tale.poll_of(NEW, 3, 8)
    tale.find(4, "new")
    assert tale.kinds() == []
    assert list(read_lines(write_lines(tale.ops))) == tale.ops


def test_what_nobody_read_of_a_deleted_topic_is_not_missed_and_of_one_that_stays_it_is(tale: Tale) -> None:
    tale.create("old")
    tale.send_to(OLD, 2, 7, 0)
    tale.send_to(OLD, 2, 8, 5)
    tale.delete()
    assert tale.kinds() == [], "neither the records nor the offsets between"
    tale.create("new")
    tale.send_to(NEW, 2, 9, 0)
    assert tale.kinds() == ["unseen"]


def test_a_reader_that_comes_with_the_position_of_a_predecessor_has_lost_nothing(tale: Tale) -> None:
    tale.create("old")
    tale.send_to(OLD, 2, 7, 0)
    tale.send_to(OLD, 2, 8, 1)
    invocation = tale.recorder.invoke(3, "poll", Poll())
    tale.recorder.ok(invocation, Poll((Fetched(OLD, (Offset(1),), (8,)),)))
    assert tale.kinds() == ["lost-write"], "somebody has to read all of it while it is there"
    tale.delete()
    assert tale.kinds() == []


def test_a_reader_that_passes_over_a_record_of_a_deleted_topic_is_found(tale: Tale) -> None:
    tale.create("old")
    tale.send_to(OLD, 2, 7, 0)
    tale.send_to(OLD, 2, 8, 1)
    tale.recorder.ok(tale.recorder.invoke(3, "assign", Assign(((OLD, Offset(0)),))))
    invocation = tale.recorder.invoke(3, "poll", Poll())
    tale.recorder.ok(invocation, Poll((Fetched(OLD, (Offset(1),), (8,)),)))
    tale.delete()
    assert tale.kinds() == ["poll-skip"]


def test_an_incarnation_that_comes_back_for_a_process(tale: Tale) -> None:
    tale.create("old")
    tale.find(2, "old")
    tale.delete()
    tale.create("new")
    gone = tale.find(2, "new")
    tale.find(3, "old")
    assert tale.kinds() == [], "another process may hear of it later"
    back = tale.poll_of(OLD, 2)
    assert tale.kinds() == ["resurrected-topic"]
    assert tale.proof("resurrected-topic") == (gone, back)


def test_one_that_comes_back_after_it_was_unknown(tale: Tale) -> None:
    tale.create("old")
    tale.find(2, "old")
    tale.delete()
    tale.find(2, "")
    tale.find(3, "old")
    assert tale.kinds() == []
    tale.send_to(OLD, 2, 7, 0)
    assert tale.kinds() == ["resurrected-topic"]


def test_records_of_one_in_another(tale: Tale) -> None:
    tale.create("old")
    tale.send_to(OLD, 2, 7, 0)
    tale.delete()
    tale.create("new")
    tale.poll_of(NEW, 3, 7)
    assert tale.kinds() == ["phantom", "resurrected-topic"]


def test_a_deleted_name_that_is_taken(tale: Tale) -> None:
    tale.create("old")
    deleted = tale.delete()
    exists = tale.refused("create", "TopicExists: t")
    assert tale.kinds() == ["resurrected-topic"]
    assert tale.proof("resurrected-topic") == (deleted, exists)


def test_a_name_may_be_taken_by_a_creation_of_unknown_outcome_until_a_later_answer(tale: Tale) -> None:
    tale.unknown("create")
    tale.refused("create", "TopicExists: t")
    tale.find(2, "some")
    assert tale.kinds() == []
    tale.delete()
    tale.refused("delete", "UnknownTopic: t")
    assert tale.kinds() == []
    tale.refused("create", "TopicExists: t")
    assert tale.kinds() == ["resurrected-topic"]


def test_one_that_nobody_created(tale: Tale) -> None:
    tale.unknown("create")
    tale.find(2, "some")
    assert tale.kinds() == [], "the one of unknown outcome"
    strange = tale.find(3, "another")
    assert tale.kinds() == ["resurrected-topic"]
    assert strange in tale.proof("resurrected-topic")


def test_a_topic_that_is_unknown_although_it_exists(tale: Tale) -> None:
    created = tale.create("old")
    tale.find(2, "")
    assert tale.kinds() == [], "for a second a server may believe what it heard before"
    found = tale.find(2, "")
    assert tale.kinds() == ["lost-topic"]
    assert tale.proof("lost-topic") == (created, found)


def test_a_send_that_is_told_of_no_topic(tale: Tale) -> None:
    tale.create("old")
    tale.find(2, "old")
    tale.recorder.fail(tale.recorder.invoke(3, "send", Send(OLD, (7,))), "UnknownTopic: t")
    assert tale.kinds() == ["lost-topic"]


def test_a_topic_that_cannot_be_deleted_or_is_made_twice(tale: Tale) -> None:
    tale.create("old")
    tale.refused("delete", "UnknownTopic: t")
    assert tale.kinds() == ["lost-topic"]
    tale.create("new")
    assert tale.kinds() == ["lost-topic"], "it was unknown by then"
    tale.create("third")
    assert judge_history(tale.ops).counts == {"lost-topic": 2}


def test_changes_at_the_same_time_prove_nothing(tale: Tale) -> None:
    tale.create("old")
    deletion = tale.begin("delete", 2)
    tale.find(3, "")
    tale.refused("delete", "UnknownTopic: t")
    tale.create("new")
    tale.recorder.ok(deletion)
    tale.find(3, "")
    tale.find(4, "new")
    assert tale.kinds() == []


def test_a_deletion_of_unknown_outcome_leaves_both_open(tale: Tale) -> None:
    tale.create("old")
    tale.unknown("delete")
    tale.find(2, "old")
    tale.find(2, "")
    tale.send_to(OLD, 3, 7, 0)
    assert tale.kinds() == []
    tale.refused("create", "TopicExists: t")
    tale.create("new")
    assert tale.kinds() == []
