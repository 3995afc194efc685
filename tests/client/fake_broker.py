"""Broker with topics in memory and the requests of `Producer` and `Consumer`, and with faults on demand.

It checks sequences as a broker does (a window of five batches), so that a client that repeats, overtakes or leaves out
is noticed.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from raftlog.records import BatchHeader, Record, read_header, read_records, split_batches, stamp
from raftlog.types import Offset, Term

WINDOW = 5
Fault = Callable[["Partition", BatchHeader], Awaitable[str | None]]
"""Asked at each produce: None lets it happen; "refuse", "lose-request", "lose-answer", or an error as "STATUS CODE"."""


@dataclass
class Partition:
    """Partition with batches by offset and a table of idempotent producers."""

    number: int
    batches: list[bytes] = field(default_factory=list)
    start: int = 0
    end: int = 0
    producers: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)
    """By producer id the last batches: first sequence, next sequence, base offset."""
    expired: set[int] = field(default_factory=set)
    grown: asyncio.Event = field(default_factory=asyncio.Event)

    def append(self, body: bytes) -> int | str:
        """Append a batch; return its base offset, or the error as "STATUS CODE"."""
        header = read_header(body)
        if header.producer_id >= 0:
            if header.producer_id in self.expired:
                return "409 40911"
            known = self.producers.get(header.producer_id, [])
            for first, _, base in known:
                if first == header.base_sequence:
                    return base
            expected = known[-1][1] if known else 0
            if header.base_sequence != expected:
                return "409 40909" if known else "409 40911"
            known.append((expected, (expected + header.record_count) % (1 << 31), self.end))
            self.producers[header.producer_id] = known[-WINDOW:]
        base = self.end
        batch = bytearray(body)
        stamp(batch, Offset(base), Term(1))
        self.batches.append(bytes(batch))
        self.end += header.record_count
        self.grown.set()
        self.grown = asyncio.Event()
        return base

    def read(self, offset: int, max_bytes: int) -> bytes:
        body = b""
        for batch in self.batches:
            if read_header(batch).next_offset > offset and (not body or len(body) + len(batch) <= max_bytes):
                body += batch
        return body

    @property
    def records(self) -> list[Record]:
        return [record for batch in self.batches for record in read_records(batch)]

    @property
    def values(self) -> list[bytes | None]:
        return [record.value for record in self.records]


class FakeBroker:
    """Topics by name with their partitions; `address` is set once the broker serves."""

    def __init__(self, **topics: int) -> None:
        self.topics = {name: [Partition(number) for number in range(count)] for name, count in topics.items()}
        self.max_message_bytes = 1 << 20
        self.address = ""
        self.fault: Fault | None = None
        self.ids_given = 0
        self.produces: list[BatchHeader] = []
        """Headers of all batches that arrived, in their order."""
        self.fetches = 0
        self.extra: Callable[[web.BaseRequest, list[str], bytes], Awaitable[web.StreamResponse | None]] | None = None

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request; `extra` answers first if it wants to."""
        parts = request.path.strip("/").split("/")
        body = await request.read()
        if self.extra is not None and (answer := await self.extra(request, parts, body)) is not None:
            return answer
        if parts == ["v1", "brokers"]:
            host, _, port = self.address.rpartition(":")
            row = {"node_id": 1, "is_alive": True, "membership_status": "active", "version": "0.2.0"}
            return _json_response(
                [{**row, "http_address": self.address, "internal_rpc_address": host, "internal_rpc_port": port}]
            )
        if parts == ["producers"]:
            self.ids_given += 1 if request.query.get("fresh") != "true" else 1_000
            return _json_response({"producer_id": self.ids_given, "producer_epoch": 0})
        if parts == ["topics"]:
            return _json_response(list(self.topics))
        partitions = self.topics.get(parts[1])
        if partitions is None:
            return error_response("404 40401")
        if len(parts) == 2:
            return _json_response(self._described(parts[1], partitions))
        return await self._partition(request, partitions[int(parts[3])], parts[4:], body)

    def _described(self, name: str, partitions: list[Partition]) -> dict[str, Any]:
        replicas = [{"broker": 1, "leader": True, "in_sync": True}]
        rows = [{"partition": each.number, "leader": 1, "replicas": replicas} for each in partitions]
        return {"name": name, "configs": {"max.message.bytes": str(self.max_message_bytes)}, "partitions": rows}

    async def _partition(
        self, request: web.BaseRequest, partition: Partition, rest: list[str], body: bytes
    ) -> web.StreamResponse:
        if rest == ["offsets"]:
            return _json_response(self._offsets(request, partition))
        if rest == ["records"]:
            return await self._fetch(request, partition)
        return await self._produce(request, partition, body)

    def _offsets(self, request: web.BaseRequest, partition: Partition) -> dict[str, object]:
        answer: dict[str, object] = {"beginning_offset": partition.start, "end_offset": partition.end}
        if "timestamp" in request.query:
            wanted = int(request.query["timestamp"])
            found = next((record for record in partition.records if record.timestamp >= wanted), None)
            answer["offset"] = None if found is None else found.offset
            answer["timestamp"] = None if found is None else found.timestamp
        return answer

    async def _produce(self, request: web.BaseRequest, partition: Partition, body: bytes) -> web.StreamResponse:
        (header, _), *more = split_batches(body)
        assert not more, "a request brings one batch"
        self.produces.append(header)
        fault = None if self.fault is None else await self.fault(partition, header)
        if fault == "lose-request":
            return _break_connection(request)
        if fault is not None and fault != "lose-answer":
            return error_response("503 50302" if fault == "refuse" else fault)
        base = partition.append(body)
        if fault == "lose-answer":
            return _break_connection(request)
        if isinstance(base, str):
            return error_response(base)
        row = {"partition": partition.number, "offset": base, "error_code": None, "error": None}
        return _json_response({"offsets": [row], "next_offset": base + header.record_count})

    async def _fetch(self, request: web.BaseRequest, partition: Partition) -> web.StreamResponse:
        self.fetches += 1
        offset = int(request.query["offset"])
        if not partition.start <= offset <= partition.end:
            bounds = {"beginning_offset": partition.start, "end_offset": partition.end, "offset": offset}
            return _json_response({"error_code": 40002, "message": "out of range", **bounds}, 400)
        if offset == partition.end:
            grown, timeout_s = partition.grown, int(request.query["timeout"]) / 1000
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(grown.wait(), timeout_s)
        body = partition.read(offset, int(request.query["max_bytes"]))
        headers = {"X-Raftlog-High-Watermark": str(partition.end), "X-Raftlog-Log-Start": str(partition.start)}
        return web.Response(body=body, headers=headers)


@asynccontextmanager
async def serve_broker(broker: FakeBroker) -> AsyncIterator[None]:
    """Serve the broker inside the block."""
    runner = web.ServerRunner(web.Server(broker.serve), shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        broker.address = "{}:{}".format(*runner.addresses[0])
        yield
    finally:
        await runner.cleanup()


def _json_response(fields: object, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(fields), content_type="application/json", status=status)


def error_response(status_and_code: str, message: str = "as the test wants it") -> web.Response:
    """Return an error response like a broker's."""
    status, code = map(int, status_and_code.split())
    outcome = "unknown" if status == 504 else "failed"
    return _json_response({"error_code": code, "message": message, "outcome": outcome}, status)


def _break_connection(request: web.BaseRequest) -> web.Response:
    """Close the connection without an answer."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()
