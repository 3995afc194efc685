"""Appends through a replica: times of their answers, and their errors."""

import asyncio
from dataclasses import replace

import pytest

from raftlog.errors import (
    CorruptBatch,
    LogClosed,
    LogDamaged,
    NotEnoughReplicas,
    NotLeader,
    OffsetNotAvailable,
    OutcomeUnknown,
    StorageFull,
)
from raftlog.partitions.deadline import NEVER
from raftlog.raft import Entry, EntryId, EntryKind, RaftSettings
from raftlog.raft.messages import AppendRequest
from raftlog.records import build_batch
from raftlog.runtime.log.control_entries import build_no_op_batch
from raftlog.topic_config import TopicConfig
from raftlog.types import Index, Term
from tests.replica.worlds import ReplicaWorld, all_values, other_numbers, values_of
from tests.runtime.drivers import SMALL


def test_an_append_is_answered_with_its_offset_once_it_is_committed() -> None:
    with ReplicaWorld() as world:
        leader = world.lead()
        first = world.appended(leader, b"a", b"b")
        assert (first.base_offset, first.next_offset, first.high_watermark) == (0, 2, 2)
        assert first.leader_epoch == world.group(leader).core.term
        both = world.append(leader, b"c", batches=2)
        world.run_until(both.done)
        assert both.result()[:2] == (2, 4)
        assert all_values(world, leader) == [b"a", b"b", b"c", b"c"]


def test_a_sole_replica_commits_appends() -> None:
    with ReplicaWorld(1) as world:
        world.lead()
        assert [world.appended(1, b"%d" % number).base_offset for number in range(5)] == list(range(5))
        assert world.appended(1, b"x", acks=1).base_offset == 5
        world.run(1)
        assert len(all_values(world, 1)) == 6


@pytest.mark.parametrize("acks", [0, 1])
def test_an_answer_without_acks_of_all_precedes_the_commit(acks: int) -> None:
    with ReplicaWorld() as world:
        leader = world.lead()
        world.appended(leader, b"first")
        world.isolate(leader)
        future = world.append(leader, b"second", acks=acks)  # type: ignore[arg-type]
        assert future.done()
        assert future.result()[:2] == (1, 2)
        assert future.result().high_watermark == 1
        assert all_values(world, leader) == [b"first"]


def test_followers_refuse_and_name_the_leader() -> None:
    with ReplicaWorld() as world:
        leader = world.lead()
        for acks in (-1, 0, 1):
            error = world.append(other_numbers(leader)[0], b"x", acks=acks).exception()  # type: ignore[arg-type]
            assert isinstance(error, NotLeader)
            assert error.leader == world.ids[leader - 1]


def test_replaced_appends_fail_and_those_cut_off_by_a_crash_are_unknown() -> None:
    with ReplicaWorld() as world:
        old = world.lead()
        world.appended(old, b"before")
        world.isolate(old)
        lost = world.append(old, b"lost")
        new = world.wait_for_new_leader(old)
        world.appended(new, b"instead")
        world.appended(new, b"and more")
        assert not lost.done()
        world.network.heal()
        world.run_until(lost.done)
        assert isinstance(lost.exception(), NotLeader)
        world.isolate(new)
        unknown = world.append(new, b"who knows")
        world.run_at(new, world.replica(new).close)
        world.run_at(new, lambda: world.group(new).end(LogClosed("the process stops")))
        assert isinstance(unknown.exception(), OutcomeUnknown)
        assert isinstance(world.append(new, b"too late").exception(), LogClosed)


def test_an_append_lost_with_the_leadership_is_unknown() -> None:
    with ReplicaWorld() as world:
        leader = world.lead()
        core, log = world.group(leader).core, world.group(leader).log
        batch = build_batch([b"x"])

        def append_and_lose_it() -> object:
            future = world.replica(leader).append([batch], 1)
            core.step(
                AppendRequest(
                    world.ids[other_numbers(leader)[0] - 1],
                    world.ids[leader - 1],
                    Term(core.term + 1),
                    1,
                    EntryId(log.last_index, log.term_at(log.last_index)),
                    (Entry(Index(log.last_index + 1), Term(core.term + 1), EntryKind.NO_OP, 0, build_no_op_batch(1)),),
                    log.last_index,
                )
            )
            return future

        [future] = world.run_at(leader, append_and_lose_it)
        assert isinstance(future, asyncio.Future)
        assert isinstance(future.exception(), OutcomeUnknown)


# min.insync.replicas


def test_an_append_that_needs_all_replicas_does_not_wait_for_deferred_appends() -> None:
    config = replace(SMALL, raft=RaftSettings(deferred_bytes_max=16 * 1024), deferral_ms=500, quorum_wait_ms=200)
    with ReplicaWorld(topic=TopicConfig(min_insync_replicas=3), config=config) as world:
        leader = world.lead()
        for _ in range(3):
            began = world.loop.now_ns
            world.appended(leader, b"needs all three")
            assert world.loop.now_ns - began < 50_000_000


def test_an_append_waits_for_min_insync_replicas() -> None:
    with ReplicaWorld(topic=TopicConfig(min_insync_replicas=3)) as world:
        leader = world.lead()
        slow = other_numbers(leader)[0]
        world.appended(leader, b"first")
        world.cut(leader, slow)
        future = world.append(leader, b"second")
        world.run(0.1)
        assert world.group(leader).high_watermark == 2
        assert not future.done()
        world.network.heal()
        world.run_until(future.done)
        assert future.result().base_offset == 1
        assert world.group(slow).core.durable_index >= world.group(leader).applied_index
        assert world.group(leader).on_turn is None


def test_two_of_three_replicas_are_enough_for_two_copies() -> None:
    with ReplicaWorld(topic=TopicConfig(min_insync_replicas=2)) as world:
        leader = world.lead()
        world.crash(other_numbers(leader)[0])
        assert world.appended(leader, b"x").base_offset == 0


def test_too_few_active_replicas_are_refused_before_the_append() -> None:
    with ReplicaWorld(topic=TopicConfig(min_insync_replicas=3)) as world:
        leader = world.lead()
        for _ in range(30):  # also just after each CheckQuorum, when no follower has answered in its period yet
            world.run(0.05)
            world.append(leader, b"x")
        world.run(1)
        high_watermark = world.group(leader).high_watermark
        assert high_watermark == 30
        world.crash(other_numbers(leader)[0])
        world.run(3)
        error = world.append(leader, b"y").exception()
        assert type(error) is NotEnoughReplicas
        assert "not enough replicas: 2 of 3" in str(error)
        world.run(1)
        assert world.group(leader).high_watermark == high_watermark
        assert world.appended(leader, b"z", acks=1).base_offset == 30


def test_a_committed_append_without_enough_copies_is_unknown_after_a_lost_leadership() -> None:
    with ReplicaWorld(topic=TopicConfig(min_insync_replicas=3)) as world:
        leader = world.lead()
        slow, other = other_numbers(leader)
        world.appended(leader, b"first")
        world.cut(leader, slow)
        future = world.append(leader, b"second")
        world.run_until(lambda: world.group(leader).high_watermark == 2)
        world.cut(other, leader)
        world.cut(leader, other)
        world.run_until(future.done)
        assert isinstance(future.exception(), OutcomeUnknown)
        assert "committed" in str(future.exception())


# what is wrong with the disk


def test_a_full_disk_refuses_appends_and_serves_reads() -> None:
    with ReplicaWorld(1) as world:
        world.lead()
        world.appended(1, b"first")
        disk = world.disks[0]
        disk.capacity_bytes = 1 << 40
        disk.capacity_bytes -= disk.free_bytes("/data") - 3000
        futures = []
        while not world.group(1).is_disk_full:
            futures.append(world.append(1, bytes(1000)))
            world.run(0.05)
        assert isinstance(world.append(1, b"refused").exception(), StorageFull)
        assert all_values(world, 1)[0] == b"first"
        assert world.replica(1).describe().problem == "the disk is full"
        disk.capacity_bytes = None
        world.run(1)
        assert [future.result().base_offset for future in futures] == list(range(1, len(futures) + 1))
        assert len(all_values(world, 1)) == len(futures) + 1


def test_a_damaged_sole_replica_refuses_appends_and_serves_intact_records() -> None:
    with ReplicaWorld(1) as world:
        world.lead()
        for number in range(30):
            world.appended(1, b"%d" % number + bytes(500))
        world.run(5)
        segment = world.group(1).log.segments.active
        hurt = segment.row(segment.find_row(20))
        world.disks[0].flip_bit(segment.files.log.path, hurt.end - 10, 1)
        with pytest.raises(CorruptBatch, match=f"offset {hurt.offset}"):
            all_values(world, 1)
        world.run(1)
        error = world.append(1, b"x").exception()
        assert isinstance(error, LogDamaged)
        assert "raftlog partition recover" in str(error)
        assert len(values_of(world.fetch_and_wait(1, 1))) == 19
        assert len(values_of(world.fetch_and_wait(1, 21))) == 9
        assert world.fetch_and_wait(1, 30).batches == []
        assert world.get(1, lambda replica: replica.offsets(False, NEVER)) == (0, 30)
        assert isinstance(world.fetch(1, 31, wait=1).exception(), OffsetNotAvailable)
        assert world.replica(1).describe().problem is not None


def test_a_failed_sync_fails_all_appends_with_its_reason() -> None:
    with ReplicaWorld(1) as world:
        world.lead()
        waiting = world.fetch(1, 0, wait=100, min_bytes=1)
        world.disks[0].fail_sync()
        future = world.append(1, b"x")
        world.run(1)
        assert future.done()
        assert isinstance(future.exception(), OutcomeUnknown)
        error = world.append(1, b"y").exception()
        assert isinstance(error, LogClosed)
        assert "stopped" in str(error)
        assert isinstance(waiting.exception(), LogClosed)
