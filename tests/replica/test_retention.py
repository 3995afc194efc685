"""Retention through committed trims, and its purpose: identical files on every replica."""

from dataclasses import replace
from functools import partial

from raftlog.raft import ConfigurationChange
from raftlog.records import NewRecord, build_batch, read_records
from raftlog.runtime.config import DriverConfig
from raftlog.storage.recovery import read_roll
from raftlog.topic_config import TopicConfig
from tests.replica.worlds import ReplicaWorld, base_offsets, other_numbers, wait_for_result
from tests.runtime.drivers import GROUP, SMALL

TOPIC = TopicConfig(segment_bytes=4096, retention_bytes=8192, retention_ms=None)


class RetentionWorld(ReplicaWorld):
    """World of replicas whose running nodes run maintenance."""

    def run_maintenance(self) -> None:
        for number in sorted(number for number in self.drivers if GROUP.bytes in self.drivers[number].groups):
            now_ms = self.nodes[number - 1].wall_ns() // 1_000_000
            self.run_at(number, partial(self.replica(number).run_maintenance, now_ms))
        self.run(0.5)

    def write(self, count: int, size: int = 500, timestamp: int | None = None) -> None:
        leader = self.lead()
        for _ in range(count):
            now_ms = self.nodes[leader - 1].wall_ns() // 1_000_000
            batch = build_batch([NewRecord(bytes(size), None, now_ms if timestamp is None else timestamp)])
            [future] = self.run_at(leader, partial(self.replica(leader).append, [batch], -1))
            self.run_until(future.done)  # type: ignore[attr-defined]
            future.result()  # type: ignore[attr-defined]

    def has_equal_segments(self) -> bool:
        """Return whether all replicas have the same bytes in every segment, closed ones included.

        Segments that are wholly below the log start are not compared."""
        starts = {self.group(number).log_start_offset for number in self.drivers}
        assert len(starts) == 1, starts
        kept = []
        for number in sorted(self.drivers):
            segments = self.group(number).log.segments.segments
            names = {f"{each.base_offset:020d}.log" for each in segments if each.next_offset > min(starts)}
            files = self.files(number)
            kept.append({name: files[name] for name in sorted(names)})
        return all(each == kept[0] for each in kept)


def test_the_oldest_segments_are_deleted_while_the_log_is_too_large() -> None:
    with RetentionWorld(topic=TOPIC) as world:
        world.write(60)
        leader = world.lead()
        index = world.group(leader).core.last_id.index
        world.run_maintenance()
        assert world.group(leader).core.last_id.index == index + 1  # one entry for all that went
        world.converge()
        assert 8192 <= world.group(leader).log.segments.size_bytes <= 8192 + 4096
        assert world.has_equal_segments()
        assert world.group(leader).log_start_offset == base_offsets(world, leader)[0]
        assert world.replica(leader)._counters.segments_bytes_deleted > 10_000
        world.run_maintenance()
        assert world.group(leader).core.last_id.index == index + 1


def test_only_the_leader_trims() -> None:
    with RetentionWorld(topic=TOPIC) as world:
        world.write(60)
        follower = other_numbers(world.lead())[0]
        world.run_at(follower, lambda: world.replica(follower).run_maintenance(1 << 50))
        world.run(1)
        assert world.group(follower).log_start_offset == 0


def test_the_age_of_a_segment_is_that_of_its_newest_record_or_the_next_roll() -> None:
    topic = TopicConfig(segment_bytes=4096, retention_ms=60_000)
    with RetentionWorld(topic=topic) as world:
        world.write(20, timestamp=1000)  # a client's late clock deletes no record early
        leader = world.lead()
        world.run_maintenance()
        assert world.group(leader).log_start_offset == 0
        world.run(61)
        world.run_maintenance()
        start = world.group(leader).log_start_offset
        assert 0 < start <= base_offsets(world, leader)[-1]


def test_the_newest_segment_is_rolled_by_age_and_then_deleted() -> None:
    topic = TopicConfig(segment_ms=10_000, retention_ms=30_000)
    with RetentionWorld(topic=topic) as world:
        world.write(5)
        world.run(11)
        world.run_maintenance()
        leader = world.lead()
        roll = read_roll(world.group(leader).log.segments.active)
        assert roll is not None
        assert dict(roll.settings)["retention.ms"] == "30000"
        world.run(31)
        world.run_maintenance()
        assert world.group(leader).log_start_offset == world.group(leader).high_watermark == 5
        world.converge()
        assert world.has_equal_segments()
        world.write(1)
        fetched = world.fetch_and_wait(leader, 5)
        assert [record.offset for batch in fetched.batches for record in read_records(batch)] == [5]


def test_a_segment_without_records_is_never_rolled() -> None:
    with RetentionWorld(topic=TopicConfig(segment_ms=1000)) as world:
        world.lead()
        for _ in range(3):
            world.run(5)
            world.run_maintenance()
        assert base_offsets(world, 1) == [0]


def test_changed_settings_apply_at_once() -> None:
    with RetentionWorld(topic=TopicConfig()) as world:
        world.write(30)
        leader = world.lead()
        assert len(base_offsets(world, leader)) == 2  # the first roll is from 1970
        for number in (1, 2, 3):
            world.replica(number).reconfigure(TopicConfig(segment_bytes=4096, retention_bytes=0))
        world.write(10)
        world.run_maintenance()
        world.converge()
        assert world.group(leader).log_start_offset > 20
        assert world.has_equal_segments()


def test_files_stay_identical_under_restarts_and_leader_changes() -> None:
    """Rolls by bytes and by age, trims, restarts, power losses, a long absence, other leaders."""
    config: DriverConfig = replace(SMALL, checkpoint_interval_ms=700)
    topic = TopicConfig(segment_bytes=4096, segment_ms=20_000, retention_bytes=12_288, retention_ms=90_000)
    with RetentionWorld(topic=topic, config=config) as world:
        for turn in range(8):
            world.write(17, size=200 + 60 * turn)
            leader = world.lead()
            away = other_numbers(leader)[turn % 2]
            world.crash(away, power=turn % 3 == 0)
            world.write(12 if turn % 2 else 40)
            world.run(25)
            world.write(1)
            world.run_maintenance()
            if turn % 4 == 2:
                world.crash(leader, power=True)
                world.start(leader)
            world.start(away)
            world.lead()
            world.converge()
            world.run_maintenance()
            world.converge()
            world.run(1)
            assert world.has_equal_segments(), turn
            assert len({tuple(base_offsets(world, number)) for number in (1, 2, 3)}) == 1, turn
        assert world.group(1).log.boundary.index > 300
        assert not world.failures


def test_an_empty_replica_gets_identical_files() -> None:
    with RetentionWorld(4, topic=TOPIC, voters=3) as world:
        world.write(60)
        world.run_maintenance()
        leader = world.lead()
        group = world.group(leader)
        world.run_at(4, lambda: world.drivers[4].join_group(world.roll.group_id))
        change = ConfigurationChange(tuple(world.ids[:3]), (world.ids[3],), group.core.configuration.index)
        wait_for_result(world, leader, lambda group: group.change_members(change))
        world.run_until(lambda: world.group(4).applied_index > 50)
        world.converge()
        assert world.has_equal_segments()
        assert world.files(4) == world.files(leader)
