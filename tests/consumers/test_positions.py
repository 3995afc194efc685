"""Positions move with answers, and only what an earlier answer gave is committed by itself."""

from uuid import UUID

from raftlog.partitions.consumers.positions import FetchPosition, FetchPositions
from raftlog.partitions.groups.results import OffsetCommit
from raftlog.types import Offset, TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def positions(ids=None):
    ids = {"t": UUID(int=1)} if ids is None else ids
    found = FetchPositions(ids.get)
    found.own([B, A], keep=False)
    return found


def test_an_answer_is_acknowledged_by_the_next_request():
    found = positions()
    found.begin(A, Offset(5))
    found.deliver(A, Offset(9), 2)
    assert found.acknowledged() == {}
    assert found.delivered() == {A: OffsetCommit(Offset(9), "", 2)}
    found.acknowledge()
    found.deliver(A, Offset(12), 2)
    assert found.acknowledged() == {A: OffsetCommit(Offset(9), "", 2)}
    found.note_committed(A, OffsetCommit(Offset(9), "", 2))
    assert found.acknowledged() == {}


def test_positions_only_begun_are_not_committed():
    found = positions()
    found.begin(A, Offset(5))
    found.acknowledge()
    assert found.acknowledged() == found.delivered() == {}


def test_the_source_of_the_last_delivery_is_asked_last():
    found = positions()
    found.begin(A, Offset(0))
    found.begin(B, Offset(0))
    found.deliver(A, Offset(3), 1)
    assert list(found.standings()) == [FetchPosition(B, Offset(0)), FetchPosition(A, Offset(3))]
    found.move_to_end(B)
    assert list(found.standings()) == [FetchPosition(A, Offset(3)), FetchPosition(B, Offset(0))]


def test_a_seek_takes_back_what_was_delivered():
    found = positions()
    found.begin(A, Offset(5))
    found.deliver(A, Offset(9), 2)
    found.begin(A, Offset(1))
    found.acknowledge()
    assert found.acknowledged() == {}
    assert found.of(A) == 1


def test_kept_partitions_keep_their_positions_unless_another_member_may_have_had_them():
    found = positions()
    found.begin(A, Offset(5))
    found.begin(B, Offset(6))
    found.own([A], keep=True)
    assert (found.of(A), found.of(B), found.missing) == (5, None, [])
    found.own([A, B], keep=True)
    assert found.missing == [B]
    found.own([A, B], keep=False)
    assert found.missing == [A, B]


def test_a_later_topic_of_the_same_name_is_another_one():
    ids = {"t": UUID(int=1)}
    found = positions(ids)
    found.begin(A, Offset(5))
    ids["t"] = UUID(int=2)
    found.forget_other_topics()
    assert found.missing == [A, B]
