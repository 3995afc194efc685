"""Server processes under measurement, each with a simple HTTP client."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from bench.measure import MeasureFailed

READY_PATH = "/v1/status/ready"
POLL_S = 0.005
START_S_MAX = 20.0
STOP_S_MAX = 10.0
REQUEST_S_MAX = 60.0
HOST = "127.0.0.1"


class Service:
    """Started server; `ready_s` is the time from its last start until its first answer 200."""

    ready_s: float
    process: "subprocess.Popen[bytes]"

    def __init__(
        self, command: list[str], port: int, *, environment: Mapping[str, str] | None = None, place: Path | None = None
    ) -> None:
        """Start a command; `environment` and the working directory `place` default to those of this process."""
        self._command = command
        self.port = port
        self._environment = os.environ if environment is None else environment
        self._place = place
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - it is the server's as long as it may be started again
        self.start()

    def start(self) -> None:
        """Start the server, or start it again, and wait until it is ready."""
        environment = {name: value for name, value in self._environment.items() if not name.startswith("RAFTLOG_")}
        began_at = self._output.seek(0, os.SEEK_END)
        begin = time.perf_counter()
        self.process = subprocess.Popen(
            self._command,
            cwd=self._place,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._output,
        )
        while not _is_ready(self.port):
            waited = time.perf_counter() - begin
            if self.process.poll() is not None or waited > START_S_MAX:
                self._output.seek(began_at)
                printed = self._output.read().decode(errors="replace").strip()
                self.close()
                raise MeasureFailed(f"the server was not ready after {waited:.1f} s: {printed[-600:]}")
            time.sleep(POLL_S)
        self.ready_s = time.perf_counter() - begin

    def close(self) -> None:
        """Send SIGKILL unless the process has ended; the server cannot be started again."""
        self.kill()
        self._output.close()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def kill(self) -> None:
        """Send SIGKILL, and wait until the process has ended."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Send SIGTERM; raises `MeasureFailed` unless the process exits with code 0."""
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            raise MeasureFailed(f"the server did not stop within {STOP_S_MAX:g} s of SIGTERM") from None
        if code:
            raise MeasureFailed(f"the server ended with exit code {code} after SIGTERM")

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> bytes:
        """Send one request and return the body of a 2xx answer; raises `MeasureFailed` for other answers."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=REQUEST_S_MAX)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise MeasureFailed(f"{method} {path}: {error!r}") from error
        finally:
            connection.close()
        if response.status // 100 != 2:
            raise MeasureFailed(f"{method} {path}: {response.status} {answer[:300].decode(errors='replace')}")
        return answer

    def create_topic(self, name: str) -> None:
        """Create a topic of one partition."""
        body = json.dumps({"topic_name": name, "partitions_count": 1, "replication_factor": 1}).encode()
        self.request("POST", "/v3/clusters/-/topics", body, {"Content-Type": "application/json"})

    def end_offset(self, topic: str) -> int:
        """Return the end offset of partition 0."""
        offsets: dict[str, Any] = json.loads(self.request("GET", f"/topics/{topic}/partitions/0/offsets"))
        return int(offsets["end_offset"])


@contextmanager
def broker(data_dir: Path) -> Iterator[Service]:
    """Run `raftlog serve` without Kafka on a free port until the block ends; kill it unless it was stopped."""
    port = free_port()
    command = [sys.executable, "-m", "raftlog.cli", "serve", "--data-dir", str(data_dir)]
    with closing(
        Service([*command, "--http", f"{HOST}:{port}", "--kafka", "none", "--log-level", "warning"], port)
    ) as service:
        yield service


@contextmanager
def echo_server() -> Iterator[Service]:
    """Run aiohttp alone, with the same answers as a broker."""
    port = free_port()
    with closing(Service([sys.executable, "-m", "bench.echo_server", str(port)], port)) as service:
        yield service


def free_port() -> int:
    """Return a port that no process listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _is_ready(port: int) -> bool:
    """Return whether the server is ready, by a plain socket, since that takes little CPU in this process."""
    try:
        with socket.create_connection((HOST, port), timeout=1.0) as connection:
            connection.sendall(f"GET {READY_PATH} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode())
            return connection.recv(16).startswith(b"HTTP/1.1 200")
    except OSError:
        return False
