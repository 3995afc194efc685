"""A process without free file descriptors refuses operations that need a new file, and loses nothing."""

import errno

import pytest

from raftlog.errors import DescriptorsExhausted, StorageFull
from raftlog.raft import Role
from raftlog.types import Index
from tests.runtime.drivers import GROUP, World


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_without_descriptors_appends_are_refused_and_nothing_is_lost(number: int) -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 5)
        for disk in world.disks:
            disk.open_error = number
        futures = []
        while not (futures and futures[-1].done() and futures[-1].exception()):
            assert len(futures) < 200, "no segment was rolled"
            futures.append(world.propose(leader, b"%d" % len(futures) + bytes(100)))
            world.run(0.2)
        refusal = futures[-1].exception()
        assert isinstance(refusal, DescriptorsExhausted)
        assert not isinstance(refusal, StorageFull)
        assert refusal.outcome == "failed"
        assert "descriptors" in str(refusal)
        driver = world.drivers[leader]
        assert not world.group(leader).is_disk_full
        assert not driver.room.is_full
        assert driver.descriptors.shortage is not None
        assert "descriptors" in driver.descriptors.shortage
        for disk in world.disks:
            disk.open_error = None
        world.run_until(lambda: all(each.descriptors.shortage is None for each in world.drivers.values()))
        world.run_until(lambda: all(future.done() for future in futures))
        world.commit(world.leader(), b"afterwards")
        world.converge()
        taken = sum(future.exception() is None for future in futures)
        assert len(world.values(1)) == 5 + taken + 1
        assert world.files(1) == world.files(2) == world.files(3)
        assert not world.failures


def test_a_read_without_descriptors_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 40)
        world.converge()
        log = world.group(leader).log

        def refuse(*_: object) -> None:
            raise OSError(errno.EMFILE, "Too many open files")

        monkeypatch.setattr(log.segments, "read", refuse)
        with pytest.raises(DescriptorsExhausted, match=r"raise `ulimit -n` or lower `--http-connections-max`"):
            log.read(0, 1000, log.next_offset)


def test_a_journal_without_descriptors_raises() -> None:
    with World() as world:
        leader = world.leader()
        world.fill(leader, 5)
        driver = world.drivers[leader]
        world.disks[leader - 1].open_error = errno.EMFILE
        files = driver.journal._files
        with pytest.raises(DescriptorsExhausted):
            files.make_room(0, files.room_end + 1)
        assert driver.journal.lacks_descriptors
        world.disks[leader - 1].open_error = None
        files.make_room(0, files.room_end + 1)
        assert not driver.journal.lacks_descriptors


def test_entries_unreadable_for_lack_of_descriptors_are_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that cannot read the missing entries of a follower steps down; another one sends them."""
    with World() as world:
        leader = world.leader()
        behind = next(number for number in world.drivers if number != leader)
        world.crash(behind)
        world.fill(leader, 40)
        log = world.group(leader).log

        def refuse(*_: object) -> None:
            raise OSError(errno.EMFILE, "Too many open files")

        for name in ("read_entries", "check_row_at"):
            monkeypatch.setattr(log.segments, name, refuse)
        with pytest.raises(DescriptorsExhausted):
            log.entries(Index(2), 1, 1000)
        with pytest.raises(DescriptorsExhausted):
            log._read_term(Index(2))
        assert log.boundary.index < 2, "it stands in the files"
        world.start(behind)
        world.run_until(lambda: world.group(behind).log.last_index > 30)
        assert world.group(leader).core.role is not Role.LEADER
        assert world.group(leader).damage is None
        assert not world.failures
        monkeypatch.undo()
        world.commit(world.leader(), b"afterwards")
        world.converge()


@pytest.mark.parametrize("failing", ["list_directory", "sync", "rename"])
def test_removing_a_replica_waits_for_descriptors(monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    with World(1) as world:
        world.fill(world.leader(), 5)
        driver, disk, path = world.drivers[1], world.disks[0], world.group(1).path
        before = getattr(disk, failing)
        refused = []

        def refuse(*arguments: object) -> object:
            if any("trash" in str(argument) for argument in arguments):
                refused.append(arguments)
                raise OSError(errno.EMFILE, "Too many open files")
            return before(*arguments)

        monkeypatch.setattr(disk, failing, refuse)
        world.run_at(1, lambda: driver.remove_group(GROUP.bytes))
        world.run(1.0)
        assert len(refused) > 1, "it is tried again"
        assert not world.failures
        assert driver.persister.is_leaving(GROUP.bytes)
        monkeypatch.undo()
        world.run_until(lambda: not driver.persister.is_leaving(GROUP.bytes))
        world.run(0.2)
        assert not disk.exists(path)
        assert disk.list_directory("/data/.raftlog/trash") == []
        assert not world.failures
