"""Faults of system calls of a running broker, by strace: full disk, failing or slow syncs.

    with inject(node.pid, SLOW_SYNCS): …        as long as the block lasts, in all threads of the process

Call `unsupported_reason` first: a machine may have no strace, or let no process trace another.
"""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from raftlog.testing.errors import BrokerFailed

_SYNCS: Final = "fsync,fdatasync,syncfs"
_ATTACHED_S_MAX: Final = 10.0
_POLL_S: Final = 0.02

Fault = tuple[str, str]
"""System calls, separated by commas, and strace's instruction for them."""
FULL: Final[Fault] = ("pwrite64,pwritev,pwritev2,fallocate", "error=ENOSPC")
"""Full disk: only writes into allocated space succeed, as in the journal's files."""


def slow_syncs(seconds: float) -> Fault:
    """Return a fault that delays every sync by `seconds`."""
    return (_SYNCS, f"delay_enter={round(seconds * 1e6)}")


def one_failing_sync() -> Fault:
    """Return a fault that fails the next sync of each thread, and none after it."""
    return (_SYNCS, "error=EIO:when=1")


def unsupported_reason() -> str | None:
    """Return the reason why system calls cannot be injected here; None when they can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    with subprocess.Popen(["sleep", "60"]) as sleeper:  # noqa: S607 - wherever it is
        command = ["strace", "-f", "-o", os.devnull, "-p", str(sleeper.pid)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:  # noqa: S603 - our own arguments
            assert tracer.stderr is not None, "a tracer without stderr"
            answer = tracer.stderr.readline()
            sleeper.kill()
    return None if "attached" in answer else f"strace may not attach to a process here: {answer.strip()}"


@contextmanager
def inject(pid: int, fault: Fault, files: Iterable[Path] = ()) -> Iterator[None]:
    """Inject the fault in the block, with `files` only for these. Raises `BrokerFailed` if strace cannot attach."""
    calls, effect = fault
    with tempfile.TemporaryDirectory() as directory:
        command = ["strace", "-f", "-qq", "-o", f"{directory}/trace", "-p", str(pid)]
        command += ["-e", f"trace={calls}", "-e", f"inject={calls}:{effect}"]
        for file in files:
            command += ["-P", str(file)]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as tracer:  # noqa: S603 - our own arguments
            try:
                _wait_attached(pid, tracer)
                yield
            finally:
                tracer.terminate()


def _wait_attached(pid: int, tracer: "subprocess.Popen[bytes]") -> None:
    """Wait until strace traces all threads of the process. Raises `BrokerFailed` if it does not in time."""
    until = time.monotonic() + _ATTACHED_S_MAX
    while not all(_is_traced(task) for task in Path(f"/proc/{pid}/task").iterdir()):
        if tracer.poll() is not None or time.monotonic() > until:
            raise BrokerFailed(f"strace did not attach to process {pid} within {_ATTACHED_S_MAX:g} s")
        time.sleep(_POLL_S)


def _is_traced(task: Path) -> bool:
    """Return whether a thread is traced, or has ended; `task` is its directory in `/proc`."""
    try:
        lines = (task / "status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return not any(line.split() == ["TracerPid:", "0"] for line in lines)
