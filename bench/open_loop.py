"""A client that offers writes at a fixed rate over HTTP, whatever becomes of them: an open loop, in a child.

    latency = end of the answer − the moment at which the write was due

so a broker that stands still is charged for everything that it kept waiting, also for what could not even be sent.
One thread and plain sockets: the client costs the brokers on the same machine as little as it can. `select` sleeps to
the microsecond, which the pollers of the event loops do not.
"""

import json
import select
import socket
import time
from collections import deque
from contextlib import ExitStack

from bench.measure import require
from bench.samples import VALUE_BYTES, percentile
from bench.service import HOST

CONNECTIONS = 48
_DRAIN_S_MAX = 10.0
_READ_BYTES = 1 << 16
_DIGITS = 12


class _Connection:
    """One connection, with one request in flight at most."""

    def __init__(self, port: int, path: str) -> None:
        self.socket = socket.create_connection((HOST, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head = (
            f"POST {path} HTTP/1.1\r\nHost: {HOST}:{port}\r\nContent-Type: application/vnd.kafka.json.v2+json\r\n"
        )
        self._answer = b""
        self.due = 0.0

    def send(self, body: str, due: float) -> None:
        self.due, self._answer = due, b""
        self.socket.sendall(f"{self._head}Content-Length: {len(body)}\r\n\r\n{body}".encode())

    def receive(self) -> bytes | None:
        """The body of an answer of status 200, empty for another status, None while more is to come."""
        part = self.socket.recv(_READ_BYTES)
        require(bool(part), "the broker closed a connection")
        self._answer += part
        head, found, body = self._answer.partition(b"\r\n\r\n")
        if not found:
            return None
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        if len(body) < length:
            return None
        return body if head.startswith(b"HTTP/1.1 200") else b""


def offer(ports: list[int], path: str, per_s: int, seconds: float) -> dict[str, float]:
    """Offer single records of 100 bytes, all different, in turn to these brokers."""
    with ExitStack() as stack:
        connections = [_Connection(ports[number % len(ports)], path) for number in range(CONNECTIONS)]
        for connection in connections:
            stack.enter_context(connection.socket)
        return _offer(connections, per_s, seconds)


def _offer(connections: list[_Connection], per_s: int, seconds: float) -> dict[str, float]:
    free = deque(connections)
    busy: dict[socket.socket, _Connection] = {}
    filler = "x" * (VALUE_BYTES - _DIGITS)
    total, sent, succeeded = int(per_s * seconds), 0, 0
    latencies: list[float] = []
    begin = time.perf_counter() + 0.1
    until = begin + seconds + _DRAIN_S_MAX
    while (sent < total or busy) and time.perf_counter() < until:
        due = begin + sent / per_s
        while sent < total and free and due <= time.perf_counter():
            connection = free.popleft()
            connection.send(f'{{"records":[{{"value":"{filler}{sent:0{_DIGITS}d}"}}]}}', due)
            busy[connection.socket] = connection
            sent += 1
            due = begin + sent / per_s
        wait = until if sent == total or not free else due
        for ready in select.select(busy, (), (), max(0.0, wait - time.perf_counter()))[0]:
            connection = busy[ready]
            body = connection.receive()
            if body is None:
                continue
            latencies.append(time.perf_counter() - connection.due)
            succeeded += bool(body) and json.loads(body)["offsets"][0]["offset"] is not None
            del busy[ready]
            free.append(connection)
    latencies.sort()
    return {
        "offered": total,
        "sent": sent,
        "succeeded": succeeded,
        "p50_ms": percentile(latencies, 50) * 1000,
        "p99_ms": percentile(latencies, 99) * 1000,
        "max_ms": latencies[-1] * 1000,
    }
