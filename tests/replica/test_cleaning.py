"""Conditions for compaction, and equal retention on every replica, compacted or not."""

import asyncio
from functools import partial

import pytest

from raftlog.errors import DeadlineExceeded, NotLeader, OffsetNotAvailable, OffsetOutOfRange
from raftlog.records import NewRecord, build_batch
from raftlog.topic_config import TopicConfig
from tests.replica.producing import ProducerWorld
from tests.replica.worlds import base_offsets, other_numbers

COMPACTED = TopicConfig(segment_bytes=4096, cleanup_policy="compact", retention_bytes=8192, retention_ms=1000)


class CompactedWorld(ProducerWorld):
    """World whose replicas run maintenance."""

    def write(self, count: int, keys: int = 5, size: int = 500) -> None:
        """Append single records of `size` zeros, with `keys` different keys in turn."""
        leader = self.lead()
        for number in range(count):
            now_ms = self.nodes[leader - 1].wall_ns() // 1_000_000
            batch = build_batch([NewRecord(bytes(size), b"%d" % (number % keys), now_ms)])
            [future] = self.run_at(leader, partial(self.replica(leader).append, [batch], -1))
            assert isinstance(future, asyncio.Future)
            self.run_until(future.done)
            future.result()

    def marks(self) -> set[tuple[int, int]]:
        self.converge()
        self.run(0.5)
        return {tuple(self.group(number).log.mark) for number in self.drivers}


def test_dirty_closed_segments_are_marked_and_nothing_is_deleted_by_age() -> None:
    with CompactedWorld(topic=COMPACTED) as world:
        world.write(40)
        leader = world.lead()
        world.run(5)
        world.run_maintenance()
        newest = base_offsets(world, leader)[-1]
        assert world.marks() == {(newest, 0)}
        assert world.group(leader).log_start_offset == 0
        world.write(8)
        world.run_maintenance()
        assert world.marks() == {(newest, 0)}  # one segment more, of many
        world.write(60)
        world.run_maintenance()
        [(mark, _)] = world.marks()
        assert newest < mark <= world.group(leader).high_watermark


def test_young_records_are_not_compacted_and_old_records_are_at_any_ratio() -> None:
    topic = TopicConfig(
        segment_bytes=4096,
        cleanup_policy="compact",
        min_compaction_lag_ms=10_000,
        max_compaction_lag_ms=60_000,
        min_cleanable_dirty_ratio=1.0,
    )
    with CompactedWorld(topic=topic) as world:
        world.write(20)
        world.run_maintenance()
        assert world.marks() == {(-1, -1)}
        world.run(11)
        world.run_maintenance()
        [(first, _)] = world.marks()
        assert first > 0
        world.write(8)
        world.run(20)
        world.run_maintenance()
        assert world.marks() == {(first, 0)}
        world.run(45)
        world.run_maintenance()  # rolls what is old
        world.run(15)
        world.run_maintenance()
        assert world.marks() == {(28, 0)}


def test_tombstones_are_removed_after_delete_retention_below_a_mark() -> None:
    topic = TopicConfig(segment_bytes=4096, cleanup_policy="compact", delete_retention_ms=30_000)
    with CompactedWorld(topic=topic) as world:
        world.write(40)
        world.run_maintenance()
        [(first, tombstones)] = world.marks()
        assert tombstones == 0
        world.run_maintenance()
        world.run(20)
        world.write(60)
        world.run_maintenance()
        [(second, tombstones)] = world.marks()
        assert (second > first, tombstones) == (True, 0)
        world.run(15)
        world.write(160)
        world.run_maintenance()
        [(third, tombstones)] = world.marks()
        assert (third > second, tombstones) == (True, first)


def test_a_mark_waits_until_the_producer_table_is_stored_after_a_roll() -> None:
    with CompactedWorld(topic=COMPACTED) as world:
        leader = world.lead()
        world.send_and_wait(leader, 0, b"x")
        state = world.replica(leader)._producers
        state.write_run_if_due = lambda: None  # type: ignore[method-assign]
        world.write(12)
        assert len(base_offsets(world, leader)) == 2  # nothing more rolls
        world.run_maintenance()
        assert world.marks() == {(-1, -1)}
        del state.write_run_if_due
        world.run_maintenance()
        world.write(12)
        world.run_maintenance()
        assert world.marks() == {(base_offsets(world, leader)[-1], 0)}
        world.run(120)
        for number in (1, 2, 3):
            world.crash(number)
            world.start(number)
        leader = world.lead()
        assert world.send_and_wait(leader, 0, b"x").is_duplicate


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_retention_by_bytes_is_the_same_on_every_replica(policy: str) -> None:
    topic = TopicConfig(segment_bytes=4096, cleanup_policy=policy, retention_bytes=8192, retention_ms=None)
    with CompactedWorld(topic=topic) as world:
        world.write(60, keys=1_000)
        world.send_and_wait(world.lead(), 0, b"x")
        world.write(20, keys=1_000)
        for _ in range(3):
            world.run_maintenance()
        world.converge()
        world.run(1)
        starts = {world.group(number).log_start_offset for number in world.drivers}
        assert len(starts) == 1
        assert min(starts) > 40
        assert len({tuple(base_offsets(world, number)) for number in world.drivers}) == 1
        assert world.has_equal_tables()


# records that are deleted by order


def test_records_are_deleted_below_an_offset_on_every_replica() -> None:
    with CompactedWorld() as world:
        world.write(20)
        leader = world.lead()
        for before in (7, 3, 20):
            deadline = world.deadline(leader, 5)
            start = world.get(leader, lambda replica, to=before, until=deadline: replica.delete_before(to, until))  # type: ignore[misc]
            assert start == max(7, before)
        world.converge()
        world.run(0.5)
        assert [world.group(number).log_start_offset for number in (1, 2, 3)] == [20] * 3
        assert base_offsets(world, leader) == [20]
        world.write(1)
        with pytest.raises(OffsetOutOfRange):
            world.get(leader, lambda replica: replica.delete_before(22, world.deadline(leader, 1)))
        other = other_numbers(leader)[0]
        with pytest.raises(NotLeader):
            world.get(other, lambda replica: replica.delete_before(1, world.deadline(other, 1)))


def test_a_deletion_that_is_not_committed_in_time_is_unknown() -> None:
    with CompactedWorld() as world:
        world.write(5)
        leader = world.lead()
        world.isolate(leader)
        with pytest.raises(DeadlineExceeded):
            world.get(leader, lambda replica: replica.delete_before(3, world.deadline(leader, 0.1)))


def test_a_leader_without_a_quorum_does_not_answer_out_of_range_to_a_deletion() -> None:
    """The other replicas may have committed entries that the leader lacks."""
    with CompactedWorld() as world:
        world.write(5)
        leader = world.lead()
        world.isolate(leader)
        with pytest.raises(OffsetNotAvailable):
            world.get(leader, lambda replica: replica.delete_before(6, world.deadline(leader, 0.1)))
