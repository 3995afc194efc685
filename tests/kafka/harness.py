"""Connections of the Kafka listener without sockets: a recording transport, and handlers that the test completes."""

import asyncio
import time
from collections.abc import Callable
from struct import Struct
from typing import Any

from raftlog.api.authentication import ListenerAuthentication
from raftlog.api.kafka.api import ApiKey, KafkaApi, KafkaRequest
from raftlog.api.kafka.connection import KafkaConnection
from raftlog.api.kafka.connections import KafkaConnections
from raftlog.api.kafka.dispatcher import Dispatcher
from raftlog.api.kafka.handlers.security.logins import RAW, make_login_apis
from raftlog.api.kafka.settings import DEFAULTS, KafkaSettings
from raftlog.api.kafka.wire.headers import is_flexible
from raftlog.partitions.counters import KafkaCounters
from raftlog.runtime.memory_budget import MemoryBudget

MIB = 1 << 20
_HEAD = Struct(">hhi")


def make_frame(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def make_request(
    key: int, version: int, body: bytes = b"", correlation_id: int = 0, client_id: bytes | None = b"tester"
) -> bytes:
    """Return the frame of a request, with header v2 if its version is flexible."""
    name = b"\xff\xff" if client_id is None else len(client_id).to_bytes(2, "big") + client_id
    known = key in set(ApiKey)
    tagged = b"\0" if (known and is_flexible(ApiKey(key), version)) else b""
    return make_frame(_HEAD.pack(key, version, correlation_id) + name + tagged + body)


class RecordingTransport(asyncio.Transport):
    """Transport to a client that the test controls; `unsent` bytes stay in its buffer."""

    def __init__(self, protocol: KafkaConnection) -> None:
        super().__init__({"peername": ("192.0.2.7", 40_000)})
        self.protocol = protocol
        self.written = b""
        self.writes = 0
        self.is_reading = True
        self.is_closed = self.is_half_closed = False
        self.unsent = 0

    def pause_reading(self) -> None:
        assert self.is_reading, "paused twice"
        self.is_reading = False

    def resume_reading(self) -> None:
        assert not self.is_reading, "resumed twice"
        self.is_reading = True

    def writelines(self, buffers: Any) -> None:
        assert not self.is_closed, "written after the end"
        self.writes += 1
        self.written += b"".join(buffers)

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.is_half_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    abort = close


class Edge:
    """Connections of a listener, with handlers for Produce (pipelined), Fetch and Heartbeat that the test completes."""

    def __init__(
        self,
        settings: KafkaSettings = DEFAULTS,
        requests: int = 64 * MIB,
        answers: int = 64 * MIB,
        authentication: ListenerAuthentication | None = None,
        reserve: int = 0,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.seen: list[KafkaRequest] = []
        self.waiting: list[asyncio.Future[Any]] = []
        self.is_immediate = False
        """Whether requests are answered in their first step."""
        self.repeats = 1
        """Number of times that an immediate answer repeats its request."""
        apis = [
            self.api(ApiKey.PRODUCE, (0, 9), served_from=3, is_pipelined=True),
            self.api(ApiKey.FETCH, (4, 12)),
            self.api(ApiKey.SYNC_GROUP, (0, 5)),
            self.api(ApiKey.LIST_OFFSETS, (1, 6), is_pipelined=True),
            KafkaApi(ApiKey.HEARTBEAT, (0, 4), self.handle),
            KafkaApi(ApiKey.METADATA, (0, 9), self.handle),
        ]
        self.requests, self.answers = MemoryBudget(requests, reserve), MemoryBudget(answers)
        self.counters = KafkaCounters()
        if authentication is not None:
            apis += make_login_apis()
        dispatcher = Dispatcher(apis, self.counters, None if authentication is None else RAW)
        self.connections = KafkaConnections(
            "kafka", settings, dispatcher, self.requests, self.answers, authentication, clock=clock
        )

    def api(self, key: ApiKey, versions: tuple[int, int], **more: Any) -> KafkaApi:
        """Return an API whose body and answer are bytes without a schema."""
        return KafkaApi(
            key, versions, self.handle, decode=lambda body, version: bytes(body), encode=lambda a, version: (a,), **more
        )

    async def handle(self, request: KafkaRequest) -> Any:
        """Answer with the request itself, or with what the test sets later."""
        self.seen.append(request)
        if self.is_immediate:
            return request.message * self.repeats
        future = asyncio.get_running_loop().create_future()
        self.waiting.append(future)
        answer = await future
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def connect(self) -> tuple[KafkaConnection, RecordingTransport]:
        connection = self.connections()
        transport = RecordingTransport(connection)
        connection.connection_made(transport)
        return connection, transport


def feed(connection: KafkaConnection, data: bytes, piece: int | None = None) -> bytes:
    """Deliver bytes in pieces like an event loop; return the rest that is not read because reading is paused."""
    transport = connection.transport
    while data and transport is not None and transport.is_reading and not transport.is_closing():
        buffer = connection.get_buffer(-1)
        size = min(len(data), len(buffer), piece or len(data))
        assert size, "no room to read into, and reading is not paused"
        buffer[:size] = data[:size]
        data = data[size:]
        connection.buffer_updated(size)
    return data


async def settle() -> None:
    """Let all tasks run that are ready."""
    for _ in range(10):
        await asyncio.sleep(0)


def parse_answers(data: bytes) -> list[tuple[int, bytes]]:
    """Return correlation id and content of each answer."""
    found = []
    while data:
        size = int.from_bytes(data[:4], "big")
        assert len(data) >= 4 + size, "half an answer"
        found.append((int.from_bytes(data[4:8], "big"), data[8 : 4 + size]))
        data = data[4 + size :]
    return found
