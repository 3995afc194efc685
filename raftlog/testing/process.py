"""Process of `raftlog serve`, which can be started, stopped, killed, paused and restarted.

    launch → (ready line on stdout) → runs → stop | kill | exits

The process leads its own session, so a signal to its group reaches the worker processes that it started, and Ctrl-C in
the terminal goes only to the program that started it. Its stderr goes to a file that is kept over restarts."""

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from raftlog.context import ClosedAtExit
from raftlog.testing import process_start
from raftlog.testing.environment import merge_environments, select_inherited
from raftlog.testing.errors import BrokerFailed, BrokerNotReady

PROGRAM: Final = ("-P", "-m", "raftlog.cli")
"""Arguments of the interpreter; `-P` removes the working directory, which may contain `raftlog`, from the import path.
"""
READY_SECONDS_MAX: Final = 30.0
STOP_SECONDS_MAX: Final = 15.0
LOG_SHOWN_BYTES: Final = 4096
"""Number of bytes from the end of a broker's log in an error message."""


class BrokerProcess(ClosedAtExit):
    """Process of `raftlog serve --data-dir DIR --http ADDRESS FLAGS…`; port 0 is replaced at the first start."""

    def __init__(
        self,
        data_dir: str | Path,
        *flags: str,
        http: str = "127.0.0.1:0",
        log_path: Path | None = None,
        name: str = "broker",
        python: str = sys.executable,
        environment: Mapping[str, str] | None = None,
        at_launch: Callable[[], Mapping[str, str]] = dict,
        program: Sequence[str] = PROGRAM,
    ) -> None:
        """Prepare a process; `start` or `launch` runs it.

        The broker inherits this process's environment without `RAFTLOG_…`; `environment` is added to it, and at each
        start the result of `at_launch`. `log_path` gets the stderr of all runs; without one it goes to a temporary
        file. `program`: the interpreter's arguments before `serve`."""
        self.name = name
        self.python = python
        """Interpreter for the next start; the broker is the raftlog that is installed for it."""
        self.data_dir = Path(data_dir)
        self.address = http
        """HTTP address; port 0 is replaced by the port in the first ready line."""
        self.ready: dict[str, Any] = {}
        """Ready line of the last start."""
        self._flags = flags
        # The default ports of gossip and Kafka are not reserved, so another process may use them.
        self._environment = {"RAFTLOG_GOSSIP": "off", "RAFTLOG_KAFKA": "none", **(environment or {})}
        self._at_launch = at_launch
        self._program = tuple(program)
        self._process: process_start.ProcessHandle | None = None
        self._log_file = open(log_path, "a+b") if log_path is not None else tempfile.TemporaryFile()  # noqa: SIM115
        self._run_began_at = 0
        """Position in the log at which the last run begins."""

    def close(self) -> None:
        """Kill the process, and close its log. The object cannot be used afterwards."""
        self.kill()
        self._log_file.close()

    @property
    def command(self) -> list[str]:
        """Command line that starts the broker."""
        return [
            self.python,
            *self._program,
            "serve",
            "--data-dir",
            str(self.data_dir),
            "--http",
            self.address,
            "--log-format",
            "json",
            *self._flags,
        ]

    @property
    def pid(self) -> int:
        """Process id of the last start."""
        assert self._process is not None, f"{self.name} has not been started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process runs or is paused."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """Exit code of the last run, negative for a signal; None while it runs."""
        return None if self._process is None else self._process.poll()

    def start(self, timeout_s: float = READY_SECONDS_MAX) -> dict[str, Any]:
        """Start the process and wait until it serves; return its ready line.

        Raises `BrokerNotReady`, after killing the process, if it does not become ready."""
        self.launch()
        wait_ready([self], timeout_s)
        return self.ready

    def launch(self) -> None:
        """Start the process without waiting; `wait_ready` waits until it serves."""
        assert not self.is_running, f"{self.name} runs already"
        self._close_pipe()
        self.ready = {}
        self._run_began_at = self._log_file.seek(0, os.SEEK_END)
        self._process = process_start.start(
            self.command,
            env=merge_environments(select_inherited(os.environ), self._environment, self._at_launch()),
            stdout=subprocess.PIPE,
            stderr=self._log_file,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def kill(self) -> None:
        """Kill the process with SIGKILL, like a crash; do nothing if it does not run."""
        self._signal(signal.SIGKILL)
        self._reap(STOP_SECONDS_MAX)

    def send_sigterm(self) -> None:
        """Send SIGTERM without waiting."""
        self._signal(signal.SIGTERM)

    def stop(self, timeout_s: float = STOP_SECONDS_MAX) -> int:
        """Send SIGTERM and wait; return the exit code. Raises `BrokerFailed` if the process had to be killed."""
        self._signal(signal.SIGTERM)
        self.resume()
        code = self._reap(timeout_s)
        if code is None:
            self.kill()
            raise BrokerFailed(f"{self.name} did not stop within {timeout_s:g} s{self.log_tail()}")
        return code

    def wait(self, timeout_s: float = STOP_SECONDS_MAX) -> int:
        """Wait until the process exits; return the exit code. Raises `BrokerFailed` after the timeout."""
        code = self._reap(timeout_s)
        if code is None:
            raise BrokerFailed(f"{self.name} still runs after {timeout_s:g} s")
        return code

    def pause(self) -> None:
        """Stop the process with SIGSTOP; its connections stay open."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume the process with SIGCONT; do nothing if it was not paused."""
        self._signal(signal.SIGCONT)

    def log_text(self) -> str:
        """Return the stderr of all runs."""
        return self._read_log(0)

    @property
    def has_logged(self) -> bool:
        """Whether the last run has written to its log."""
        return bool(self._read_log(self._run_began_at).strip())

    def log_tail(self) -> str:
        """Return the end of the last run's log, in a form to append to an error message."""
        text = self._read_log(self._run_began_at).strip()
        return f"; its log ends:\n{text[-LOG_SHOWN_BYTES:]}" if text else "; its log is empty"

    def _read_log(self, start: int) -> str:
        """Return the text of the log from a position on."""
        size = os.fstat(self._log_file.fileno()).st_size
        return os.pread(self._log_file.fileno(), size - start, start).decode(errors="replace")

    def _signal(self, number: signal.Signals) -> None:
        """Send a signal to the process and its children, if it runs."""
        if self._process is not None and self._process.poll() is None:
            # The process may have exited since `poll`.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def _reap(self, timeout_s: float) -> int | None:
        """Return the exit code; None if the process still runs after `timeout_s`, 0 if none was started."""
        if self._process is None:
            return 0
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        self._close_pipe()
        return code

    def _close_pipe(self) -> None:
        """Close the pipe of the process's standard output."""
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()

    def _take_ready(self, line: bytes) -> None:
        """Record the ready line, which names the port if the system chose it."""
        self.ready = orjson.loads(line)
        if self.address.endswith(":0"):
            self.address = self.ready["http"]

    def _kill_unready(self, why: str) -> BrokerNotReady:
        """Kill the process; return the error to raise."""
        self.kill()
        return BrokerNotReady(f"{self.name} did not start: {why}{self.log_tail()}")


def wait_ready(processes: Sequence[BrokerProcess], timeout_s: float = READY_SECONDS_MAX) -> None:
    """Wait until all launched processes serve.

    Raises `BrokerNotReady` for the first one that exits, or that is not ready at the timeout; the others keep running.
    """
    until = time.monotonic() + timeout_s
    lines: dict[int, bytes] = {}
    with selectors.DefaultSelector() as selector:
        for process in processes:
            if not process.ready:
                selector.register(_stdout_descriptor(process), selectors.EVENT_READ, process)
        while waiting := [key.data for key in selector.get_map().values()]:
            events = selector.select(max(0.0, until - time.monotonic()))
            if not events:
                raise waiting[0]._kill_unready(f"it was not ready within {timeout_s:g} s")
            for key, _ in events:
                part = os.read(key.fd, 65536)
                line = lines[key.fd] = lines.get(key.fd, b"") + part
                if not part:
                    raise key.data._kill_unready("it ended")
                if line.endswith(b"\n"):
                    selector.unregister(key.fileobj)
                    key.data._take_ready(line)


def _stdout_descriptor(process: BrokerProcess) -> int:
    """Return the descriptor of the process's standard output."""
    pipe = process._process.stdout if process._process is not None else None
    assert pipe is not None, f"{process.name} has not been launched"
    return pipe.fileno()
