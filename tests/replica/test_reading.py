"""Reads through a replica: only committed records, only while it leads, and a high watermark that never falls."""

import pytest

from raftlog.errors import LogClosed, NotLeader, OffsetNotAvailable, OffsetOutOfRange
from raftlog.partitions.deadline import NEVER
from raftlog.partitions.replica import replica
from raftlog.raft import Role
from raftlog.records import NewRecord, build_batch
from tests.replica.worlds import ReplicaWorld, all_values, other_numbers, values_of, wait_for_result
from tests.runtime import drivers


def test_a_fetch_begins_at_its_offset_and_ends_at_the_high_watermark() -> None:
    with ReplicaWorld() as world:
        leader = world.lead()
        for number in range(10):
            world.appended(leader, b"%d" % number)
        found = world.fetch_and_wait(leader, 4)
        assert values_of(found) == [b"%d" % number for number in range(4, 10)]
        assert found[1:4] == (10, 0, world.group(leader).core.term)
        assert values_of(world.fetch_and_wait(leader, 10)) == []
        assert isinstance(world.fetch(other_numbers(leader)[0], 10).exception(), NotLeader)


def test_a_fetch_waits_for_its_minimum_of_bytes() -> None:
    with ReplicaWorld() as world:
        leader = world.lead()
        world.appended(leader, b"first")
        waiting = world.fetch(leader, 1, wait=100, min_bytes=1)
        fetched_later = world.fetch(leader, 1, wait=100, min_bytes=1000)
        short = world.fetch(leader, 1, wait=0.5, min_bytes=1000)
        world.run(0.2)
        assert not waiting.done()
        world.appended(leader, b"second")
        world.run(0.01)
        assert values_of(waiting.result()) == [b"second"]
        world.run(1)
        assert values_of(short.result()) == [b"second"]
        assert not fetched_later.done()
        for _ in range(4):
            world.appended(leader, bytes(300))
        world.run(0.01)
        assert fetched_later.done()
        assert sum(map(len, fetched_later.result().batches)) >= 1000


def test_a_fetch_that_reaches_its_maximum_does_not_wait() -> None:
    with ReplicaWorld() as world:
        leader = world.lead()
        for _ in range(5):
            world.appended(leader, bytes(300))
        fetch = world.fetch(leader, 0, wait=100, min_bytes=700, max_bytes=700)
        world.run(0.01)
        assert fetch.done()


def test_uncommitted_records_are_not_served() -> None:
    with ReplicaWorld() as world:
        leader = world.lead()
        world.appended(leader, b"first")
        world.isolate(leader)
        world.append(leader, b"second")
        world.run(0.01)
        assert world.group(leader).log_end_offset == 2
        assert all_values(world, leader) == [b"first"]
        waiting = world.fetch(leader, 2, wait=0.1)
        world.run(1)
        assert isinstance(waiting.exception(), OffsetNotAvailable)


def test_a_waiting_fetch_ends_when_the_leadership_is_lost_or_the_replica_closes() -> None:
    with ReplicaWorld() as world:
        leader = world.lead()
        waiting = world.fetch(leader, 0, wait=100, min_bytes=1)
        world.isolate(leader)
        world.run_until(waiting.done)
        assert isinstance(waiting.exception(), NotLeader)
        assert world.group(leader).core.role is not Role.LEADER
        world.network.heal()
        leader = world.lead()
        waiting = world.fetch(leader, 0, wait=100, min_bytes=1)
        world.run_at(leader, world.replica(leader).close)
        world.run(0.001)
        assert isinstance(waiting.exception(), LogClosed)
        cancelled = world.fetch(leader, 0, wait=100, min_bytes=1)
        assert isinstance(cancelled.exception(), LogClosed)


def test_a_cancelled_fetch_removes_its_waiter() -> None:
    with ReplicaWorld() as world:
        leader = world.lead()
        waiting = world.fetch(leader, 0, wait=100, min_bytes=1)
        world.run(0.1)
        assert world.replica(leader).waits
        world.run_at(leader, waiting.cancel)
        world.run(0.1)
        assert not world.replica(leader).waits
        assert waiting.cancelled()


def test_a_deposed_leader_serves_only_committed_records() -> None:
    with ReplicaWorld() as world:
        old = world.lead()
        world.appended(old, b"before")
        world.isolate(old)
        world.append(old, b"lost")
        new = world.wait_for_new_leader(old)
        for number in range(5):
            world.appended(new, b"%d" % number)
        if world.group(old).core.role is Role.LEADER:
            assert all_values(world, old) == [b"before"]
        ahead = world.fetch(old, 4, wait=1)
        linear = world.call(old, lambda replica: replica.offsets(True, world.deadline(old, 1)))
        world.run(2)
        for task in (ahead, linear):
            assert isinstance(task.exception(), OffsetNotAvailable | NotLeader)


def test_without_a_leader_committed_records_are_served_but_not_the_high_watermark() -> None:
    with ReplicaWorld() as world:
        leader = world.lead()
        world.appended(leader, b"first")
        world.converge()
        left = other_numbers(leader)[0]
        for number in (1, 2, 3):
            if number != left:
                world.crash(number)
        world.run(5)
        assert world.group(left).core.leader is None
        assert values_of(world.fetch_and_wait(left, 0)) == [b"first"]
        assert isinstance(world.fetch(left, 1).exception(), NotLeader)


# what a new leader does not know yet


def test_an_offset_unknown_to_a_new_leader_is_not_out_of_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica, "_ANSWER_MS", 0)  # the leader would be deposed during the wait
    with ReplicaWorld() as world:
        old = world.lead()
        for number in range(4):
            world.appended(old, b"%d" % number)
        world.converge()
        acknowledged = world.append(old, b"4")
        last = world.group(old).core.last_id.index
        while any(world.group(number).core.durable_index < last for number in other_numbers(old)):
            world.run(0.00002)
        for number in other_numbers(old):
            world.cut(old, number)  # the others hold it, and do not hear that it is committed
        world.run_until(acknowledged.done)
        assert acknowledged.result().next_offset == 5
        world.isolate(old)
        while not (new := next((n for n in other_numbers(old) if world.group(n).core.role is Role.LEADER), 0)):
            world.run(0.00002)
        world.isolate(new)
        world.lead()
        assert (world.group(new).high_watermark, world.group(new).log_end_offset) == (4, 5)
        assert not world.group(new).core.has_own_term_commit
        for offset in (5, 7):
            fetch = world.fetch(new, offset, wait=0.1)
            world.run(0.2)
            assert isinstance(fetch.exception(), OffsetNotAvailable)
        offsets = world.call(new, lambda replica: replica.offsets(False, world.deadline(new, 0.1)))
        lookup = world.call(new, lambda replica: replica.offset_for_timestamp(0, world.deadline(new, 0.1)))
        world.run(0.2)
        assert isinstance(offsets.exception(), OffsetNotAvailable)
        assert isinstance(lookup.exception(), OffsetNotAvailable)
        assert values_of(world.fetch_and_wait(new, 3)) == [b"3"]
        waiting = world.fetch(new, 5, wait=20)
        world.network.heal()
        world.run_until(waiting.done)
        assert waiting.result().high_watermark == 5


def test_out_of_range_needs_a_confirmation_by_a_majority() -> None:
    with ReplicaWorld() as world:
        leader = world.lead()
        world.appended(leader, b"first")
        task = world.fetch(leader, 2, wait=10)
        world.run_until(task.done)
        error = task.exception()
        assert isinstance(error, OffsetOutOfRange)
        assert (error.first, error.end) == (0, 1)
        world.isolate(leader)
        task = world.fetch(leader, 2, wait=0.1)
        world.run(1)
        assert isinstance(task.exception(), OffsetNotAvailable)


def test_a_fetch_without_a_wait_reports_available_records() -> None:
    with ReplicaWorld() as world:
        leader = world.lead()
        world.appended(leader, b"first")
        world.isolate(leader)
        task = world.fetch(leader, 2)
        world.run(0.1)
        assert not task.done()
        world.network.heal()
        world.run(0.5)
        assert isinstance(task.exception(), OffsetOutOfRange)


@pytest.mark.parametrize("linearizable", [True, False])
def test_a_new_leader_has_the_log_start_before_its_disk_has_it(
    monkeypatch: pytest.MonkeyPatch, linearizable: bool
) -> None:
    with ReplicaWorld() as world:
        old = world.lead()
        for number in range(6):
            world.appended(old, b"%d" % number)
        world.converge()
        deleting = world.call(old, lambda replica: replica.delete_before(4, world.deadline(old, 5)))
        last = world.group(old).core.last_id.index
        while any(world.group(number).core.durable_index < last for number in other_numbers(old)):
            world.run(0.00002)
        for number in other_numbers(old):
            world.cut(old, number)  # the others hold the trim, and do not hear that it is committed
        world.run_until(deleting.done)
        assert deleting.result() == 4
        world.isolate(old)
        while not (new := next((n for n in other_numbers(old) if world.group(n).core.role is Role.LEADER), 0)):
            world.run(0.00002)
        world.lead()
        monkeypatch.setattr(drivers, "SYNC_NS", 5_000_000)
        telling = world.call(new, lambda replica: replica.offsets(linearizable, world.deadline(new, 5)))
        while not telling.done():
            world.run(0.00002)
        assert world.group(new).log_start_offset == 0
        assert telling.result() == (4, 6)
        finding = world.call(new, lambda replica: replica.offset_for_timestamp(0, world.deadline(new, 5)))
        while not finding.done():
            world.run(0.00002)
        assert world.group(new).log_start_offset == 0
        assert finding.result()[0] == 4
        error = world.fetch(new, 3).exception()
        assert isinstance(error, OffsetOutOfRange)
        assert (error.first, error.end) == (4, 6)
        world.run(1)
        assert world.group(new).log_start_offset == 4


def test_an_offset_below_the_log_start_is_out_of_range() -> None:
    with ReplicaWorld() as world:
        leader = world.lead()
        for number in range(5):
            world.appended(leader, b"%d" % number)
        wait_for_result(world, leader, lambda group: group.propose_trim(3))
        world.run(1)
        error = world.fetch(leader, 2).exception()
        assert isinstance(error, OffsetOutOfRange)
        assert (error.first, error.end) == (3, 5)
        assert world.fetch_and_wait(leader, 3).log_start_offset == 3
        assert world.get(leader, lambda replica: replica.offsets(False, NEVER)) == (3, 5)


# offsets


def test_offsets_are_reported_with_and_without_confirmation() -> None:
    with ReplicaWorld() as world:
        leader = world.lead()
        world.appended(leader, b"first", b"second")
        assert world.get(leader, lambda replica: replica.offsets(False, NEVER)) == (0, 2)
        assert world.get(leader, lambda replica: replica.offsets(True, NEVER)) == (0, 2)
        follower = world.call(other_numbers(leader)[0], lambda replica: replica.offsets(False, NEVER))
        assert isinstance(follower.exception(), NotLeader)


def test_the_high_watermark_never_falls_over_changes_of_leader() -> None:
    with ReplicaWorld() as world:
        world.lead()
        seen = 0
        for number in range(6):
            leader = world.lead()
            world.appended(leader, b"%d" % number)
            seen = max(seen, world.get(leader, lambda replica: replica.offsets(True, NEVER)).end)
            world.crash(leader)
            new = world.wait_for_new_leader(leader)
            task = world.call(new, lambda replica: replica.offsets(False, NEVER))
            world.run_until(task.done)
            assert task.result().end >= seen
            world.start(leader)
            world.converge()


def test_offsets_by_time_are_those_of_committed_records() -> None:
    with ReplicaWorld() as world:
        leader = world.lead()
        for number in range(5):
            world.appended(leader, b"%d" % number)
        assert world.get(leader, lambda replica: replica.offset_for_timestamp(1000, NEVER)) == (0, 1000)
        assert world.get(leader, lambda replica: replica.offset_for_timestamp(1001, NEVER)) is None
        world.isolate(leader)
        world.run(0.001)
        world.run_at(
            leader, lambda: world.replica(leader).append([make_late_batch()], -1).add_done_callback(lambda done: None)
        )
        world.run(0.01)
        assert world.get(leader, lambda replica: replica.group.offset_for_timestamp(1001)) == (5, 2000)
        assert world.get(leader, lambda replica: replica.offset_for_timestamp(1001, NEVER)) is None


def make_late_batch() -> bytearray:
    return build_batch([NewRecord(b"late", None, 2000)])


def test_a_step_without_waiters_reads_no_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    with ReplicaWorld() as world:
        leader = world.lead()
        monkeypatch.setattr(
            world.group(leader).log, "size_of", lambda first, last: pytest.fail("nobody waits for these bytes")
        )
        world.appended(leader, b"x")
