"""Client of Kafka's protocol in virtual time: connections, requests with their answers, and leaders by Metadata.

Requests of several tasks to one broker share a connection, and answers come in the order of requests. If an answer is
late, the connection is closed, and all of its open requests end with `NoAnswer`."""

import asyncio
from collections import deque
from collections.abc import Sequence
from random import Random
from struct import Struct
from typing import Any, Final, NamedTuple

from jepsen.simulation.brokers.kafka.listener import KAFKA_PORT
from jepsen.simulation.verdicts import PropertyBroken
from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.wire import schemas
from raftlog.api.kafka.wire.headers import is_flexible

_HEAD: Final = Struct(">hhi")
_CLIENT_ID: Final = b"\x00\x03sim"
_READ_BYTES: Final = 4096
_SIZE_BYTES: Final = 4
_CORRELATION_BYTES: Final = 4


class NoAnswer(Exception):
    """Failed or lost connection, or no answer in time; the request may have been executed."""


class WireConnection(asyncio.BufferedProtocol):
    """Client end of one connection."""

    def __init__(self) -> None:
        self.transport: Any = None
        self._room = memoryview(bytearray(_READ_BYTES))
        self._read = b""
        self._waiting: deque[tuple[int, asyncio.Future[bytes]]] = deque()
        self._next = 0
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        """Pass all complete answers to their requests; keep the rest."""
        self._read += self._room[:nbytes]
        while len(self._read) >= _SIZE_BYTES:
            end = _SIZE_BYTES + int.from_bytes(self._read[:_SIZE_BYTES], "big")
            if len(self._read) < end:
                return
            self._on_answer(self._read[_SIZE_BYTES:end])
            self._read = self._read[end:]

    def _on_answer(self, content: bytes) -> None:
        """Complete the oldest request with its answer. Raises `PropertyBroken` for the answer of another request."""
        correlation_id = int.from_bytes(content[:_CORRELATION_BYTES], "big")
        wanted, future = self._waiting.popleft() if self._waiting else (-1, None)
        if wanted != correlation_id or future is None:
            raise PropertyBroken("answer-of-another", {"correlation_id": correlation_id, "wanted": wanted})
        if not future.done():
            future.set_result(content[_CORRELATION_BYTES:])

    def eof_received(self) -> bool:
        """Return false: the transport closes after the peer's end of the stream."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """End all open requests with `NoAnswer`."""
        self.is_lost = True
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(NoAnswer("the connection was lost"))
        self._waiting.clear()

    def send(self, key: ApiKey, version: int, body: bytes) -> "asyncio.Future[bytes]":
        """Send a request; return a future of the answer without its correlation id."""
        self._next += 1
        tagged = b"\0" if is_flexible(key, version) else b""
        content = _HEAD.pack(key, version, self._next) + _CLIENT_ID + tagged + body
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append((self._next, future))
        self.transport.write(len(content).to_bytes(_SIZE_BYTES, "big") + content)
        return future

    def close(self) -> None:
        """Close without waiting for answers."""
        self.transport.close()
        self.connection_lost(None)


class LeaderOfPartition(NamedTuple):
    """Leader of a partition by Metadata, and its epoch."""

    host: str
    epoch: int


class WireClient:
    """Client of Kafka's protocol over the simulated network. `hosts` are the bootstrap brokers."""

    def __init__(self, hosts: Sequence[str], random: Random) -> None:
        self._hosts, self._random = list(hosts), random
        self._connections: dict[str, WireConnection] = {}
        self._connecting: dict[str, asyncio.Lock] = {}
        self._leaders: dict[tuple[str, int], LeaderOfPartition] = {}

    def any_host(self) -> str:
        """Return a random host."""
        return self._random.choice(self._hosts)

    async def ask(self, host: str, request: Any, version: int, timeout_s: float) -> Any:
        """Send a request to a host and return the decoded answer. Raises `NoAnswer`."""
        key = ApiKey(request.API_KEY)
        answer = await self._exchange(host, key, version, bytes(request.encode(version=version)), timeout_s)
        tag = 1 if is_flexible(key, version) and key is not ApiKey.API_VERSIONS else 0
        return schemas.answer_class(key).decode(memoryview(answer)[tag:], version=version)

    async def _exchange(self, host: str, key: ApiKey, version: int, body: bytes, timeout_s: float) -> bytes:
        """Send a request; return the answer without its correlation id. Raises `NoAnswer`.

        After an error or a timeout the connection is closed."""
        connection = None
        try:
            async with asyncio.timeout(timeout_s):
                connection = await self._connection_to(host)
                return await connection.send(key, version, body)
        except (OSError, TimeoutError) as error:
            if connection is not None:
                connection.close()
            raise NoAnswer(repr(error)) from error

    async def _connection_to(self, host: str) -> WireConnection:
        """Return the open connection to the host, or a new one. Raises `OSError`."""
        async with self._connecting.setdefault(host, asyncio.Lock()):
            connection = self._connections.get(host)
            if connection is None or connection.is_lost:
                loop = asyncio.get_running_loop()
                _, connection = await loop.create_connection(WireConnection, host, KAFKA_PORT)
                self._connections[host] = connection
            return connection

    # leaders

    async def leader(self, topic: str, partition: int, timeout_s: float) -> LeaderOfPartition | None:
        """Return the leader from the cache, or as reported by any broker. Raises `NoAnswer`."""
        if (topic, partition) not in self._leaders:
            await self.refresh(topic, timeout_s)
        return self._leaders.get((topic, partition))

    def forget(self, topic: str, partition: int) -> None:
        """Remove the partition's leader from the cache, since it did not serve."""
        self._leaders.pop((topic, partition), None)

    async def refresh(self, topic: str, timeout_s: float) -> None:
        """Update the leaders of a topic from any broker. Raises `NoAnswer`."""
        request = schemas.request_class(ApiKey.METADATA)
        wanted = request(
            topics=[request.MetadataRequestTopic(name=topic)],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        answer = await self.ask(self.any_host(), wanted, 9, timeout_s)
        hosts = {each.node_id: each.host for each in answer.brokers}
        for found in answer.topics:
            for each in found.partitions:
                if each.leader_id in hosts:
                    self._leaders[topic, each.partition_index] = LeaderOfPartition(
                        hosts[each.leader_id], each.leader_epoch
                    )
