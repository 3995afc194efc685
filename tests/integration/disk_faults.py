"""System calls of a running broker that fail, made by strace: a disk that is full, a sync that fails."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from raftlog.testing.cluster import POLL_SECONDS

ENOSPC = ("ENOSPC", "pwrite64,pwritev,pwritev2,fallocate")
"""The disk is full: nothing more can be written, except over what was there before, as in the journal's files."""
EIO_ON_SYNC = ("EIO", "fsync,fdatasync,syncfs")
"""The disk does not do what it says: no sync succeeds."""


def need_strace() -> None:
    """Skip the test where no process may trace another."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        command = ["strace", "-f", "-o", os.devnull, "-p", str(sleeper.pid)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
            assert tracer.stderr is not None
            said = tracer.stderr.readline()
            sleeper.kill()
    if "attached" not in said:
        pytest.skip(f"strace may not attach to a process here: {said.strip()}")


@contextmanager
def failing(pid: int, fault: tuple[str, str], files: Iterable[Path] = ()) -> Iterator[None]:
    """As long as the block lasts, in all threads of the process; with `files` only on these."""
    error, calls = fault
    with tempfile.TemporaryDirectory() as directory:
        command = ["strace", "-f", "-qq", "-o", f"{directory}/trace", "-p", str(pid)]
        command += ["-e", f"trace={calls}", "-e", f"inject={calls}:error={error}"]
        for file in files:
            command += ["-P", str(file)]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as tracer:
            try:
                _until_attached(pid, tracer)
                yield
            finally:
                tracer.terminate()


def _until_attached(pid: int, tracer: "subprocess.Popen[bytes]") -> None:

    until = time.monotonic() + 10
    while not all(_is_traced(task) for task in Path(f"/proc/{pid}/task").iterdir()):
        assert tracer.poll() is None, "strace could not attach"
        assert time.monotonic() < until, "strace did not attach in time"
        time.sleep(POLL_SECONDS)


def _is_traced(task: Path) -> bool:
    try:
        lines = (task / "status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return not any(line.split() == ["TracerPid:", "0"] for line in lines)
