"""System calls of a running broker that fail, made by strace (`--inject`): a disk that is full, a sync that fails."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

_ATTACH_S = 10.0
_WRITES = "pwrite64,pwritev,pwritev2,fallocate,ftruncate"
_SYNCS = "fsync,fdatasync,syncfs"


def need_strace() -> None:
    """Skip the test where no process may trace another."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        done = subprocess.run(
            ["timeout", "1", "strace", "-p", str(sleeper.pid)], capture_output=True, check=False, text=True
        )
        sleeper.kill()
    if "attached" not in done.stderr:
        pytest.skip(f"strace may not attach to a process here: {done.stderr.strip()}")


def full_disk(pid: int) -> "contextmanager[None]":  # type: ignore[valid-type]
    """Nothing more can be written, as long as the block lasts."""
    return _injected(pid, _WRITES, "ENOSPC")


def failing_syncs(pid: int) -> "contextmanager[None]":  # type: ignore[valid-type]
    """No sync succeeds, as long as the block lasts."""
    return _injected(pid, _SYNCS, "EIO")


@contextmanager
def _injected(pid: int, calls: str, error: str) -> Iterator[None]:
    """All threads of a process, those that it starts later too."""
    with tempfile.TemporaryDirectory() as directory:
        command = ["strace", "-f", "-o", os.path.join(directory, "trace"), "-p", str(pid)]
        command += [f"--trace={calls}", f"--inject={calls}:error={error}"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
            assert tracer.stderr is not None
            assert "attached" in tracer.stderr.readline()
            yield
            tracer.terminate()
            tracer.wait(_ATTACH_S)
