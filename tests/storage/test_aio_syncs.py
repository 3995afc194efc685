"""Syncs by Linux AIO on a real kernel and disk: coverage, order, errors, and fallback to threads."""

import asyncio
import ctypes
import errno
import os
import platform
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from raftlog.storage.real_disk import RealDisk, RealFile
from raftlog.storage.syncs import aio_syncs
from raftlog.storage.syncs.aio_syncs import AioRefused, AioSyncs
from raftlog.storage.syncs.sync_choice import SyncChoice
from tests.storage.kernel_events import fail_syncs, hold_events
from tests.waiting import until

Job = Callable[[], None]
WITHIN_S = 20


class AioWorld:
    """Disk whose syncs use AIO; jobs for threads are collected."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.loop = asyncio.get_running_loop()
        self.aio = AioSyncs(self.loop)
        self.jobs: list[Job] = []
        self.disk = RealDisk(self.jobs.append, self.loop.call_soon, aio=self.aio)

    def file(self, name: str = "f") -> RealFile:
        file = self.disk.open(str(self.path / name), create=True)
        file.write(0, [b"content"])
        return file

    def submit(self, file: RealFile) -> "asyncio.Future[OSError | None]":
        result: asyncio.Future[OSError | None] = self.loop.create_future()
        self.disk.submit_sync([file], [], result.set_result)
        assert not result.done(), "a completion is never called inside of the submission"
        return result


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[AioWorld]:
    world = AioWorld(tmp_path)
    yield world
    await world.aio.close(waits=True)


async def test_a_sync_covers_the_writes_before_it(world: AioWorld) -> None:
    file = world.file()
    result = world.submit(file)
    file.write(0, [b"late"])
    assert await asyncio.wait_for(result, WITHIN_S) is None
    assert (file.writes, file.writes_synced, world.jobs) == (2, 1, [])
    assert await asyncio.wait_for(world.submit(file), WITHIN_S) is None
    assert not file.is_dirty


async def test_a_second_sync_of_a_file_in_flight_runs_in_a_thread(world: AioWorld) -> None:
    file, other = world.file(), world.file("other")
    first = world.submit(file)
    second = world.submit(file)
    third = world.submit(other)
    assert len(world.jobs) == 1
    assert await asyncio.wait_for(asyncio.gather(first, third), WITHIN_S) == [None, None]
    world.jobs[0]()
    assert await asyncio.wait_for(second, WITHIN_S) is None


async def test_syncs_of_directories_and_several_files_run_in_a_thread(world: AioWorld) -> None:
    files = [world.file("a"), world.file("b")]
    world.disk.submit_sync(files, [], lambda _: None)
    world.disk.submit_sync(files[:1], [str(world.path)], lambda _: None)
    assert (len(world.jobs), world.aio.in_flight) == (2, 0)


async def test_a_blocking_sync_waits_for_the_one_in_flight(world: AioWorld) -> None:
    """The loop cannot complete the sync during the blocking call, which reads the events itself."""
    file = world.file()
    result = world.submit(file)
    world.disk.sync([file])
    assert (world.aio.in_flight, result.done()) == (0, False)
    assert await asyncio.wait_for(result, WITHIN_S) is None


async def test_a_failed_sync_fails_all_later_ones(world: AioWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    file = world.file()
    result = world.submit(file)
    fail_syncs(monkeypatch, world.aio)
    failure = await asyncio.wait_for(result, WITHIN_S)
    assert failure is not None
    assert failure.errno == errno.EIO
    monkeypatch.undo()
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        world.disk.sync([file])
    again = world.submit(file)
    world.jobs[0]()
    assert await asyncio.wait_for(again, WITHIN_S) is failure
    assert file.is_dirty


async def test_syncs_complete_in_any_order(world: AioWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [world.file(name) for name in "abc"]
    for file, writes in zip(files, (1, 2, 3), strict=True):
        for _ in range(writes - 1):
            file.write(0, [b"more"])
    ended: list[int] = []
    complete, held = world.aio._complete, []
    monkeypatch.setattr(world.aio, "_complete", lambda *end: held.append(end))
    for number, file in enumerate(files):
        world.disk.submit_sync([file], [], lambda _, number=number: ended.append(number))  # type: ignore[misc]
        file.write(0, [b"late"])
    await until(lambda: len(held) >= len(files))
    monkeypatch.undo()
    for end in sorted(held, reverse=True):
        complete(*end)
    world.aio._run_jobs()
    assert sorted(ended) == [0, 1, 2]
    assert [file.writes_synced for file in files] == [1, 2, 3]
    assert all(file.is_dirty for file in files)


async def test_a_thread_waits_for_the_sync_in_flight(world: AioWorld) -> None:
    """A file has at most one sync in flight: the thread's sync begins after the end of the other."""
    file, begun = world.file(), threading.Event()
    result = world.submit(file)

    def sync() -> bool:
        begun.set()
        world.disk.sync([file])
        return world.aio.in_flight == 0

    thread = asyncio.get_running_loop().run_in_executor(None, sync)
    assert begun.wait(WITHIN_S)
    assert file._sync_lock.locked()
    assert await asyncio.wait_for(thread, WITHIN_S), "the thread's sync overtook the one in flight"
    assert result.done()


async def test_no_aio_sync_is_submitted_while_a_thread_syncs(world: AioWorld) -> None:
    file = world.file()
    with file._sync_lock:  # as a thread holds it during its sync
        world.submit(file)
    assert (world.aio.in_flight, len(world.jobs)) == (0, 1)


@pytest.mark.parametrize("accepted", [0, errno.EAGAIN], ids=["short", "EAGAIN"])
async def test_a_sync_refused_by_the_kernel_runs_in_a_thread(
    world: AioWorld, monkeypatch: pytest.MonkeyPatch, accepted: int
) -> None:
    def refuse(number: ctypes.c_long, *arguments: object) -> int:
        if number is not world.aio._calls.submit:
            return syscall(number, *arguments)
        ctypes.set_errno(accepted)
        return -1 if accepted else 0

    syscall: Callable[..., int] = world.aio._syscall
    file = world.file()
    monkeypatch.setattr(world.aio, "_syscall", refuse)
    result = world.submit(file)
    assert (len(world.jobs), world.aio.in_flight, world.disk.sync_method) == (1, 0, "aio")
    world.jobs[0]()
    assert await asyncio.wait_for(result, WITHIN_S) is None
    monkeypatch.undo()
    file.write(0, [b"again"])
    assert await asyncio.wait_for(world.submit(file), WITHIN_S) is None
    assert len(world.jobs) == 1, "the next one is submitted again"


async def test_syncs_whose_events_are_lost_fail(world: AioWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        ctypes.set_errno(errno.EPERM)
        return -1

    file = world.file()
    result = world.submit(file)
    monkeypatch.setattr(world.aio, "_syscall", refuse)
    failure = await asyncio.wait_for(result, WITHIN_S)
    assert failure is not None
    assert failure.errno == errno.EPERM
    assert (world.disk.sync_method, file.is_dirty) == ("threads", True)


async def test_close_does_not_wait_for_a_sync_that_never_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = AioWorld(tmp_path)
    result = world.submit(world.file())
    hold_events(monkeypatch, world.aio)
    await asyncio.wait_for(world.aio.close(waits=False), WITHIN_S)
    assert not result.done()
    assert not world.aio.submit(0, lambda _: pytest.fail("submitted after the close"))  # type: ignore[arg-type,return-value]
    monkeypatch.undo()
    world.aio.wait_while(lambda: bool(world.aio.in_flight))
    await asyncio.wait_for(world.aio.close(waits=True), WITHIN_S)
    assert result.done()


async def test_close_waits_for_the_syncs_in_flight(tmp_path: Path) -> None:
    world = AioWorld(tmp_path)
    result = world.submit(world.file())
    await asyncio.wait_for(world.aio.close(waits=True), WITHIN_S)
    assert result.result() is None
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        os.fstat(world.aio._eventfd)


async def test_a_forked_process_submits_nothing(world: AioWorld) -> None:
    """The context belongs to the process that created it, and `exec` closes its eventfd."""
    file = world.file()
    descriptor = os.open(file.path, os.O_RDWR)
    child = os.fork()
    if not child:
        is_taken = world.aio.submit(descriptor, lambda _: pytest.fail("in the child"))  # type: ignore[arg-type,return-value]
        os._exit(is_taken)
    assert os.waitpid(child, 0)[1] == 0
    os.close(descriptor)
    assert not os.get_inheritable(world.aio._eventfd)
    assert await asyncio.wait_for(world.submit(file), WITHIN_S) is None
    assert not world.jobs


async def test_a_file_closed_during_its_sync_keeps_its_descriptor(world: AioWorld) -> None:
    file = world.file()
    result = world.submit(file)
    file.close()
    taken = os.open(world.path / "another", os.O_RDWR | os.O_CREAT)
    assert os.path.samefile(f"/proc/self/fd/{taken}", world.path / "another")
    assert await asyncio.wait_for(result, WITHIN_S) is None
    os.close(taken)


async def test_a_descriptor_that_cannot_be_synced_ends_aio(world: AioWorld) -> None:
    reader, writer = os.pipe()
    assert not world.aio.submit(writer, lambda _: pytest.fail("the kernel did not take it"))  # type: ignore[arg-type,return-value]
    assert world.aio.refused == f"io_submit: {os.strerror(errno.EINVAL)}"
    assert world.disk.sync_method == "threads"
    result = world.submit(world.file())
    world.jobs[0]()
    assert await asyncio.wait_for(result, WITHIN_S) is None
    for end in (reader, writer):
        os.close(end)


async def test_a_failed_close_of_a_closed_file_is_its_failure(world: AioWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    file = world.file()
    result = world.submit(file)
    file.close()
    close = os.close

    def fail(descriptor: int) -> None:
        close(descriptor)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "close", fail)
    failure = await asyncio.wait_for(result, WITHIN_S)
    monkeypatch.undo()
    assert failure is not None
    assert failure.errno == errno.EIO
    assert not file._sync_lock.locked()


async def test_syncs_beyond_the_queue_run_in_a_thread(world: AioWorld) -> None:
    files = [world.file(str(number)) for number in range(aio_syncs.IN_FLIGHT_MAX + 1)]
    results = [world.submit(file) for file in files]
    for job in world.jobs:
        job()
    assert await asyncio.wait_for(asyncio.gather(*results), WITHIN_S) == [None] * len(files)
    assert world.aio.in_flight == 0


async def test_a_kernel_without_aio_calls_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = aio_syncs._CALLS[platform.machine()]
    missing = aio_syncs._Calls(*[ctypes.c_long(100_000)] * 4)
    monkeypatch.setattr(aio_syncs, "_CALLS", dict.fromkeys(aio_syncs._CALLS, missing))
    with pytest.raises(AioRefused, match=os.strerror(errno.ENOSYS)):
        AioSyncs(asyncio.get_running_loop())
    without_events = aio_syncs._Calls(calls.setup, *[ctypes.c_long(100_000)] * 3)
    monkeypatch.setattr(aio_syncs, "_CALLS", {platform.machine(): without_events})
    with pytest.raises(AioRefused, match="io_getevents"):
        AioSyncs(asyncio.get_running_loop())
    monkeypatch.setattr(aio_syncs, "_CALLS", {})
    with pytest.raises(AioRefused, match="unknown"):
        AioSyncs(asyncio.get_running_loop())


async def test_a_job_that_raises_does_not_stop_the_others(world: AioWorld) -> None:
    first_error: asyncio.Future[object] = world.loop.create_future()
    world.loop.set_exception_handler(lambda _, context: first_error.set_result(context["exception"]))

    def fail(_: OSError | None) -> None:
        raise ValueError("of the first one")

    world.disk.submit_sync([world.file("a")], [], fail)
    results = [world.submit(world.file(name)) for name in "bc"]
    assert await asyncio.wait_for(asyncio.gather(*results), WITHIN_S) == [None, None]
    assert str(await asyncio.wait_for(first_error, WITHIN_S)) == "of the first one"
    world.loop.set_exception_handler(None)


def test_the_faster_sync_method_is_chosen() -> None:
    choice = SyncChoice()
    for _ in range(100):
        choice.add_sample(choice.choose_aio(), 0.001)
    chosen = []
    for _ in range(1_000):
        by_aio = choice.choose_aio()
        chosen.append(by_aio)
        choice.add_sample(by_aio, 0.010 if by_aio else 0.001)
    assert not choice.uses_aio
    assert 1 <= sum(chosen[500:]) <= 4, "the slow way is tried now and then"
    for _ in range(3_000):
        by_aio = choice.choose_aio()
        choice.add_sample(by_aio, 0.001 if by_aio else 0.005)
    assert choice.uses_aio


async def test_the_time_of_a_sync_refused_by_aio_counts_for_threads(
    world: AioWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice, noted = SyncChoice(), list[bool]()
    monkeypatch.setattr(choice, "add_sample", lambda by_aio, _: noted.append(by_aio))
    world.disk = RealDisk(world.jobs.append, world.loop.call_soon, aio=world.aio, choice=choice)
    file = world.file()
    first, second = world.submit(file), world.submit(file)
    assert await asyncio.wait_for(first, WITHIN_S) is None
    (job,) = world.jobs
    job()
    assert await asyncio.wait_for(second, WITHIN_S) is None
    assert noted == [True, False]
