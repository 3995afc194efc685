"""Program that holds idle connections to one node over the Kafka protocol, and prints the memory of the nodes.

    python -m bench.race.idle_connections BOOTSTRAP COUNT PID…

Each connection has received the answer to one ApiVersions request. Prints a JSON object: `memory_mib` is that of the
largest node while the connections are open, `before_mib` the same before they were opened."""

import json
import resource
import socket
import sys
import time
from collections.abc import Sequence
from struct import Struct
from typing import Final

from bench import probes
from bench.race.frames import receive_frame

SETTLE_S: Final = 3.0
_TIMEOUT_S: Final = 30.0
_REQUEST: Final = Struct(">ihhih").pack(10, 18, 0, 1, -1)
"""ApiVersions v0 without a client id."""


def open_connection(address: tuple[str, int]) -> socket.socket:
    """Return a connection that has received an answer. Raises `OSError`."""
    connection = socket.create_connection(address, _TIMEOUT_S)
    connection.sendall(_REQUEST)
    receive_frame(connection)
    return connection


def _memory_mib(pids: Sequence[int]) -> float:
    return max(probes.memory_mib(pid)[0] for pid in pids)


def run(bootstrap: str, count: int, pids: Sequence[int]) -> dict[str, float]:
    """Open the connections, and return the memory before and while they are open."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    before = _memory_mib(pids)
    opened = [open_connection((host, int(port))) for _ in range(count)]
    time.sleep(SETTLE_S)
    found = {"memory_mib": _memory_mib(pids), "before_mib": before}
    for connection in opened:
        connection.setblocking(False)
        try:
            rest = connection.recv(1)
        except BlockingIOError:
            continue
        raise ConnectionError(f"a connection did not stay idle: {rest!r}")
    return found


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], int(sys.argv[2]), list(map(int, sys.argv[3:])))))
