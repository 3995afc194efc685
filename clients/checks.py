"""Base of the checks: client programs as processes, and results.

A check is a function that takes the running cluster, and returns a few words about what it saw or raises `CheckFailed`.
The error has the output of the program that failed."""

import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, NamedTuple

from clients.packages import ROOT
from raftlog.testing import Cluster

RUN_S_MAX: Final = 120.0
READY_S_MAX: Final = 180.0
"""Seconds that a broker may take to start, on a busy machine."""
_SHOWN_CHARACTERS: Final = 1200
_POLL_S: Final = 0.1


class CheckFailed(Exception):
    """Error for a program that failed, or whose output is not as required."""


def start_cluster(python: str) -> AbstractContextManager[Any]:
    """Return a cluster of three brokers without security; `python` runs them."""
    environment = {"PYTHONPATH": str(ROOT)}
    return Cluster(3, python=python, with_cuts=False, environment=lambda _: environment, ready_timeout_s=READY_S_MAX)


class Check(NamedTuple):
    """Check of one client; `faults` names the faults during it, for the table.

    `run` takes the cluster that `start` returned for the first check of the same client."""

    client: str
    name: str
    faults: str
    run: Callable[[Any], str]
    start: Callable[[str], AbstractContextManager[Any]] = start_cluster


class Result(NamedTuple):
    """Result of one check."""

    client: str
    check: str
    faults: str
    is_passed: bool
    seconds: float
    detail: str

    def as_json(self) -> dict[str, Any]:
        return self._asdict()


def require(is_true: bool, problem: str) -> None:
    """Raise `CheckFailed` with the problem unless the condition holds."""
    if not is_true:
        raise CheckFailed(problem)


class Program:
    """Process of a client program; threads read its output, so that it never blocks on a pipe during faults."""

    def __init__(
        self,
        command: Sequence[str],
        given: str | None = "",
        directory: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start the program with stdin `given`; if that is None, stdin stays open for `write` until `finish`."""
        self._command = command
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=directory,
            env={**os.environ, **(environment or {})},
        )
        self.lines: list[str] = []
        """Lines of stdout so far."""
        self._errors: list[str] = []
        self._arrived: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        if given is not None:
            assert self._process.stdin is not None, "stdin is a pipe"
            self._process.stdin.write(given)
            self.finish()
        self._threads = [threading.Thread(target=read, daemon=True) for read in (self._read_lines, self._read_errors)]
        for thread in self._threads:
            thread.start()

    def write(self, text: str) -> None:
        """Write text to the program's stdin; requires `given=None`."""
        assert self._process.stdin is not None, "stdin is a pipe"
        try:
            self._process.stdin.write(text)
            self._process.stdin.flush()
        except BrokenPipeError:
            raise CheckFailed(f"the program ended and does not read{self.describe_output()}") from None

    def finish(self) -> None:
        """Close the program's stdin, which makes it end its work."""
        assert self._process.stdin is not None, "stdin is a pipe"
        self._process.stdin.close()

    def _read_lines(self) -> None:
        """Read stdout line by line until it ends."""
        assert self._process.stdout is not None, "stdout is a pipe"
        for line in self._process.stdout:
            self.lines.append(line.rstrip("\n"))
            self._arrived.put(line)
        self._arrived.put(None)

    def _read_errors(self) -> None:
        """Read stderr line by line until it ends."""
        assert self._process.stderr is not None, "stderr is a pipe"
        for line in self._process.stderr:
            self._errors.append(line)

    def wait_line(self, text: str, seconds: float = RUN_S_MAX) -> None:
        """Wait until a line of stdout contains `text`."""
        until = time.monotonic() + seconds
        while True:
            try:
                line = self._arrived.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                raise CheckFailed(f"no line with {text!r} within {seconds:g} s{self.describe_output()}") from None
            require(line is not None, f"the program ended before a line with {text!r}{self.describe_output()}")
            if text in str(line):
                return

    def end(self, seconds: float = RUN_S_MAX, *, code: int | None = 0) -> str:
        """Wait for the exit and return the stdout; any exit code is accepted with `code=None`."""
        try:
            found = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise CheckFailed(f"still running after {seconds:g} s{self.describe_output()}") from None
        for thread in self._threads:
            thread.join()
        require(code is None or found == code, f"exit code {found}{self.describe_output()}")
        return "\n".join(self.lines)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._process.terminate()

    def kill(self) -> None:
        """Send SIGKILL and wait for the exit."""
        self._process.kill()
        self._process.wait()

    @property
    def is_running(self) -> bool:
        """Whether the program has not exited."""
        return self._process.poll() is None

    @property
    def errors(self) -> str:
        """Content of stderr so far."""
        return "".join(self._errors)

    def describe_output(self) -> str:
        """Return the end of the program's output as text for an error."""
        both = ("\n".join(self.lines)[-_SHOWN_CHARACTERS:] + "\n" + self.errors[-_SHOWN_CHARACTERS:]).strip()
        return f"; {self._command[0].rpartition('/')[2]} printed:\n{both}"


def wait_until(is_true: Callable[[], bool], problem: Callable[[], str], seconds: float = RUN_S_MAX) -> None:
    """Wait until a condition holds; raise `CheckFailed` with the problem if that takes longer."""
    until = time.monotonic() + seconds
    while not is_true():
        require(time.monotonic() < until, f"after {seconds:g} s {problem()}")
        time.sleep(_POLL_S)


def output_of(command: Sequence[str], given: str = "", seconds: float = RUN_S_MAX) -> str:
    """Run a program and return its stdout; raises `CheckFailed` if the exit code is not 0."""
    program = Program(command, given)
    try:
        return program.end(seconds)
    finally:
        program.kill()


def json_lines(text: str) -> list[dict[str, Any]]:
    """Return the lines of an output that are JSON objects, decoded."""
    found = []
    for line in text.splitlines():
        if line.startswith("{"):
            found.append(json.loads(line))
    return found
