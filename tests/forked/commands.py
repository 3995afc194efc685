"""The command `raftlog` in a forked process, run to its end."""

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import Final

from raftlog.testing import process_start

SECONDS_MAX: Final = 60.0


def run_raftlog(
    *args: str, given: str = "", env: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run a command with this input; return its exit code and output. Raises `TimeoutExpired`."""
    command = [sys.executable, "-m", "raftlog.cli", *args]
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        stdin.write(given.encode())
        stdin.seek(0)
        process = process_start.start(command, stdin=stdin, stdout=out, stderr=err, env=env)
        try:
            code = process.wait(SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess(command, code, out.read().decode(), err.read().decode())
