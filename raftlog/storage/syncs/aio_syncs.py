"""Syncs of single files by Linux AIO: submitted from the event loop and completed on it, without a thread.

A commit waits for one sync. A thread that makes it waits twice for the interpreter lock, which under load takes longer
than the sync. `IOCB_CMD_FDSYNC` runs in the kernel and reports its end through an eventfd that the loop polls
(`io_submit(2)`, Linux 4.18 or later). Where the kernel, the file system or a sandbox refuses, `SyncThreads` make the
syncs.

The calls are made through `ctypes`: the packages that offer them test the kernel while they are imported, and the
test (`io_destroy` waits for a grace period of RCU) takes 35 ms of a start of 400 ms. Linux AIO rather than
io_uring, which many containers forbid and a preloaded library cannot observe.
"""

import asyncio
import ctypes
import errno
import logging
import os
import platform
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from raftlog.events import event

_logger = logging.getLogger(__name__)
IN_FLIGHT_MAX: Final = 64
"""Maximum number of syncs in flight; further syncs go to a thread."""
_FDSYNC: Final = 3
_FLAG_RESFD: Final = 1

Job = Callable[[], None]
Ended = Callable[[OSError | None], Job]


class _Calls(NamedTuple):
    """Numbers of the system calls for AIO; glibc has no functions for them."""

    setup: ctypes.c_long
    destroy: ctypes.c_long
    submit: ctypes.c_long
    getevents: ctypes.c_long


_CALLS: Final = {
    "x86_64": _Calls(*map(ctypes.c_long, (206, 207, 209, 208))),
    "aarch64": _Calls(*map(ctypes.c_long, (0, 1, 2, 4))),
}


class _Iocb(ctypes.Structure):
    """`struct iocb` of linux/aio_abi.h on a little-endian machine."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("key", ctypes.c_uint32),
        ("rw_flags", ctypes.c_uint32),
        ("opcode", ctypes.c_uint16),
        ("priority", ctypes.c_int16),
        ("descriptor", ctypes.c_uint32),
        ("buffer", ctypes.c_uint64),
        ("length", ctypes.c_uint64),
        ("offset", ctypes.c_int64),
        ("reserved", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
        ("eventfd", ctypes.c_uint32),
    )


class _IoEvent(ctypes.Structure):
    """`struct io_event`; `result` is 0 or a negated error number."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("iocb", ctypes.c_uint64),
        ("result", ctypes.c_int64),
        ("result2", ctypes.c_int64),
    )


# Arguments of a variadic function have to be as wide as a register.
_ZERO, _ONE, _MOST = ctypes.c_long(0), ctypes.c_long(1), ctypes.c_long(IN_FLIGHT_MAX)
_NOW: Final = (ctypes.c_long * 2)(0, 0)
"""`struct timespec` of zero."""


class AioRefused(Exception):
    """Error if the kernel or a sandbox offers no AIO; the message is the reason."""


class AioSyncs:
    """Syncs by Linux AIO for one event loop.

    All methods except `wait_while` are called in the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Create a context. Raises `AioRefused` if seccomp or the limit `/proc/sys/fs/aio-max-nr` prevents it."""
        calls = _CALLS.get(platform.machine())
        if calls is None:
            raise AioRefused(f"system calls of {platform.machine()} are unknown")
        self._calls = calls
        # Calls that do not block keep the interpreter lock; `_blocking` releases it.
        self._syscall: Any = ctypes.PyDLL(None, use_errno=True).syscall
        self._blocking: Any = ctypes.CDLL(None, use_errno=True).syscall
        self._syscall.restype = self._blocking.restype = ctypes.c_long
        self._context = ctypes.c_ulong()  # aio_context_t
        if self._syscall(calls.setup, _MOST, ctypes.byref(self._context)) != 0:
            number = ctypes.get_errno()
            hint = "; raise /proc/sys/fs/aio-max-nr" if number == errno.EAGAIN else ""
            raise AioRefused(f"io_setup: {os.strerror(number)}{hint}")
        self._events = (_IoEvent * IN_FLIGHT_MAX)()
        if self._syscall(calls.getevents, self._context, _ZERO, _ONE, self._events, _NOW) != 0:
            raise AioRefused(f"io_getevents: {os.strerror(ctypes.get_errno())}")
        self._eventfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._iocbs = (_Iocb * IN_FLIGHT_MAX)()
        for slot, iocb in enumerate(self._iocbs):
            iocb.data, iocb.opcode, iocb.flags, iocb.eventfd = slot, _FDSYNC, _FLAG_RESFD, self._eventfd
        self._pointers = [ctypes.byref(ctypes.pointer(iocb)) for iocb in self._iocbs]
        self._free = list(range(IN_FLIGHT_MAX))
        self._ended: list[Ended | None] = [None] * IN_FLIGHT_MAX
        self._loop = loop
        self._thread = threading.get_ident()
        self._jobs: deque[Job] = deque()
        """Jobs of completed syncs that the loop has not run yet."""
        self._idle: asyncio.Future[None] | None = None
        """Future that is done when no sync is in flight; created by `close`."""
        self.refused: str | None = None
        """Reason why submissions stopped after the start; None while they are possible."""
        loop.add_reader(self._eventfd, self._read_events)

    @property
    def in_flight(self) -> int:
        """Number of syncs that were submitted and have not completed."""
        return IN_FLIGHT_MAX - len(self._free)

    def submit(self, descriptor: int, ended: Ended) -> bool:
        """Start `fdatasync` of the descriptor, which must stay open until `ended` is called with the error, if any.

        `ended` must not raise and returns a job, which is called later on the loop. Returns False if the kernel did not
        accept the sync; then `ended` is never called.
        """
        if self.refused is not None or not self._free:
            return False
        slot = self._free.pop()
        self._iocbs[slot].descriptor = descriptor
        accepted = self._syscall(self._calls.submit, self._context, _ONE, self._pointers[slot])
        if accepted == 1:
            self._ended[slot] = ended
            return True
        self._free.append(slot)
        number = ctypes.get_errno()
        if accepted < 0 and number != errno.EAGAIN:  # EAGAIN: the kernel is short of resources now
            self._stop(f"io_submit: {os.strerror(number)}")
        return False

    def _stop(self, why: str) -> None:
        """Stop submissions, so that threads make all later syncs, and report the reason once."""
        if self.refused is None:
            self.refused = why
            event(_logger, "aio_refused", why=why)

    def wait_while(self, is_pending: Callable[[], bool]) -> None:
        """Block the loop's thread while the condition is true; return at once in other threads.

        Some sync in flight must make the condition false when it completes. This method itself reads the events of
        completed syncs, since the blocked loop cannot; the loop runs the jobs of these syncs later.
        """
        if threading.get_ident() != self._thread:
            return
        while is_pending():
            self._take_events(self._blocking, _ONE)
            self._loop.call_soon(self._run_jobs)

    async def close(self, waits: bool) -> None:
        """Stop reading events; with `waits`, first wait for the syncs in flight. No sync may be submitted any more."""
        self.refused = "closed"
        while waits and self.in_flight:
            self._idle = self._loop.create_future()
            await self._idle
        self._loop.remove_reader(self._eventfd)
        if not self.in_flight:  # otherwise the context is released when the process ends
            await asyncio.to_thread(self._blocking, self._calls.destroy, self._context)
            os.close(self._eventfd)

    def _read_events(self) -> None:
        """Complete the syncs that ended, and run their jobs; called by the loop when the eventfd is readable."""
        # A counter of zero: the events of this wake-up were read by `wait_while`.
        try:  # noqa: SIM105  # `suppress` would take three calls more, for each sync
            os.eventfd_read(self._eventfd)
        except BlockingIOError:
            pass
        self._take_events(self._syscall, _ZERO)
        self._run_jobs()

    def _take_events(self, syscall: Any, least: ctypes.c_long) -> None:
        """Process completed syncs, at least `least` of them unless a signal arrives."""
        timeout = None if least.value else _NOW
        count = syscall(self._calls.getevents, self._context, least, _MOST, self._events, timeout)
        if count < 0:
            self._lose_events(ctypes.get_errno())
            return
        for taken in self._events[:count]:
            number = -taken.result
            self._complete(taken.data, OSError(number, os.strerror(number)) if number > 0 else None)

    def _lose_events(self, number: int) -> None:
        """Fail all syncs in flight, whose results the kernel no longer reports."""
        if number == errno.EINTR:
            return
        self._stop(f"io_getevents: {os.strerror(number)}")
        for slot in range(IN_FLIGHT_MAX):
            if self._ended[slot] is not None:
                self._complete(slot, OSError(number, f"io_getevents: {os.strerror(number)}"))

    def _complete(self, slot: int, error: OSError | None) -> None:
        """Free the slot of a sync that ended, and queue the job that its `ended` returns."""
        ended = self._ended[slot]
        assert ended is not None, f"nothing is in flight in slot {slot}"
        self._ended[slot] = None
        self._free.append(slot)
        self._jobs.append(ended(error))

    def _run_jobs(self) -> None:
        """Run the queued jobs, and resolve the future of `close` when no sync is in flight."""
        try:
            while self._jobs:
                self._jobs.popleft()()
        finally:
            if self._jobs:  # one of them raised
                self._loop.call_soon(self._run_jobs)
            if self._idle is not None and not self.in_flight and not self._idle.done():
                self._idle.set_result(None)
