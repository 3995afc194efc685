"""Many Raft groups created together: state after a crash, a full disk or a failed sync at each step."""

import asyncio
import uuid

import pytest

from raftlog.errors import InvalidArgument, RaftlogError, StorageFull, SyncFailed
from raftlog.runtime.process.driver import Driver
from raftlog.storage.roll import Roll, RollMember
from tests.runtime.drivers import GROUP, SMALL, World, is_of_journal

COUNT = 20


def make_rolls(world: World, first: int = 1000, count: int = COUNT) -> list[Roll]:
    """Return first rolls of groups of all nodes."""
    voters = tuple(RollMember(*replica) for replica in world.ids)
    return [Roll(uuid.UUID(int=first + number), 1, 0, 0, -1, 1000, 1, voters) for number in range(count)]


class CreationCall:
    """Creation call on a node, and its result."""

    def __init__(self, world: World, number: int, wanted: list[Roll]) -> None:
        self.error: RaftlogError | None = None
        self.is_done = False
        driver = world.drivers[number]
        world.run_at(number, lambda: driver.loop.create_task(self._run(driver, wanted)))

    async def _run(self, driver: Driver, wanted: list[Roll]) -> None:
        try:
            await driver.create_groups([(roll, f"topic/{roll.group_id.int}") for roll in wanted])
        except RaftlogError as error:
            self.error = error
        self.is_done = True


def count_created(world: World, number: int, wanted: list[Roll]) -> int:
    return sum(roll.group_id.bytes in world.drivers[number].groups for roll in wanted)


def test_created_groups_accept_writes_and_survive_restarts() -> None:
    with World() as world:
        wanted = make_rolls(world)
        calls = [CreationCall(world, number, wanted) for number in (1, 2, 3)]
        world.run_until(lambda: all(call.is_done for call in calls))
        assert [call.error for call in calls] == [None] * 3
        assert [count_created(world, number, wanted) for number in (1, 2, 3)] == [COUNT] * 3
        for number in (1, 2, 3):
            world.crash(number, power=True)
            world.start(number)
        for roll in wanted:
            groups = [world.drivers[number].groups[roll.group_id.bytes] for number in (1, 2, 3)]
            world.run_until(lambda groups=groups: any(group.core.has_own_term_commit for group in groups))
        assert not world.failures


def test_a_creation_can_be_retried_after_a_power_loss_at_any_time() -> None:
    for step in range(14):
        with World() as world:
            wanted = make_rolls(world)
            CreationCall(world, 1, wanted)
            world.run(step * 0.0001)
            world.crash(1, power=True)
            world.start(1)
            again = [roll for roll in wanted if roll.group_id.bytes not in world.drivers[1].groups]
            call = CreationCall(world, 1, again)
            world.run_until(lambda call=call: call.is_done)
            assert call.error is None, step
            assert count_created(world, 1, wanted) == COUNT
            world.commit(world.leader(), b"%d" % step)


@pytest.mark.parametrize("step", range(14))
def test_the_next_process_syncs_directories_of_a_killed_one(step: int) -> None:
    """First the process is killed, so the next one finds the names; then the power fails."""
    with World() as world:
        wanted = make_rolls(world, count=3)
        CreationCall(world, 1, wanted)
        world.run(step * 0.0001)
        world.crash(1)
        world.start(1)
        again = [roll for roll in wanted if roll.group_id.bytes not in world.drivers[1].groups]
        call = CreationCall(world, 1, again)
        world.run_until(lambda: call.is_done)
        assert call.error is None
        names = {roll.group_id.bytes: world.drivers[1].groups[roll.group_id.bytes].path for roll in wanted}
        assert set(names.values()) <= set(world.disks[0].durable_paths())
        world.crash(1, power=True)
        world.start(1)
        assert count_created(world, 1, wanted) == len(wanted)
        assert {key: world.drivers[1].groups[key].path for key in names} == names


def test_a_group_waits_until_the_name_of_its_topic_is_durable() -> None:
    """Another partition created the topic's directory, and its sync is slow."""
    with World() as world:
        first, second = make_rolls(world, count=2)
        disk = world.disks[0]
        world.converge()
        disk.hold(lambda path: path == "/data")
        CreationCall(world, 1, [first])
        world.run(0.01)
        late = CreationCall(world, 1, [second])
        world.run(0.05)
        if second.group_id.bytes in world.drivers[1].groups:
            assert "/data/topic" in disk.durable_paths()
        disk.release()
        world.run_until(lambda: late.is_done)
        assert late.error is None
        assert "/data/topic" in disk.durable_paths()


def test_messages_before_a_durable_mark_do_not_prevent_a_retry() -> None:
    """The journal is busy, so the mark waits in memory; then the process is killed."""
    with World() as world:
        world.converge()
        (roll,) = wanted = make_rolls(world, count=1)
        world.disks[0].hold(is_of_journal)
        world.propose(world.leader(), b"keeps the journal busy")
        world.run(0.1)
        calls = [CreationCall(world, number, wanted) for number in (1, 2, 3)]
        world.run_until(lambda: all(call.is_done for call in calls))
        mine, other = (world.drivers[number].groups[roll.group_id.bytes] for number in (1, 2))
        world.run_until(lambda: other.log.last_index == mine.log.last_index == 2)
        world.run(2 * SMALL.tick_ms / 1000)  # what waited for a tick would be in the files
        world.crash(1)
        world.disks[0].release()
        world.start(1)
        assert not count_created(world, 1, wanted), "its mark had not reached the journal"
        call = CreationCall(world, 1, wanted)
        world.run_until(lambda: call.is_done)
        assert call.error is None
        again = world.drivers[1].groups[roll.group_id.bytes]
        world.run_until(lambda: again.log.written_index == other.log.last_index)
        assert not world.failures


def test_a_failed_sync_stops_the_process_and_creates_no_group() -> None:
    for failing in (0, 1):
        with World() as world:
            world.converge()
            wanted = make_rolls(world)
            world.run(0.3)
            call = CreationCall(world, 1, wanted)
            if failing:
                world.run(0.0003)
            world.disks[0].fail_sync(2)
            world.run_until(lambda call=call: call.is_done)
            assert isinstance(call.error, SyncFailed)
            assert [number for number, _ in world.failures] == [1]


def test_a_full_disk_refuses_and_the_next_attempt_succeeds() -> None:
    with World() as world:
        world.converge()
        wanted = make_rolls(world)
        disk = world.disks[0]
        disk.capacity_bytes = sum(map(len, disk.snapshot().values())) + 900
        call = CreationCall(world, 1, wanted)
        world.run_until(lambda: call.is_done)
        assert isinstance(call.error, StorageFull)
        assert count_created(world, 1, wanted) == 0
        disk.capacity_bytes = None
        call = CreationCall(world, 1, wanted)
        world.run_until(lambda: call.is_done)
        assert call.error is None
        assert count_created(world, 1, wanted) == COUNT
        assert not world.failures


def test_a_group_is_created_once() -> None:
    with World() as world:
        wanted = make_rolls(world)
        first = CreationCall(world, 1, wanted)
        second = CreationCall(world, 1, wanted)
        world.run_until(lambda: first.is_done and second.is_done)
        assert first.error is None
        assert isinstance(second.error, InvalidArgument)
        twice = CreationCall(world, 1, make_rolls(world, 5000, 2) * 2)
        there = CreationCall(world, 1, [wanted[0]._replace(group_id=GROUP)])
        world.run_until(lambda: twice.is_done and there.is_done)
        assert isinstance(twice.error, InvalidArgument)
        assert isinstance(there.error, InvalidArgument)
        again = CreationCall(world, 1, make_rolls(world, 5000, 2))
        world.run_until(lambda: again.is_done)
        assert again.error is None


def test_a_wait_for_a_creation_fails_when_the_process_stops() -> None:
    with World() as world:
        call = CreationCall(world, 1, make_rolls(world))
        driver = world.drivers[1]
        world.run_at(1, lambda: driver.persister.stop_with(OSError("something else")))
        world.run_until(lambda: call.is_done)
        assert isinstance(call.error, SyncFailed)


def test_a_refused_creation_creates_no_files() -> None:
    with World() as world:
        driver = world.drivers[1]

        async def create() -> None:
            await driver.create_groups([(roll, None) for roll in make_rolls(world, 9000, 3)] + [(world.roll, None)])

        done = world.run_at(1, lambda: asyncio.ensure_future(create()))
        (task,) = done
        assert isinstance(task, asyncio.Task)
        world.run_until(task.done)
        with pytest.raises(InvalidArgument, match="already"):
            task.result()
        assert not [path for path in world.disks[0].durable_paths() if str(uuid.UUID(int=9000)) in path]
