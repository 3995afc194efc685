"""Positions advance with answers, and auto commit commits only the records of earlier answers."""

from uuid import UUID

from raftlog.partitions.consumers.positions import FetchPosition, FetchPositions
from raftlog.partitions.groups.results import OffsetCommit
from raftlog.types import Offset, TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def make_positions(ids=None):
    ids = {"t": UUID(int=1)} if ids is None else ids
    found = FetchPositions(ids.get)
    found.own([B, A], keep=False)
    return found


def test_the_next_request_acknowledges_an_answer():
    found = make_positions()
    found.begin(A, Offset(5))
    found.deliver(A, Offset(9), 2)
    assert found.acknowledged() == {}
    assert found.delivered() == {A: OffsetCommit(Offset(9), "", 2)}
    found.acknowledge()
    found.deliver(A, Offset(12), 2)
    assert found.acknowledged() == {A: OffsetCommit(Offset(9), "", 2)}
    found.mark_committed(A, OffsetCommit(Offset(9), "", 2))
    assert found.acknowledged() == {}


def test_positions_without_delivered_records_are_not_committed():
    found = make_positions()
    found.begin(A, Offset(5))
    found.acknowledge()
    assert found.acknowledged() == found.delivered() == {}


def test_the_partition_of_the_last_delivery_is_fetched_last():
    found = make_positions()
    found.begin(A, Offset(0))
    found.begin(B, Offset(0))
    found.deliver(A, Offset(3), 1)
    assert list(found.fetch_order()) == [FetchPosition(B, Offset(0)), FetchPosition(A, Offset(3))]
    found.move_to_end(B)
    assert list(found.fetch_order()) == [FetchPosition(A, Offset(3)), FetchPosition(B, Offset(0))]


def test_a_seek_discards_unacknowledged_deliveries():
    found = make_positions()
    found.begin(A, Offset(5))
    found.deliver(A, Offset(9), 2)
    found.begin(A, Offset(1))
    found.acknowledge()
    assert found.acknowledged() == {}
    assert found.next_offset(A) == 1


def test_kept_partitions_keep_their_positions_unless_another_member_may_have_owned_them():
    found = make_positions()
    found.begin(A, Offset(5))
    found.begin(B, Offset(6))
    found.own([A], keep=True)
    assert (found.next_offset(A), found.next_offset(B), found.missing) == (5, None, [])
    found.own([A, B], keep=True)
    assert found.missing == [B]
    found.own([A, B], keep=False)
    assert found.missing == [A, B]


def test_positions_of_a_deleted_topic_do_not_apply_to_a_new_one_of_its_name():
    ids = {"t": UUID(int=1)}
    found = make_positions(ids)
    found.begin(A, Offset(5))
    ids["t"] = UUID(int=2)
    found.forget_other_topics()
    assert found.missing == [A, B]
