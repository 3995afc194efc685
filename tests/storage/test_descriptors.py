"""Few descriptors for many files: their release, and the report of a failed write-back afterwards."""

import errno
import os
from collections.abc import Iterator
from ctypes import set_errno
from pathlib import Path

import pytest

from raftlog.storage import real_disk
from raftlog.storage.disk import DirectoryLock
from raftlog.storage.filesystem_sync import FilesystemSync
from raftlog.storage.real_disk import RealDisk, RealFile

LIMIT = 8
FILES = 40


class World:
    """Disk with a locked directory; `syncfs` is counted, and fails on request."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        self.whole_syncs = 0
        self.error = 0
        self.file_syncs: list[int] = []
        monkeypatch.setattr(
            FilesystemSync, "open", lambda path: FilesystemSync(os.open(path, os.O_RDONLY), self._syncfs)
        )
        monkeypatch.setattr(os, "fdatasync", self.file_syncs.append)
        self.disk = RealDisk(lambda job: job(), lambda job: job(), LIMIT)

    def _syncfs(self, _: int) -> int:
        self.whole_syncs += 1
        set_errno(self.error)
        return -1 if self.error else 0

    def lock(self) -> DirectoryLock:
        (self.path / ".raftlog").mkdir(exist_ok=True)
        return self.disk.lock(str(self.path / ".raftlog/lock"))

    def files(self, count: int = FILES, prefix: str = "f") -> list[RealFile]:
        files = [self.disk.open(str(self.path / f"{prefix}{number}"), create=True) for number in range(count)]
        for number, file in enumerate(files):
            file.write(0, [b"%d" % number])
        return files

    def open_count(self) -> int:
        names = [os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
        return sum(os.path.realpath(name).startswith(f"{self.path}/f") for name in names)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    world = World(tmp_path, monkeypatch)
    lock = world.lock()
    yield world
    lock.release()


def test_written_files_release_their_descriptors_and_can_be_reopened(world: World) -> None:
    files = world.files()
    assert world.open_count() <= LIMIT
    for number, file in enumerate(files):
        file.write(2, [b"!"])
        assert file.read(0, 10) == b"%d" % number + b"\0" * (2 - len(str(number))) + b"!"
    assert world.open_count() <= LIMIT


def test_a_file_closed_unsynced_is_synced_through_the_file_system(world: World) -> None:
    files = world.files(LIMIT + 1)
    world.disk.sync([files[0]])
    assert (world.whole_syncs, world.file_syncs) == (1, [])
    assert not files[0].is_dirty
    files[0].write(0, [b"again"])
    world.disk.sync([files[0], files[-1]])
    assert world.whole_syncs == 1, "since the last sync its descriptor was there all the time"
    assert len(world.file_syncs) == 2


def test_a_file_system_with_a_failure_fails_all_later_syncs(world: World) -> None:
    files = world.files(LIMIT + 1)
    world.error = errno.EIO
    for _ in range(2):
        with pytest.raises(OSError, match="syncfs") as failed:
            world.disk.sync([files[0]])
        assert failed.value.errno == errno.EIO
        world.error = 0
    with pytest.raises(OSError, match="syncfs"):
        world.disk.sync([], [str(world.path)] * real_disk._MANY)
    assert files[0].is_dirty


def test_many_files_are_synced_by_one_call(world: World) -> None:
    files = world.files()
    done: list[OSError | None] = []
    world.disk.submit_sync(files, [str(world.path)], done.append)
    assert (world.whole_syncs, world.file_syncs, done) == (1, [], [None])
    assert not any(file.is_dirty for file in files)


def test_writes_during_a_sync_are_not_covered(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    files = world.files()
    sync = FilesystemSync.sync

    def write_meanwhile(filesystem: FilesystemSync) -> None:
        files[3].write(0, [b"late"])
        sync(filesystem)

    monkeypatch.setattr(FilesystemSync, "sync", write_meanwhile)
    world.disk.sync(files)
    assert [file for file in files if file.is_dirty] == [files[3]]


def test_without_syncfs_unsynced_files_keep_their_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, monkeypatch)
    files = world.files()
    assert world.open_count() == FILES
    world.disk.sync(files)
    assert (world.whole_syncs, len(world.file_syncs)) == (0, FILES)
    assert world.open_count() <= LIMIT, "synced, they give them back"


def test_files_opened_before_or_after_the_lock_are_synced_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, monkeypatch)
    before = world.files()
    lock = world.lock()
    world.disk.sync([*before, *world.files(1, "fx")])
    assert (world.whole_syncs, len(world.file_syncs)) == (1, FILES), "only the last one could be closed"
    lock.release()
    lock.release()
    after = world.files(FILES, "fy")
    world.disk.sync(after)
    assert (world.whole_syncs, len(world.file_syncs)) == (1, 2 * FILES)


def test_a_closed_file_has_no_owner(world: World) -> None:
    files = world.files()
    files[0].close()
    with pytest.raises(OSError, match="closed"):
        files[0].read(0, 1)
    world.disk.sync(files)
    assert world.whole_syncs == 1


def test_the_real_file_system_can_be_synced(tmp_path: Path) -> None:
    filesystem = FilesystemSync.open(str(tmp_path))
    if filesystem is None:
        pytest.skip("the file system of the temporary directory has no syncfs that could be relied upon")
    filesystem.sync()
    assert filesystem.device == os.stat(tmp_path).st_dev
    filesystem.close()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_cached_descriptor_is_closed_when_none_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    world = World(tmp_path, monkeypatch)
    with_lock = world.lock()
    world.files(4)
    really_open, before = os.open, world.open_count()

    def short(*arguments: object, **more: object) -> int:
        if world.open_count() >= before:
            raise OSError(number, os.strerror(number))
        return really_open(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", short)
    file = world.disk.open(str(tmp_path / "f9"), create=True)
    assert world.disk.descriptor_shortage(str(tmp_path)) is None
    assert world.open_count() == before
    file.close()
    with_lock.release()


def test_a_shortage_lasts_until_a_file_can_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = RealDisk(lambda job: job(), lambda job: job(), LIMIT)
    assert disk.descriptor_shortage(str(tmp_path)) is None

    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        with pytest.raises(OSError, match="Too many open files"):
            disk.open(str(tmp_path / "new"), create=True)
        shortage = disk.descriptor_shortage(str(tmp_path))
        assert shortage is not None
        assert shortage.errno == errno.EMFILE
    with pytest.raises(FileNotFoundError):
        disk.open(str(tmp_path / "none"))
    assert disk.descriptor_shortage(str(tmp_path)) is None


@pytest.mark.parametrize("waits", [True, False])
def test_a_submitted_sync_without_a_descriptor_is_no_failed_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    disk = RealDisk(lambda job: job(), lambda job: job(), LIMIT, waits_for_descriptors=waits)
    answers: list[OSError | None] = []

    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        disk.submit_sync([], [str(tmp_path)], answers.append)
        assert disk.descriptor_shortage(str(tmp_path)) is not None
        assert [answer and answer.errno for answer in answers] == ([] if waits else [errno.EMFILE])
    assert disk.descriptor_shortage(str(tmp_path)) is None
    assert answers[-1:] == ([None] if waits else answers[-1:])
    assert len(answers) == 1
