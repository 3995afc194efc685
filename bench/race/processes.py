"""Three node processes of a peer, which can be started, killed and stopped."""

import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from bench.measure import MeasureFailed
from bench.race.accounting import raise_priority

NODES: Final = (1, 2, 3)
_START_S_MAX: Final = 60.0
_STOP_S_MAX: Final = 20.0
_POLL_S: Final = 0.05


class NodeProcesses:
    """Processes of a peer by node number; `command(node)` returns a command line; output goes to `N.log`."""

    def __init__(self, directory: Path, command: Callable[[int], Sequence[str]]) -> None:
        self._directory = directory
        self._command = command
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, node: int) -> None:
        """Start a node; do not wait until it is ready."""
        with (self._directory / f"{node}.log").open("ab") as log:
            self._processes[node] = subprocess.Popen(
                self._command(node),
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        raise_priority([self._processes[node].pid])

    def wait_port(self, node: int, port: int) -> None:
        """Wait until a node accepts connections at this port."""
        until = time.monotonic() + _START_S_MAX
        while time.monotonic() < until:
            if (code := self._processes[node].poll()) is not None:
                raise MeasureFailed(f"node {node} ended with {code}: {self._log(node)}")
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            time.sleep(_POLL_S)
        raise MeasureFailed(f"node {node} does not listen after {_START_S_MAX:g} s: {self._log(node)}")

    def pids(self) -> list[int]:
        """Return the process ids of the running nodes."""
        return [process.pid for process in self._processes.values() if process.poll() is None]

    def kill(self, node: int) -> None:
        """Kill a node with SIGKILL."""
        self._processes[node].kill()
        self._processes[node].wait()

    def close(self) -> None:
        """Stop all nodes; kill those that do not exit."""
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(_STOP_S_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _log(self, node: int) -> str:
        return (self._directory / f"{node}.log").read_text(errors="replace")[-800:]
