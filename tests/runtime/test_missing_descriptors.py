"""A process without free file descriptors refuses what needs a new file, loses nothing, and is no full disk."""

import errno

import pytest

from raftlog.errors import DescriptorsExhausted, StorageFull
from tests.runtime.drivers import World


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_missing_descriptors_refuse_and_lose_nothing(number: int) -> None:
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


def test_a_journal_without_descriptors_says_so() -> None:
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
