"""Retention, deletion and compaction of partitions with transactions: open ones stay, aborted records go."""

import pytest

from raftlog.errors import OffsetOutOfRange
from raftlog.records import read_header
from raftlog.topic_config import TopicConfig
from raftlog.types import Isolation
from tests.replica.transacting import TransactionWorld
from tests.replica.worlds import base_offsets

COMPACTED = TopicConfig(
    cleanup_policy="compact", min_cleanable_dirty_ratio=0.01, min_compaction_lag_ms=0, delete_retention_ms=0
)


def test_retention_stops_at_an_open_transaction() -> None:
    with TransactionWorld(topic=TopicConfig(retention_bytes=1)) as world:
        leader = world.lead()
        world.appended(leader, b"0")
        world.begin(leader)
        world.written(leader, 0, b"open")
        for _ in range(3):
            world.roll_segment(leader)
            world.appended(leader, bytes(100))
        for _ in range(3):
            world.run_maintenance()
        assert world.group(leader).log_start_offset <= 1
        world.ended(leader, is_commit=True)
        for _ in range(3):
            world.run_maintenance()
        assert world.group(leader).log_start_offset > 1


def test_records_above_an_open_transaction_are_not_deleted() -> None:
    with TransactionWorld() as world:
        leader = world.lead()
        world.appended(leader, b"0")
        world.begin(leader)
        world.written(leader, 0, b"open")
        world.appended(leader, b"2")
        deadline = world.deadline(leader, 5)
        with pytest.raises(OffsetOutOfRange):
            world.get(leader, lambda replica: replica.delete_before(2, deadline))
        assert world.get(leader, lambda replica: replica.delete_before(1, deadline)) == 1
        world.ended(leader, is_commit=True)
        assert world.get(leader, lambda replica: replica.delete_before(2, deadline)) == 2


def write_keyed_transactions(world: TransactionWorld, leader: int) -> None:
    """Write the same keys in committed and aborted transactions, over several segments."""
    world.transact(leader, 0, b"a", b"b")
    world.roll_segment(leader)
    world.transact(leader, 2, b"a", b"c", is_commit=False)
    world.transact(leader, 0, b"d", producer=8)
    world.roll_segment(leader)
    world.transact(leader, 1, b"b", is_commit=False, producer=8)
    world.roll_segment(leader)


def compact(world: TransactionWorld) -> None:
    """Run maintenance until all replicas have compacted what they may."""
    for _ in range(6):
        world.run_maintenance()
        world.run(8)


def test_compaction_removes_aborted_records_only() -> None:
    with TransactionWorld(topic=COMPACTED) as world:
        leader = world.lead()
        write_keyed_transactions(world, leader)
        world.transact(leader, 4, b"end")
        before = world.committed_values(leader)
        assert before == [b"a", b"b", b"d", b"end"]
        compact(world)
        assert world.group(leader).log.mark.compacted_to > 0
        for number in (1, 2, 3):
            segments = world.group(number).log.segments.segments
            assert any(each.is_compacted for each in segments), base_offsets(world, number)
        assert world.committed_values(leader) == before
        assert world.committed_values(leader, max_bytes=1) == before
        found = world.fetch_and_wait(leader, 0)
        stored = [read_header(batch).base_offset for batch in found.batches]
        assert 3 not in stored
        assert 4 not in stored


def test_compaction_waits_for_an_open_transaction() -> None:
    with TransactionWorld(topic=COMPACTED) as world:
        leader = world.lead()
        world.appended(leader, b"0")
        world.begin(leader)
        world.written(leader, 0, b"a")
        world.roll_segment(leader)
        world.transact(leader, 0, b"a", b"b", producer=8)
        world.roll_segment(leader)
        world.transact(leader, 2, b"c", producer=8)
        compact(world)
        assert world.group(leader).log.mark.compacted_to <= 1
        world.ended(leader, is_commit=False)
        compact(world)
        assert world.group(leader).log.mark.compacted_to > 1
        assert b"a" in world.committed_values(leader)


def test_an_open_transaction_below_the_log_start_hides_no_bounds() -> None:
    """Recovery of damage can delete records of an open transaction."""
    with TransactionWorld() as world:
        leader = world.lead()
        world.begin(leader)
        world.written(leader, 0, b"open")
        world.roll_segment(leader)
        world.appended(leader, b"1")
        [trim] = world.run_at(leader, lambda: world.group(leader).propose_trim(1))
        world.run_until(trim.done)  # type: ignore[attr-defined]
        world.run(1)
        deadline, committed = world.deadline(leader, 5), Isolation.READ_COMMITTED
        assert world.get(leader, lambda replica: replica.offsets(True, deadline, committed)) == (1, 1)
        assert world.committed_fetch(leader, 1).batches == []
        world.ended(leader, is_commit=False)
        assert world.committed_values(leader) == [b"1"]
