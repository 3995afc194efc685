"""Producers with an uncommitted `expire_producers` entry, and their state after a lost leadership."""

from types import SimpleNamespace
from typing import Any

import pytest

from raftlog.errors import StorageFull, UnknownProducer
from raftlog.partitions.replica import sequence_check as judging
from raftlog.partitions.replica.expired_ids import ExpiredIds
from raftlog.partitions.replica.sequence_check import SequenceCheck
from raftlog.records import COMPUTED_PRODUCER_IDS
from tests.replica.producing import batch_of
from tests.replica.test_full_producer_table import FILLED, SmallTableWorld
from tests.replica.worlds import all_values


def sequencing_of(world: SmallTableWorld, number: int) -> SequenceCheck:
    return world.replica(number)._sequence_check


def test_a_producer_that_writes_in_the_same_call_does_not_expire() -> None:
    with SmallTableWorld() as world:
        leader = world.lead()
        world.fill(leader)
        both = world.send_batches(leader, batch_of(1, b"2 again", producer=2), batch_of(0, b"5", producer=5))
        world.run_until(both.done)
        both.result()
        assert world.has_equal_tables()
        assert world.expired_ids(leader) == [3]
        assert list(world.producers_of(leader)) == [1, 2, 4, 5]


def test_expiring_producers_free_their_places_at_once() -> None:
    with SmallTableWorld() as world:
        leader = world.lead()
        world.fill(leader)
        world.isolate(leader)
        world.run_at(leader, lambda: sequencing_of(world, leader).expire([(2, 0), (3, 0)], "silent"))
        new = [world.send(leader, 0, b"new", producer=producer) for producer in (5, 6)]
        world.run(0.1)
        world.network.heal()
        world.run_until(lambda: all(future.done() for future in new))
        assert world.has_equal_tables()
        assert world.expired_ids(leader) == [2, 3]
        assert list(world.producers_of(leader)) == [1, 4, 5, 6]


def test_an_expiring_producer_cannot_restart_its_sequence() -> None:
    """Its sequence 0 may be a retry of the first batch that it wrote."""
    with SmallTableWorld() as world:
        leader = world.lead()
        world.fill(leader)
        world.isolate(leader)
        fifth = world.send(leader, 0, b"5", producer=5)
        again = world.send(leader, 0, b"2", producer=2)
        world.run(0.1)
        world.network.heal()
        world.run_until(lambda: fifth.done() and again.done())
        assert isinstance(again.exception(), UnknownProducer)
        assert all_values(world, leader) == [*FILLED, b"5"]


def test_one_entry_expires_a_bounded_number_of_producers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "EXPIRED_MAX", 2)
    monkeypatch.setattr(judging, "_EVICTED_PART", 1)
    with SmallTableWorld() as world:
        leader = world.lead()
        world.fill(leader)
        world.send_and_wait(leader, 0, b"5", producer=5)
        assert world.has_equal_tables()
        assert world.expired_ids(leader) == [2, 3]


def test_a_batch_of_a_new_producer_is_refused_when_none_can_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    with SmallTableWorld() as world:
        leader = world.lead()
        world.fill(leader)
        group = world.group(leader)

        def refuse(entries: object) -> Any:
            refused = group._fail(StorageFull("the disk is full"))
            assert refused.done()
            return refused

        monkeypatch.setattr(group, "propose_control", refuse)
        assert world.refusal_of(leader, 0, producer=5) is StorageFull
        assert all_values(world, leader) == FILLED
        monkeypatch.undo()
        assert world.send_and_wait(leader, 1, b"2 again", producer=2).base_offset == 5


def test_a_committed_entry_ends_only_its_own_expirations() -> None:
    with SmallTableWorld() as world:
        sequencing = sequencing_of(world, world.lead())
        one: Any = SimpleNamespace(exception=lambda: None)
        other: Any = SimpleNamespace(exception=lambda: None)
        sequencing._expiring = {2: one, 3: other, 4: one}
        sequencing._drop_mark(one)
        assert sequencing._expiring == {3: other}


def test_a_replica_that_leads_again_has_dropped_earlier_expirations() -> None:
    """The new leader's log is shorter than the old one's, so many of its entries have no outcome yet."""
    with SmallTableWorld() as world:
        old = world.lead()
        for producer in (1, 2, 3):
            world.send_and_wait(old, 0, b"%d" % producer, producer=producer)
        world.converge()
        world.isolate(old)
        for _ in range(20):
            world.append(old, b"lost")
        world.run(0.05)
        lost = [world.send(old, 1, b"lost", producer=3), world.send(old, 0, b"lost", producer=4)]
        world.run_at(old, lambda: sequencing_of(world, old).expire([(2, 0)], "silent"))
        world.run(0.05)
        new = world.wait_for_new_leader(old)
        world.network.heal()
        world.converge()
        world.run_at(new, lambda: world.group(new).transfer_leadership(world.ids[old - 1]))
        world.run_until(lambda: world.leader() == old)
        assert not any(future.done() for future in lost)
        assert world.send_and_wait(old, 1, b"3 again", producer=3).base_offset == 3
        assert world.send_and_wait(old, 1, b"2 again", producer=2).base_offset == 4
        assert world.send_and_wait(old, 0, b"5", producer=5).base_offset == 5
        assert world.has_equal_tables()
        assert world.expired_ids(old) == []
        assert list(world.producers_of(old)) == [1, 2, 3, 5]
        assert not any(sequencing_of(world, old).is_busy(producer) for producer in range(6))


def test_computed_ids_are_not_stored_as_expired() -> None:
    ids = ExpiredIds().with_ids([5, COMPUTED_PRODUCER_IDS - 1, COMPUTED_PRODUCER_IDS])
    assert ids.ranges == ((5, 5), (COMPUTED_PRODUCER_IDS - 1, COMPUTED_PRODUCER_IDS - 1))
