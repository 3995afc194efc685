"""Checkpoints of only the changed Raft groups are equal to checkpoints of all."""

import uuid
from collections.abc import Callable

import pytest

from raftlog.raft import ConfigurationChange
from raftlog.runtime.journal.operations import encode
from raftlog.runtime.process import checkpoints as module
from raftlog.runtime.process.checkpoints import Checkpoints
from raftlog.runtime.process.driver import Driver
from raftlog.storage.roll import Roll, RollMember
from tests.runtime.drivers import SMALL, World, is_of_segments


@pytest.fixture
def checkpoint_sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Compare every checkpoint with the Raft groups; return the number of groups in each."""
    drivers: dict[Checkpoints, Driver] = {}
    looks: list[int] = []
    begin, adopt, look = Checkpoints._begin, Driver.start, Checkpoints._prepare_groups

    def start(driver: Driver) -> None:
        drivers[driver.persister.checkpoints] = driver
        adopt(driver)

    def look_at(checkpoints: Checkpoints, count: int) -> bool:
        before = len(checkpoints._changed)
        is_sound = look(checkpoints, count)
        looks[-1] += before - len(checkpoints._changed)
        return is_sound

    def compared(checkpoints: Checkpoints, now: float) -> None:
        """Compare all state that was kept for checkpoints with newly encoded state, then begin one."""
        groups = drivers[checkpoints].groups
        assert set(checkpoints._states) == set(groups)
        for key, group in groups.items():
            assert checkpoints._states[key] == encode(module._state_of(group)), group.path
            changed = group.log.segments.list_changes_since_checkpoint()
            assert key in checkpoints._to_sync or not changed.seen, group.path
        begin(checkpoints, now)
        looks.append(0)

    monkeypatch.setattr(Driver, "start", start)
    monkeypatch.setattr(Checkpoints, "_prepare_groups", look_at)
    monkeypatch.setattr(Checkpoints, "_begin", compared)
    looks.append(0)
    return looks


def create_groups(world: World, count: int) -> None:
    """Create Raft groups of one replica each on node 1."""
    mine = (RollMember(*world.ids[0]),)
    for number in range(count):
        roll = Roll(uuid.UUID(int=1000 + number), 1, 0, 0, -1, 1000, 1, mine)
        world.run_at(1, lambda roll=roll: world.drivers[1].create_group(roll))


def run_checkpoint(world: World, number: int = 1) -> None:
    """Begin a checkpoint now, and wait until it is complete."""
    driver = world.drivers[number]
    checkpoints = driver.persister.checkpoints
    world.run_until(lambda: not checkpoints.is_under_way)
    checkpoints.has_new_operations, checkpoints._last_at = True, 0.0
    start = driver.journal._start
    world.run_at(number, lambda: checkpoints.maybe_begin(1e9))
    checkpoints._last_at = driver.loop.time()
    world.run_until(lambda: driver.journal._start > start)


def test_checkpoints_are_correct_during_appends_rolls_trims_and_cuts(checkpoint_sizes: list[int]) -> None:
    with World() as world:
        for turn in range(6):
            leader = world.leader()
            world.fill(leader, 15)
            group = world.group(leader)
            world.run_at(leader, lambda group=group: group.trim(group.high_watermark))
            if turn % 3 == 1:
                world.crash(leader, power=True)
                world.fill(world.leader(), 5)
                world.start(leader)
            if turn == 5:
                target = next(number for number in (1, 2, 3) if number != leader)
                voters = tuple(sorted((world.ids[leader - 1], world.ids[target - 1])))
                change = ConfigurationChange(voters, (), group.core.configuration.index)
                world.run_at(leader, lambda group=group, change=change: group.change_members(change))
            world.run(2.5)
            run_checkpoint(world, world.leader())
        world.commit(world.leader(), b"the end")
    assert len(checkpoint_sizes) > 10


def test_unchanged_groups_are_not_checked(checkpoint_sizes: list[int]) -> None:
    with World() as world:
        create_groups(world, 100)
        world.run(8)  # elections and the first checkpoints
        checkpoint_sizes[:] = [0]
        run_checkpoint(world)
        assert checkpoint_sizes[0] <= 10
        assert len(world.drivers[1].groups) == 101


def test_many_groups_are_checked_in_slices_and_their_files_synced_in_batches(
    checkpoint_sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with World() as world:
        create_groups(world, 100)
        world.run(8)
        driver, disk = world.drivers[1], world.disks[0]
        for group in driver.groups.values():
            driver.persister.checkpoints.note_changed(group)
        slices: list[Callable[[], None]] = []
        soon = driver.persister.checkpoints._soon

        def counted(work: Callable[[], None]) -> None:
            slices.append(work)
            soon(work)

        monkeypatch.setattr(driver.persister.checkpoints, "_soon", counted)
        syncs = disk.sync_count
        checkpoint_sizes[:] = [0]
        run_checkpoint(world)
        assert checkpoint_sizes[0] >= 101
        assert len(slices) >= 101 // module._SLICE
        assert disk.sync_count - syncs < 20
        world.crash(1, power=True)
        world.start(1)
        assert len(world.drivers[1].groups) == 101


def test_a_removed_group_leaves_the_checkpoints(checkpoint_sizes: list[int]) -> None:
    with World() as world:
        create_groups(world, 5)
        world.run(1)
        driver = world.drivers[1]
        world.run_at(1, lambda: driver.remove_group(uuid.UUID(int=1002).bytes))
        run_checkpoint(world)
        world.run(1)
        world.crash(1, power=True)
        world.start(1)
        assert uuid.UUID(int=1002).bytes not in world.drivers[1].groups
        assert len(world.drivers[1].groups) == 5


def test_a_checkpoint_is_complete_only_after_the_files_are_synced() -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 20)
        driver, disk = world.drivers[leader], world.disks[leader - 1]
        checkpoints, journal = driver.persister.checkpoints, driver.journal
        world.run_until(lambda: not checkpoints.is_under_way)
        completed, start = checkpoints.completed, journal._start
        disk.hold(is_of_segments)
        begun = checkpoints.begun
        world.commit(leader, b"something to sync")
        world.run_until(lambda: checkpoints.begun > begun)
        for _ in range(3):  # others go on, and the journal's own syncs return
            world.fill(leader, 10)
            world.run(SMALL.checkpoint_interval_ms / 1000)
        assert checkpoints.is_under_way
        assert (checkpoints.completed, journal._start) == (completed, start)
        values = world.values(leader)
        disk.release()
        world.run_until(lambda: journal._start > start)
        assert checkpoints.completed > completed
        world.crash(leader, power=True)
        world.start(leader)
        world.converge()
        assert world.values(leader)[: len(values)] == values
        assert not world.failures
