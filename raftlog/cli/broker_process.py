"""A broker in a process of its own: started, killed and started again by whoever wants to see what survives."""

import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from types import TracebackType
from typing import Any, Self

import orjson

from raftlog.cli.outcome import CommandFailed

READY_SECONDS_MAX = 15.0
STOP_SECONDS_MAX = 10.0


class BrokerProcess:
    """`raftlog serve` on loopback. The first start takes a free port, later ones the same."""

    def __init__(self, data_dir: str, *flags: str) -> None:
        self._data_dir, self._flags = data_dir, flags
        self._process: subprocess.Popen[bytes] | None = None
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self.address = "127.0.0.1:0"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._words.close()

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker has not been started"
        return self._process.pid

    def start(self) -> dict[str, Any]:
        """Start it and wait until it serves; its ready line. Raises `CommandFailed` with what it said instead."""
        assert self._process is None, "the broker runs already"
        command = [
            sys.executable,
            "-m",
            "raftlog.cli",
            "serve",
            "--data-dir",
            self._data_dir,
            "--http",
            self.address,
            "--log-format",
            "json",
            "--log-level",
            "warning",
            *self._flags,
        ]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RAFTLOG_")}
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=self._words,
            stdin=subprocess.DEVNULL,
            # Ctrl-C in the terminal is for the program that started the broker; it ends the broker itself.
            start_new_session=True,
        )
        line = self._first_line(self._process)
        if not line:
            self.kill()
            raise CommandFailed(f"the broker did not start: {self._said() or 'it said nothing'}")
        ready: dict[str, Any] = orjson.loads(line)
        self.address = ready["http"]
        return ready

    def kill(self) -> None:
        """SIGKILL, as a power cut would do it to the process; nothing when it does not run."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        with process:
            try:
                return process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                return process.wait()

    def _said(self) -> str:
        """What the broker wrote to its stderr."""
        self._words.seek(0)
        return self._words.read().decode(errors="replace").strip()

    def _first_line(self, process: subprocess.Popen[bytes]) -> bytes:
        """Empty when the process ended, or took too long, without one."""
        assert process.stdout is not None
        descriptor = process.stdout.fileno()
        line = b""
        until = time.monotonic() + READY_SECONDS_MAX
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, until - time.monotonic())):
                    return b""
                part = os.read(descriptor, 4096)
                if not part:
                    return b""
                line += part
        return line
