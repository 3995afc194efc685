"""Topics that are deleted and recreated: planted anomalies are detected with the entries that prove them.

A similar history without an error passes."""

import pytest

from jepsen.checkers import Assign, Fetched, Op, Poll, Rules, Send, Topic, check_history, read_lines, write_lines
from raftlog.types import Offset, TopicPartition
from tests.checkers.written_history import WrittenHistory

OLD, NEW = TopicPartition("t@old", 0), TopicPartition("t@new", 0)


class TopicHistory(WrittenHistory):
    """History of the topic `t`; process 1 creates and deletes, the others are clients."""

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
        return sorted(check_history(self.ops, Rules()).counts)

    def proof(self, kind: str) -> tuple[Op, ...]:
        """Return the proof of the one anomaly of this kind."""
        (found,) = (each for each in check_history(self.ops).anomalies if each.kind == kind)
        return found.ops


@pytest.fixture
def history() -> TopicHistory:
    return TopicHistory()


def test_each_incarnation_of_a_topic_is_checked_separately(history: TopicHistory) -> None:
    history.create("old")
    history.send_to(OLD, 2, 7, 0)
    history.poll_of(OLD, 3, 7)
    history.delete()
    history.create("new")
    history.send_to(NEW, 2, 8, 0)
    history.find(3, "new")
    history.poll_of(NEW, 3, 8)
    history.find(4, "new")
    assert history.kinds() == []
    assert list(read_lines(write_lines(history.ops))) == history.ops


def test_unread_records_are_reported_only_for_existing_topics(history: TopicHistory) -> None:
    history.create("old")
    history.send_to(OLD, 2, 7, 0)
    history.send_to(OLD, 2, 8, 5)
    history.delete()
    assert history.kinds() == [], "neither the records nor the offsets between"
    history.create("new")
    history.send_to(NEW, 2, 9, 0)
    assert history.kinds() == ["unseen"]


def test_a_reader_with_a_position_of_an_earlier_incarnation_has_lost_nothing(history: TopicHistory) -> None:
    history.create("old")
    history.send_to(OLD, 2, 7, 0)
    history.send_to(OLD, 2, 8, 1)
    invocation = history.recorder.invoke(3, "poll", Poll())
    history.recorder.ok(invocation, Poll((Fetched(OLD, (Offset(1),), (8,)),)))
    assert history.kinds() == ["lost-write"], "a client has to read all of it while it exists"
    history.delete()
    assert history.kinds() == []


def test_a_reader_that_skips_a_record_of_a_deleted_topic_is_detected(history: TopicHistory) -> None:
    history.create("old")
    history.send_to(OLD, 2, 7, 0)
    history.send_to(OLD, 2, 8, 1)
    history.recorder.ok(history.recorder.invoke(3, "assign", Assign(((OLD, Offset(0)),))))
    invocation = history.recorder.invoke(3, "poll", Poll())
    history.recorder.ok(invocation, Poll((Fetched(OLD, (Offset(1),), (8,)),)))
    history.delete()
    assert history.kinds() == ["poll-skip"]


def test_an_old_incarnation_that_a_process_sees_again_is_detected(history: TopicHistory) -> None:
    history.create("old")
    history.find(2, "old")
    history.delete()
    history.create("new")
    gone = history.find(2, "new")
    history.find(3, "old")
    assert history.kinds() == [], "another process may hear of it later"
    back = history.poll_of(OLD, 2)
    assert history.kinds() == ["resurrected-topic"]
    assert history.proof("resurrected-topic") == (gone, back)


def test_an_incarnation_that_returns_after_an_unknown_topic_error_is_detected(history: TopicHistory) -> None:
    history.create("old")
    history.find(2, "old")
    history.delete()
    history.find(2, "")
    history.find(3, "old")
    assert history.kinds() == []
    history.send_to(OLD, 2, 7, 0)
    assert history.kinds() == ["resurrected-topic"]


def test_records_of_one_incarnation_in_another_are_detected(history: TopicHistory) -> None:
    history.create("old")
    history.send_to(OLD, 2, 7, 0)
    history.delete()
    history.create("new")
    history.poll_of(NEW, 3, 7)
    assert history.kinds() == ["phantom", "resurrected-topic"]


def test_a_deleted_name_that_is_refused_as_existing_is_detected(history: TopicHistory) -> None:
    history.create("old")
    deleted = history.delete()
    exists = history.refused("create", "TopicExists: t")
    assert history.kinds() == ["resurrected-topic"]
    assert history.proof("resurrected-topic") == (deleted, exists)


def test_a_name_may_exist_through_a_creation_of_unknown_outcome_until_a_later_answer(history: TopicHistory) -> None:
    history.unknown("create")
    history.refused("create", "TopicExists: t")
    history.find(2, "some")
    assert history.kinds() == []
    history.delete()
    history.refused("delete", "UnknownTopic: t")
    assert history.kinds() == []
    history.refused("create", "TopicExists: t")
    assert history.kinds() == ["resurrected-topic"]


def test_a_topic_that_was_never_created_is_detected(history: TopicHistory) -> None:
    history.unknown("create")
    history.find(2, "some")
    assert history.kinds() == [], "the one of unknown outcome"
    strange = history.find(3, "another")
    assert history.kinds() == ["resurrected-topic"]
    assert strange in history.proof("resurrected-topic")


def test_an_existing_topic_reported_as_unknown_is_detected(history: TopicHistory) -> None:
    created = history.create("old")
    history.find(2, "")
    assert history.kinds() == [], "for a second a server may use older metadata"
    found = history.find(2, "")
    assert history.kinds() == ["lost-topic"]
    assert history.proof("lost-topic") == (created, found)


def test_a_send_to_an_existing_topic_answered_as_unknown_is_detected(history: TopicHistory) -> None:
    history.create("old")
    history.find(2, "old")
    history.recorder.fail(history.recorder.invoke(3, "send", Send(OLD, (7,))), "UnknownTopic: t")
    assert history.kinds() == ["lost-topic"]


def test_an_impossible_deletion_or_second_creation_is_detected(history: TopicHistory) -> None:
    history.create("old")
    history.refused("delete", "UnknownTopic: t")
    assert history.kinds() == ["lost-topic"]
    history.create("new")
    assert history.kinds() == ["lost-topic"], "it was unknown by then"
    history.create("third")
    assert check_history(history.ops).counts == {"lost-topic": 2}


def test_concurrent_changes_prove_nothing(history: TopicHistory) -> None:
    history.create("old")
    deletion = history.begin("delete", 2)
    history.find(3, "")
    history.refused("delete", "UnknownTopic: t")
    history.create("new")
    history.recorder.ok(deletion)
    history.find(3, "")
    history.find(4, "new")
    assert history.kinds() == []


def test_a_deletion_of_unknown_outcome_leaves_both_states_possible(history: TopicHistory) -> None:
    history.create("old")
    history.unknown("delete")
    history.find(2, "old")
    history.find(2, "")
    history.send_to(OLD, 3, 7, 0)
    assert history.kinds() == []
    history.refused("create", "TopicExists: t")
    history.create("new")
    assert history.kinds() == []
