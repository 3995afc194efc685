"""`raftlog.Log` under threads: waiting appenders and flushers, the order of results, and concurrent reads."""

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import repeat
from pathlib import Path
from types import FrameType
from typing import Any, Self

import pytest

import raftlog
from raftlog import group_commit
from raftlog import log as log_module
from raftlog.errors import LogClosed, OffsetOutOfRange, OutcomeUnknown, RaftlogError, RecordTooLarge, SyncFailed
from raftlog.group_commit import Waiter
from raftlog.storage import verify
from raftlog.storage.real_disk import RealDisk
from raftlog.storage.recovery import segment_bases
from raftlog.storage.repair import repair_log
from raftlog.topic_config import LogConfig
from tests.waiting import block_until

WAIT_S = 30.0
NEVER_MS = 3_600_000


class Worker(threading.Thread):
    """Thread for one job; `outcome` returns its result or raises its error."""

    def __init__(self, job: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._job = job
        self._result: Any = None
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._result = self._job()
        except BaseException as error:  # noqa: BLE001 – `outcome` raises it
            self._error = error

    def outcome(self) -> Any:
        self.join(WAIT_S)
        assert not self.is_alive(), "the thread hangs"
        if self._error:
            raise self._error
        return self._result


class GatedSync:
    """`os.fdatasync` that waits at a gate: each call reports its arrival and waits until the test releases it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._entered = threading.Semaphore(0)
        self._gate = threading.Semaphore(0)
        self._is_open = False
        self._errors: list[BaseException] = []
        monkeypatch.setattr(os, "fdatasync", self._sync)

    def _sync(self, descriptor: int) -> None:
        if self._is_open:
            return
        self._entered.release()
        assert self._gate.acquire(timeout=4 * WAIT_S)
        if self._errors:
            raise self._errors.pop(0)

    def await_sync(self) -> None:
        assert self._entered.acquire(timeout=WAIT_S), "no sync was made"

    def release_one(self, error: BaseException | None = None) -> None:
        if error:
            self._errors.append(error)
        self._gate.release()

    def open(self) -> None:
        self._is_open = True
        self._gate.release(100)


class AnnouncedLock:
    """Lock that reports a thread before it waits, or interrupts that thread."""

    def __init__(self, lock: Any, announce: Callable[[], object]) -> None:
        self._lock, self._announce = lock, announce
        self.release = lock.release

    def acquire(self) -> None:
        self._announce()
        self._lock.acquire()


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> "WaitingThreads":
    return WaitingThreads(monkeypatch)


class WaitingThreads:
    """Appenders and flushers that wait in a log's queue for another thread to serve them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._arrived = threading.Semaphore(0)
        self.interrupted: threading.Thread | None = None
        """Thread whose next wait ends with Ctrl-C."""
        real = group_commit.Waiter.__init__

        def init(waiter: group_commit.Waiter, *args: Any, **named: Any) -> None:
            real(waiter, *args, **named)
            waiter.wake = AnnouncedLock(waiter.wake, self._announce)  # type: ignore[assignment]

        monkeypatch.setattr(group_commit.Waiter, "__init__", init)

    def _announce(self) -> None:
        self._arrived.release()
        if threading.current_thread() is self.interrupted:
            raise KeyboardInterrupt

    def await_one(self) -> None:
        assert self._arrived.acquire(timeout=WAIT_S), "no thread waits"


@contextmanager
def syncs_disabled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Disable syncs: races need many rounds, not durability."""
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", lambda descriptor: None)
        yield


def read_values(log: raftlog.Log) -> list[bytes | None]:
    return [record.value for record in log.read()]


def fail_once(real: Callable[..., Any], error: BaseException) -> Callable[..., Any]:
    """Return a function that raises the error at this thread's first call, and calls the real one later."""
    caller: threading.Thread | None = threading.current_thread()

    def call(*args: Any, **named: Any) -> Any:
        nonlocal caller
        if threading.current_thread() is caller:
            caller = None
            raise error
        return real(*args, **named)

    return call


# threads that wait for each other


def test_appenders_flush_when_too_many_bytes_wait_for_a_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "PENDING_BYTES_MAX", 64 << 10)
    log = raftlog.Log.open(tmp_path / "log", LogConfig(flush_messages=10_000_000, flush_ms=NEVER_MS))

    def append() -> None:
        for _ in range(20):
            log.append([bytes(20_000)])

    for worker in [Worker(append) for _ in range(3)]:
        worker.outcome()
    assert log.stats().log_end_offset == 60
    assert log.stats().pending_bytes <= 4 * (64 << 10)
    Worker(log.close).outcome()


def test_a_relaxed_append_during_a_sync_is_answered_when_that_sync_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waiting: WaitingThreads
) -> None:
    log = raftlog.Log.open(tmp_path / "log", LogConfig(flush_messages=10, flush_ms=NEVER_MS))
    syncs = GatedSync(monkeypatch)
    first = Worker(lambda: log.append([b"a"] * 10))
    syncs.await_sync()
    second = Worker(lambda: log.append([b"b"]))
    waiting.await_one()
    syncs.release_one()
    assert (first.outcome(), second.outcome()) == (0, 10)
    syncs.open()
    log.close()


def test_an_append_returns_after_its_own_sync_although_others_wait_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waiting: WaitingThreads
) -> None:
    log = raftlog.Log.open(tmp_path / "log")
    syncs = GatedSync(monkeypatch)
    first = Worker(lambda: log.append([b"a"]))
    syncs.await_sync()
    second = Worker(lambda: log.append([b"b"]))
    waiting.await_one()
    syncs.release_one()
    syncs.await_sync()
    assert first.outcome() == 0
    assert second.is_alive(), "it is answered only when its sync has ended"
    third = Worker(lambda: log.append([b"c"]))
    waiting.await_one()
    syncs.release_one()
    syncs.await_sync()
    assert second.outcome() == 1
    syncs.open()
    assert third.outcome() == 2
    log.close()


def test_an_answered_append_returns_although_another_arrives_at_that_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waiting: WaitingThreads
) -> None:
    log = raftlog.Log.open(tmp_path / "log")
    syncs = GatedSync(monkeypatch)
    second: list[Worker] = []
    progressed = log._log.on_progress

    def on_progress() -> None:
        progressed()
        if log.end_offset and not second:
            second.append(Worker(lambda: log.append([b"b"])))
            waiting.await_one()

    monkeypatch.setattr(log._log, "on_progress", on_progress)
    first = Worker(lambda: log.append([b"a"]))
    syncs.await_sync()
    syncs.release_one()
    syncs.await_sync()
    assert first.outcome() == 0
    assert second[0].is_alive()
    syncs.open()
    assert second[0].outcome() == 1
    log.close()


def test_a_refused_append_does_not_wait_for_the_syncs_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waiting: WaitingThreads
) -> None:
    log = raftlog.Log.open(tmp_path / "log", LogConfig(max_message_bytes=64 << 10))
    syncs = GatedSync(monkeypatch)
    first = Worker(lambda: log.append([b"a"]))
    syncs.await_sync()
    refused = Worker(lambda: log.append([bytes(100_000)]))
    waiting.await_one()
    second = Worker(lambda: log.append([b"b"]))
    waiting.await_one()
    syncs.release_one()
    syncs.await_sync()
    assert first.outcome() == 0
    with pytest.raises(RecordTooLarge):
        refused.outcome()
    syncs.open()
    assert second.outcome() == 1
    log.close()


def test_close_ends_while_appenders_are_busy_and_refuses_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waiting: WaitingThreads
) -> None:
    log = raftlog.Log.open(tmp_path / "log")
    answered: list[int] = []

    def append() -> None:
        with suppress(LogClosed):
            while True:
                answered.append(log.append([b"v" * 100]))

    with syncs_disabled(monkeypatch):
        workers = [Worker(append) for _ in range(8)]
        for _ in range(100):
            waiting.await_one()
        Worker(log.close).outcome()
        for worker in workers:
            worker.outcome()
    with raftlog.Log.open(tmp_path / "log") as reopened:
        assert sorted(answered) == list(range(reopened.end_offset))


def test_close_answers_all_waiters_before_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waiting: WaitingThreads
) -> None:
    log = raftlog.Log.open(tmp_path / "log")
    syncs = GatedSync(monkeypatch)
    appenders = [Worker(lambda: log.append([b"v"]))]
    syncs.await_sync()
    for _ in range(3):
        appenders.append(Worker(lambda: log.append([b"v"])))
        waiting.await_one()
    closing = Worker(log.close)
    syncs.open()
    closing.outcome()
    assert sorted(appender.outcome() for appender in appenders) == [0, 1, 2, 3]


# followers


def await_follower(log: raftlog.Log, monkeypatch: pytest.MonkeyPatch) -> tuple[Worker, threading.Event]:
    """Start a follower of a log; return it and an event that is set when it waits for records."""
    waits = threading.Event()
    real = log._commit.news.wait_for

    def wait_for(*args: Any) -> bool:
        waits.set()
        return real(*args)

    monkeypatch.setattr(log._commit.news, "wait_for", wait_for)
    return Worker(lambda: [record.value for record in log.follow(0)]), waits


def test_a_close_whose_sync_fails_ends_followers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = raftlog.Log.open(tmp_path / "log", LogConfig(flush_messages=100, flush_ms=NEVER_MS))
    log.append([b"a"])
    follower, waits = await_follower(log, monkeypatch)
    assert waits.wait(WAIT_S)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail_once(os.fdatasync, OSError(errno.EIO, "lost pages")))
        with pytest.raises(SyncFailed):
            log.close()
    assert follower.outcome() == [], "what is not durable is not seen"
    log.close()
    raftlog.Log.open(tmp_path / "log").close()


def test_follow_ends_when_idle_behind_a_gap_at_the_end(tmp_path: Path) -> None:
    with raftlog.Log.open(tmp_path / "log") as log:
        for _ in range(5):
            log.append([b"v"] * 3)
    [file] = (tmp_path / "log").glob("*.log")
    data = bytearray(file.read_bytes())
    data[-2] ^= 1
    file.write_bytes(data)
    repaired = repair_log(RealDisk(lambda job: job()), str(tmp_path / "log"), accept_loss=True)
    assert repaired.lost == [(12, 15)]
    log = raftlog.Log.open(tmp_path / "log")
    assert log.end_offset == 15
    follower = Worker(lambda: [record.offset for record in log.follow(0, idle_timeout_s=0.01)])
    assert follower.outcome() == list(range(12))
    following = log.follow(0, idle_timeout_s=WAIT_S)
    assert [next(following).offset for _ in range(12)] == list(range(12))
    log.append([b"new"])
    assert next(following).offset == 15
    log.close()


# what goes wrong


@pytest.mark.parametrize("place", ["append", "flush", "write"])
def test_an_append_interrupted_during_a_change_stops_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    log = raftlog.Log.open(tmp_path / "log")
    log.append([b"before"])
    owner, name = {
        "append": (log._log, "append"),
        "flush": (log._log, "flush_if_due"),
        "write": (os, "pwritev"),
    }[place]
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, fail_once(getattr(owner, name), KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            log.append([b"interrupted"])
        with pytest.raises(SyncFailed, match=r"interrupted \(KeyboardInterrupt\).*open it again"):
            Worker(lambda: log.append([b"after"])).outcome()
    Worker(log.close).outcome()
    with raftlog.Log.open(tmp_path / "log") as reopened:
        assert reopened.damage is None
        assert read_values(reopened) in ([b"before", b"interrupted"], [b"before"])
        reopened.append([b"after"])
        assert read_values(reopened)[-1] == b"after"


def test_other_threads_repeat_an_interrupted_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = raftlog.Log.open(tmp_path / "log")
    log.append([b"before"])
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail_once(os.fdatasync, KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            log.append([b"interrupted"])
        assert Worker(lambda: log.append([b"after"])).outcome() == 2
    Worker(log.close).outcome()
    with raftlog.Log.open(tmp_path / "log") as reopened:
        assert read_values(reopened) == [b"before", b"interrupted", b"after"]


class InterruptedAt:
    """Context that raises `KeyboardInterrupt` in this thread at the n-th function call of the library.

    Entered Python functions and returns from C functions count: CPython handles signals there."""

    def __init__(self, count: int) -> None:
        self._left = count

    def __enter__(self) -> Self:
        sys.setprofile(self._count_call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _count_call(self, frame: FrameType, event: str, _argument: object) -> None:
        if event in ("call", "c_return") and str(frame.f_globals.get("__name__")).startswith("raftlog."):
            self._left -= 1
            if self._left == 0:
                raise KeyboardInterrupt


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("flush_messages", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_an_interruption_anywhere_loses_nothing_and_hangs_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flush_messages: int
) -> None:
    config = LogConfig(flush_messages=flush_messages, flush_ms=NEVER_MS)
    stopped = 0
    for count in range(1, 700, 3):
        path = tmp_path / str(count)
        acknowledged: dict[int, bytes] = {}

        def work(log: raftlog.Log, number: int, acknowledged: dict[int, bytes] = acknowledged) -> None:
            for turn in range(4):
                value = b"%d-%d" % (number, turn)
                with suppress(OutcomeUnknown):
                    acknowledged[log.append([value])] = value

        with syncs_disabled(monkeypatch):
            log = raftlog.Log.open(path, config)
            workers = [Worker(lambda log=log, number=number: work(log, number)) for number in range(2)]  # type: ignore[misc]
            with suppress(KeyboardInterrupt), InterruptedAt(count):
                for _ in range(4):
                    log.append([b"mine"])
            for worker in workers:
                try:
                    worker.outcome()
                except SyncFailed:
                    stopped += 1
            Worker(log.close).outcome()
        with raftlog.Log.open(path) as reopened:
            assert reopened.damage is None, count
            found = read_values(reopened)
        assert {offset: found[offset] for offset in acknowledged} == acknowledged, count
    assert stopped, "some were interrupted amid a change"


def test_an_interrupted_leader_leaves_no_waiter_unanswered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waiting: WaitingThreads
) -> None:
    log = raftlog.Log.open(tmp_path / "log")
    syncs = GatedSync(monkeypatch)
    leader = Worker(lambda: log.append([b"leader"]))
    syncs.await_sync()
    others = []
    for number in range(3):
        others.append(Worker(lambda number=number: log.append([b"%d" % number])))  # type: ignore[misc]
        waiting.await_one()
    syncs.release_one(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        leader.outcome()
    syncs.open()
    assert [other.outcome() for other in others] == [1, 2, 3]
    Worker(log.close).outcome()
    with raftlog.Log.open(tmp_path / "log") as reopened:
        assert read_values(reopened) == [b"leader", b"0", b"1", b"2"]


def test_an_interrupted_waiting_appender_delays_no_other_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waiting: WaitingThreads
) -> None:
    log = raftlog.Log.open(tmp_path / "log")
    syncs = GatedSync(monkeypatch)
    leader = Worker(lambda: log.append([b"leader"]))
    syncs.await_sync()
    waiting.interrupted = threading.current_thread()
    with pytest.raises(KeyboardInterrupt):
        log.append([b"interrupted"])
    waiting.await_one()
    other = Worker(lambda: log.append([b"other"]))
    waiting.await_one()
    syncs.open()
    assert (leader.outcome(), other.outcome()) == (0, 1)
    Worker(log.close).outcome()
    with raftlog.Log.open(tmp_path / "log") as reopened:
        assert read_values(reopened) == [b"leader", b"other"]


class InterruptingGate:
    """Lock that raises `KeyboardInterrupt` after its n-th release: CPython handles signals when a call returns."""

    def __init__(self, lock: Any, releases: int) -> None:
        self._lock, self._left, self._owner = lock, releases, threading.current_thread()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        if threading.current_thread() is self._owner:
            self._left -= 1
            if self._left == 0:
                raise KeyboardInterrupt


@pytest.mark.parametrize("releases", [1, 2, 3, 4])
def test_an_appender_interrupted_between_two_steps_stops_leading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, releases: int
) -> None:
    log = raftlog.Log.open(tmp_path / "log")
    with monkeypatch.context() as patch:
        patch.setattr(log._commit, "_gate", InterruptingGate(log._commit._gate, releases))
        with pytest.raises(KeyboardInterrupt):
            log.append([b"interrupted"])
    after = Worker(lambda: log.append([b"after"])).outcome()
    Worker(log.close).outcome()
    with raftlog.Log.open(tmp_path / "log") as reopened:
        assert read_values(reopened)[after] == b"after"


def test_a_leader_appointed_before_its_predecessor_ends_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relaxed policy answers the leading thread during its round."""
    log = raftlog.Log.open(tmp_path / "log", LogConfig(flush_messages=1000, flush_ms=NEVER_MS))
    commit, others = log._commit, list[Worker]()
    append_all = commit._append_all

    def append_slowly(queue: list[Waiter]) -> None:
        if others:
            append_all(queue)
            return
        others.append(Worker(lambda: log.append([b"next"])))
        block_until(lambda: commit._queue)
        append_all(queue)
        block_until(lambda: not commit._queue)  # the next one leads, and has taken what is queued

    monkeypatch.setattr(commit, "_append_all", append_slowly)
    assert Worker(lambda: log.append([b"first"])).outcome() == 0
    assert others[0].outcome() == 1
    Worker(log.close).outcome()


class LateMutex:
    """Lock that delays one thread at its second acquisition, so that others go first."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self.owner: threading.Thread | None = None
        self.times = 0
        self.may_come = threading.Event()

    def __enter__(self) -> None:
        if threading.current_thread() is self.owner:
            self.times += 1
            if self.times == 2:
                assert self.may_come.wait(WAIT_S)
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_a_leader_that_is_answered_by_a_truncate_serves_its_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = raftlog.Log.open(tmp_path / "log")
    log.append([b"before"])
    commit, workers = log._commit, dict[str, Worker]()
    mutex = LateMutex(commit._mutex)
    monkeypatch.setattr(commit, "_mutex", mutex)
    append_all, settle = commit._append_all, log._log._flusher.flush_and_wait

    def append_with_another(queue: list[Waiter]) -> None:
        if "taken" not in workers:
            mutex.owner, mutex.times = threading.current_thread(), 1
            workers["taken"] = Worker(lambda: log.append([b"taken"]))
            block_until(lambda: commit._queue)
        append_all(queue)

    def settle_with_another() -> None:
        workers["next"] = Worker(lambda: log.append([b"next"]))
        block_until(lambda: commit._queue)
        settle()

    monkeypatch.setattr(commit, "_append_all", append_with_another)
    workers["first"] = Worker(lambda: log.append([b"first"]))
    block_until(lambda: mutex.times == 2)
    monkeypatch.setattr(log._log._flusher, "flush_and_wait", settle_with_another)
    log.truncate(1)
    monkeypatch.setattr(log._log._flusher, "flush_and_wait", settle)
    mutex.may_come.set()
    assert {name: worker.outcome() for name, worker in workers.items()}.keys() == {"first", "taken", "next"}
    Worker(log.close).outcome()


class InterruptingMutex:
    """Lock that raises `KeyboardInterrupt` at the given acquisitions of one thread."""

    def __init__(self, lock: Any, interrupted: set[int]) -> None:
        self._lock, self._interrupted, self._owner = lock, interrupted, threading.current_thread()
        self._times = 0

    def __enter__(self) -> None:
        if threading.current_thread() is self._owner:
            self._times += 1
            if self._times in self._interrupted:
                raise KeyboardInterrupt
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


@pytest.mark.parametrize("first", range(1, 7))
@pytest.mark.parametrize("times", [1, 3])
def test_an_appender_interrupted_again_while_it_leaves_delays_no_other_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int, times: int
) -> None:
    log = raftlog.Log.open(tmp_path / "log")
    interrupted = set(range(first, first + times))
    with syncs_disabled(monkeypatch), monkeypatch.context() as patch:
        patch.setattr(log._commit, "_mutex", InterruptingMutex(log._commit._mutex, interrupted))
        workers = [Worker(lambda: [log.append([b"others"]) for _ in range(50)]) for _ in range(2)]
        with pytest.raises(KeyboardInterrupt):
            list(map(log.append, repeat([b"mine"])))
        offsets = [offset for worker in workers for offset in worker.outcome()]
        assert len(set(offsets)) == 100
    Worker(log.close).outcome()
    with raftlog.Log.open(tmp_path / "log") as reopened:
        found = read_values(reopened)
        assert all(found[offset] == b"others" for offset in offsets)


def test_the_leading_thread_continues_when_another_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread answered before its sync makes that sync, and threads that enter behind it need another one."""
    log = raftlog.Log.open(tmp_path / "log", LogConfig(flush_messages=2, flush_ms=NEVER_MS))
    gate = GatedSync(monkeypatch)
    log.append([b"1"])
    leading = Worker(lambda: log.append([b"2"]))
    gate.await_sync()
    following = Worker(lambda: (log.append([b"3"]), log.flush()))
    block_until(lambda: log._commit._queue)
    leader = log._commit._leader
    log._commit._withdraw(Waiter())
    assert log._commit._leader is leader
    gate.open()
    assert (leading.outcome(), following.outcome()[0]) == (1, 2)
    Worker(log.close).outcome()


INTERRUPTED = """
import sys, threading, raftlog
log = raftlog.Log.open(sys.argv[1])
def others():
    try:
        while True:
            log.append([b"o"])
    except raftlog.RaftlogError:
        pass
for _ in range(int(sys.argv[2])):
    threading.Thread(target=others, daemon=True).start()
try:
    with log:
        while True:
            print(log.append([b"m"]), flush=True)
except KeyboardInterrupt:
    print("bye", flush=True)
"""


@pytest.mark.parametrize("others", [0, 3])
def test_ctrl_c_ends_a_program_that_appends(tmp_path: Path, others: int) -> None:
    for lines in (1, 23):
        command = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "log"), str(others)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
            assert program.stdout is not None
            answered = [program.stdout.readline() for _ in range(lines)][-1]
            program.send_signal(signal.SIGINT)
            try:
                out, err = program.communicate(timeout=2 * WAIT_S)
            finally:
                program.kill()
        assert (out.splitlines()[-1], program.returncode, err) == ("bye", 0, "")
        with raftlog.Log.open(tmp_path / "log") as log:
            assert log.damage is None
            assert log.end_offset > int(answered)


def test_a_truncate_does_not_answer_an_append_whose_sync_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = raftlog.Log.open(tmp_path / "log")
    log.append([b"a"])
    log.append([b"b"])
    syncing, truncating, go = threading.Event(), threading.Event(), threading.Event()
    real_sync, real_data_sync = RealDisk.sync, os.fdatasync

    def sync(disk: RealDisk, *args: Any) -> None:
        if syncing.is_set():
            truncating.set()
        real_sync(disk, *args)

    def data_sync(descriptor: int) -> None:
        if syncing.is_set():
            real_data_sync(descriptor)
        else:
            syncing.set()
            assert go.wait(2 * WAIT_S)
            raise OSError(errno.EIO, "reported once, as Linux does")

    monkeypatch.setattr(RealDisk, "sync", sync)
    monkeypatch.setattr(os, "fdatasync", data_sync)
    appender = Worker(lambda: log.append([b"c"]))
    assert syncing.wait(WAIT_S)
    truncate = Worker(lambda: log.truncate(2))
    assert truncating.wait(WAIT_S)
    truncate.join(0.05)  # one that does not wait for the append's sync ends now
    go.set()
    with pytest.raises(SyncFailed):
        appender.outcome()
    with pytest.raises(SyncFailed):
        truncate.outcome()
    with pytest.raises(SyncFailed):
        log.append([b"d"])
    Worker(log.close).outcome()


def test_the_retention_thread_survives_a_file_that_cannot_be_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "RETENTION_INTERVAL_S", 0.01)
    config = LogConfig(segment_bytes=4096, retention_bytes=4096, flush_messages=1000, flush_ms=5)
    failed = threading.Event()
    real = os.unlink

    def unlink(*args: Any, **named: Any) -> None:
        if failed.is_set():
            return real(*args, **named)
        failed.set()
        raise PermissionError(errno.EACCES, "not now")

    with raftlog.Log.open(tmp_path / "log", config) as log:
        monkeypatch.setattr(os, "unlink", unlink)
        for _ in range(30):
            log.append([bytes(1000)])
        assert failed.wait(WAIT_S), "retention did not run"
        late = log.append([b"late"])
        following = log.follow(log.end_offset, idle_timeout_s=WAIT_S)
        assert late in (record.offset for record in following), "flush.ms is kept no longer"


# readers


def race(log: raftlog.Log, write: Callable[[], object], rounds: int, *reads: Callable[[], object]) -> None:
    """Write for some rounds while each reader reads repeatedly, at least once; raise the first error."""
    stop = threading.Event()
    begun = threading.Barrier(len(reads) + 1)

    def read(number: int) -> None:
        begun.wait(WAIT_S)
        while True:
            with suppress(OffsetOutOfRange):
                reads[number]()
            if stop.is_set():
                return

    readers = [Worker(lambda number=number: read(number)) for number in range(len(reads))]  # type: ignore[misc]
    begun.wait(WAIT_S)
    try:
        for _ in range(rounds):
            write()
    finally:
        stop.set()
    for reader in readers:
        reader.outcome()
    assert log.damage is None


def test_readers_at_the_tail_find_no_damage_during_truncation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with syncs_disabled(monkeypatch), raftlog.Log.open(tmp_path / "log", LogConfig(segment_bytes=8192)) as log:

        def write() -> None:
            for _ in range(4):
                log.append([b"v" * 800])
            log.truncate(log.end_offset - 3)

        def read() -> None:
            for record in log.read(max(log.start_offset, log.end_offset - 6)):
                assert record.value == b"v" * 800

        race(log, write, 100, read, read)


def test_verify_finds_no_problem_in_a_growing_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with syncs_disabled(monkeypatch), raftlog.Log.open(tmp_path / "log", LogConfig(segment_bytes=1 << 18)) as log:

        def verify_it() -> None:
            assert log.verify().problems == []

        race(log, lambda: log.append([b"v" * 100] * 20), 800, verify_it)
        assert log.verify().end_offset == log.end_offset


def append_and_trim(log: raftlog.Log) -> Callable[[], object]:
    """Return a function that appends records and trims the log to the newest four."""

    def write() -> None:
        for _ in range(8):
            log.append([b"v" * 900])
        log.trim(log.end_offset - 4)

    return write


def open_files_below(path: Path) -> list[str]:
    found = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{number}"))
    return [name for name in found if name.startswith(str(path))]


def test_readers_of_every_kind_race_with_trim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with syncs_disabled(monkeypatch), raftlog.Log.open(tmp_path / "log", LogConfig(segment_bytes=4096)) as log:
        reads = (lambda: log.offset_at(timestamp=1), lambda: list(log.read()), log.verify)
        race(log, append_and_trim(log), 80, *reads)
        assert log.verify().is_sound


def test_verify_finds_no_problem_while_all_segments_are_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with raftlog.Log.open(tmp_path / "log", LogConfig(segment_bytes=4096)) as log:
        write = append_and_trim(log)
        write()
        left = 2

        def listed(*args: Any) -> list[int]:
            nonlocal left
            bases = segment_bases(*args)
            if left:
                left -= 1
                write()
            return bases

        monkeypatch.setattr(verify, "segment_bases", listed)
        assert log.verify().problems == []


@pytest.mark.parametrize("kind", ["look up", "read"])
def test_readers_that_race_with_trim_keep_no_deleted_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    log = raftlog.Log.open(tmp_path / "log", LogConfig(segment_bytes=4096))
    read: Callable[[], object] = {
        "look up": lambda: log.offset_at(timestamp=1),
        "read": lambda: list(log.read()),
    }[kind]
    with syncs_disabled(monkeypatch):
        race(log, append_and_trim(log), 60, read)
        assert [name for name in open_files_below(tmp_path) if "deleted" in name] == []
        log.close()
    assert open_files_below(tmp_path) == []


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_verify_closes_files_of_a_segment_deleted_while_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    with raftlog.Log.open(tmp_path / "log", LogConfig(segment_bytes=4096)) as log:
        for _ in range(8):
            log.append([b"v" * 900])
        before = sorted(open_files_below(tmp_path))
        real = RealDisk.open
        left = 1

        def open_file(disk: RealDisk, path: str, **named: Any) -> Any:
            nonlocal left
            if path.endswith(suffix) and left:
                left -= 1
                raise FileNotFoundError(errno.ENOENT, "deleted meanwhile", path)
            return real(disk, path, **named)

        with monkeypatch.context() as patch:
            patch.setattr(RealDisk, "open", open_file)
            with suppress(FileNotFoundError):
                log.verify()
        assert left == 0
        assert sorted(open_files_below(tmp_path)) == before


def test_a_closed_log_is_not_read_and_opens_no_file_again(tmp_path: Path) -> None:
    log = raftlog.Log.open(tmp_path / "log")
    log.append([b"v"])
    log.close()
    for read in (lambda: list(log.read(0)), lambda: log.offset_at(timestamp=1)):
        with pytest.raises((RaftlogError, OSError)):
            read()
    assert open_files_below(tmp_path) == []
