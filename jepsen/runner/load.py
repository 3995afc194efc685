"""Client processes of a test: start, output, end.

    start → all ready → begin(period) → figures … → wait → their parts of the history are complete

They are in sessions of their own, so that Ctrl-C reaches only the runner. Closing their stdin ends them at once.
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import orjson

import jepsen
from jepsen.runner.options import RunOptions
from jepsen.runner.store import Store
from jepsen.runner.system import SystemFailed
from jepsen.workloads.client.configuration import END, ClientConfiguration, Period, period_line

_ROOT: Final = Path(jepsen.__file__).parents[1]
_READY_S_MAX: Final = 60.0
_END_S_MAX: Final = 15.0
_CLOSE_S_MAX: Final = 2.0
"""Longest time, in seconds, for discarded clients to close their resources."""
_LOOK_S: Final = 0.02


class _Client:
    """Client process of the load, and the figures that it has reported."""

    def __init__(self, config: ClientConfiguration, store: Store) -> None:
        """Start the process of a client; it waits for the period of the load on its standard input."""
        self.number = config.number
        path = store.part_path(f"client-{config.number}").with_suffix(".json")
        config.write(path)
        self.figures: dict[str, int] = {}
        self.is_ready = False
        self._output = b""
        with open(store.logs / f"client-{config.number}.log", "wb") as errors:
            self.process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [sys.executable, "-m", "jepsen.workloads", str(path)],
                cwd=_ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        assert self.process.stdout is not None, "its stdout is a pipe"
        os.set_blocking(self.process.stdout.fileno(), False)

    def read_output(self) -> None:
        """Read the figures that the client has printed since the last call."""
        assert self.process.stdout is not None, "its stdout is a pipe"
        *lines, self._output = (self._output + (self.process.stdout.read() or b"")).split(b"\n")
        for line in lines:
            if line == b"ready":
                self.is_ready = True
            else:
                self.figures = orjson.loads(line)

    def send(self, line: bytes) -> None:
        """Write a line to the client's standard input."""
        assert self.process.stdin is not None, "its stdin is a pipe"
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def crash(self) -> None:
        """Kill the process, and read the rest of its output."""
        self.process.kill()
        self.process.wait()
        self.read_output()
        self.close()

    def close_stdin(self) -> None:
        """Close the client's stdin so that it ends at once, unless it waits for a paused broker.

        Its stdout stays open: with a closed one, a line of figures would end the client by a traceback."""
        if self.process.stdin is not None:
            self.process.stdin.close()

    def close(self, timeout_s: float = 0.0) -> None:
        """Wait until the client exits; kill it after the timeout."""
        self.close_stdin()
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


class Load:
    """All client processes of a test; always `close` it."""

    def __init__(
        self,
        options: RunOptions,
        addresses: Mapping[int, str],
        store: Store,
        epoch_ns: int,
        kafka: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        """Start all clients.

        `addresses` and `kafka` are the HTTP and Kafka addresses by node id. `epoch_ns` is the time at which the history
        begins."""
        self._options, self._addresses, self._store, self._epoch_ns = options, dict(addresses), store, epoch_ns
        self._kafka = dict(kafka)
        self._period: Period | None = None
        self._crashed: list[_Client] = []
        self._clients = [self._start(number) for number in range(1, options.clients + 1)]
        self._next_number = options.clients + 2  # the one between is the drain's

    def _start(self, number: int) -> _Client:
        """Start the client with this number."""
        options = self._options
        config = ClientConfiguration(
            number=number,
            addresses=self._addresses,
            workload=options.workload,
            partitions=options.plan.places(),
            rate=options.rate / options.clients,
            seed=options.seed,
            history=self._store.part_path(f"client-{number}"),
            epoch_ns=self._epoch_ns,
            clients=options.clients,
            client=options.client,
            kafka=self._kafka,
        )
        return _Client(config, self._store)

    def wait_ready(self) -> None:
        """Wait until all clients are ready to begin. Raises `SystemFailed`."""
        until = time.monotonic() + _READY_S_MAX
        while not all(client.is_ready for client in self._clients):
            self.read_output()
            if time.monotonic() >= until:
                raise SystemFailed(f"the clients were not ready within {_READY_S_MAX:g} s")
            time.sleep(_LOOK_S)

    def begin(self, period: Period) -> None:
        """Send all clients the period in which they send requests."""
        self._period = period
        for client in self._clients:
            client.send(period_line(period))

    def crash(self, number: int) -> str:
        """Kill a client (numbered from 1) and return a description; its open operations never complete.

        Another client takes its place for the rest of the period."""
        assert self._period is not None, "the clients have not begun"
        place = number - 1
        killed = self._clients[place]
        killed.crash()
        self._crashed.append(killed)
        client = self._clients[place] = self._start(self._next_number)
        self._next_number += 1
        client.send(period_line(self._period))
        return (
            f"client {killed.number}, process {killed.process.pid}, ended with {killed.process.returncode}; "
            f"client {client.number} takes its place"
        )

    def end(self) -> None:
        """End the load early: clients begin no further operations.

        `wait` waits for the last answers."""
        for client in self._clients:
            if client.process.poll() is None:
                client.send(END)

    def read_output(self) -> dict[str, int]:
        """Return the sum of the figures that the clients report. Raises `SystemFailed` when one failed."""
        for client in self._clients:
            client.read_output()
            if client.process.poll() not in (None, 0):
                raise SystemFailed(
                    f"client {client.number} ended with {client.process.returncode}:\n{self._log_end(client)}"
                )
        total: dict[str, int] = {}
        for client in (*self._crashed, *self._clients):
            for name, count in client.figures.items():
                total[name] = total.get(name, 0) + count
        return total

    def wait(self) -> dict[str, int]:
        """Wait until all clients have exited, and return their figures. Raises `SystemFailed` on a timeout."""
        until = time.monotonic() + _END_S_MAX
        while any(client.process.poll() is None for client in self._clients):
            self.read_output()
            if time.monotonic() >= until:
                raise SystemFailed(f"a client did not end within {_END_S_MAX:g} s after the end of the load")
            time.sleep(_LOOK_S)
        return self.read_output()

    def close(self) -> None:
        """Close all clients: let them end for up to `_CLOSE_S_MAX` seconds together, then kill them."""
        for client in self._clients:
            client.close_stdin()
        until = time.monotonic() + _CLOSE_S_MAX
        for client in self._clients:
            client.close(max(0.0, until - time.monotonic()))

    def _log_end(self, client: _Client) -> str:
        """Return the last 4,000 characters of the client's log."""
        return (self._store.logs / f"client-{client.number}.log").read_text(errors="replace")[-4000:]
