"""Ingest of an octet-stream body: the value of one record, all or nothing.

Bytes beyond `SPOOLED_FROM_BYTES` go to a temporary file until the body is complete, so a slow sender of a large
record holds no memory. A body that ends early, stalls or is too large leaves nothing. Key and timestamp are in
the query, the record's headers in the header `X-Raftlog-Headers`. Called by `produce`."""

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO
from urllib.parse import parse_qsl

import orjson
from aiohttp import web

from raftlog.api.codes import BAD_REQUEST, TOO_LARGE
from raftlog.api.http.records.produce_answers import describe_result
from raftlog.api.http.records.produce_options import ProduceOptions
from raftlog.api.http.server.answers import value_answer
from raftlog.api.http.server.connection import caller_of
from raftlog.api.http.server.held_memory import HeldMemory
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.request_headers import text_header
from raftlog.api.http.server.routing import Target
from raftlog.api.http.server.streamed_body import StreamedBody
from raftlog.errors import Unavailable
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import deadline_in
from raftlog.records import NewRecord
from raftlog.records.json_record import read_headers, read_timestamp
from raftlog.runtime.memory_budget import MemoryBudget
from raftlog.security.permissions import AclOperation
from raftlog.storage.temporary_errors import TEMPORARY_ERRORS, make_refusal
from raftlog.values.records import ProducedRecords

SPOOLED_FROM_BYTES = 256 * 1024
HEADERS_HEADER = "X-Raftlog-Headers"
"""The record's headers, as a JSON list like that of a record object."""


class OctetStream:
    """Append of octet-stream bodies as single records; `memory` is the budget of all bodies."""

    def __init__(self, broker: Broker, memory: MemoryBudget) -> None:
        self._broker, self._memory = broker, memory

    async def produce(
        self, request: web.BaseRequest, target: Target, options: ProduceOptions, body: StreamedBody
    ) -> web.Response:
        """Append the body as one record; raises `HttpProblem`, and errors of the append."""
        bare = _record_without_value(request, target)
        deadline = deadline_in(options.timeout_ms)
        stream = await self._broker.open_stream(options.topic, options.partition, deadline=deadline)
        limit = stream.bounds.record_bytes_max
        _check_size(request.content_length or 0, limit)
        # The file is anonymous, so it disappears with the process.
        with tempfile.SpooledTemporaryFile(max_size=SPOOLED_FROM_BYTES) as spool:
            with _spool_errors():
                size = await _receive(body, spool, limit)
            # The permission may have ended while the body arrived.
            authorizer = self._broker.security.authorizer
            authorizer.authorize_topics(caller_of(request), AclOperation.WRITE, (options.topic,))
            deadline = deadline_in(options.timeout_ms)
            with HeldMemory(self._memory) as held:
                await held.cover(size, deadline)
                with _spool_errors():
                    record = bare._replace(value=await asyncio.to_thread(_read_all, spool))
                (stored,) = await self._broker.produce_records(
                    options.topic, options.partition, [record], acks=options.acks, deadline=deadline
                )
        if stored.error is not None:
            raise stored.error
        return value_answer(ProducedRecords(offsets=[describe_result(stored)]))


async def _receive(body: StreamedBody, spool: IO[bytes], limit: int) -> int:
    """Write the body to `spool` and return its size; raises `HttpProblem` as soon as that exceeds `limit`."""
    size = 0
    while not body.at_end:
        piece = await body.piece()
        size += len(piece)
        _check_size(size, limit)
        if size <= SPOOLED_FROM_BYTES:
            spool.write(piece)
        else:
            # A file system that stalls must not block the loop.
            await asyncio.to_thread(spool.write, piece)
    return size


@contextmanager
def _spool_errors() -> Iterator[None]:
    """Convert errors of the file system to errors of raftlog; the record was not appended yet."""
    try:
        yield
    except OSError as error:
        why = f"the body cannot be kept in {tempfile.gettempdir()} until all of it is there"
        if error.errno in TEMPORARY_ERRORS:
            raise make_refusal(why, error, "free some space") from error
        raise Unavailable(f"{why}: {error}") from error


def _read_all(spool: IO[bytes]) -> bytes:
    """Return the whole content of a temporary file."""
    spool.seek(0)
    return spool.read()


def _check_size(size: int, limit: int) -> None:
    """Raise `HttpProblem` if the record is larger than the topic's limit."""
    if size > limit:
        raise HttpProblem(
            TOO_LARGE, f"the record has {size} bytes or more; the topic's max.message.bytes allows {limit}"
        )


def _record_without_value(request: web.BaseRequest, target: Target) -> NewRecord:
    """Return a record with key, timestamp and headers of the request, and no value."""
    # A key is any bytes, percent-encoded; only the raw path still has them.
    text = request.raw_path.partition("?")[2].partition("#")[0]
    if not text.isascii():
        raise HttpProblem(BAD_REQUEST, "the query is not ASCII; write the bytes of a key as %XX")
    query = dict(parse_qsl(text, keep_blank_values=True, encoding="latin-1"))
    key, timestamp = query.get("key"), target.query.get("timestamp")
    headers = text_header(request, HEADERS_HEADER)
    try:
        return NewRecord(
            None,
            None if key is None else key.encode("latin-1"),
            None if timestamp is None else read_timestamp(int(timestamp) if timestamp.isdecimal() else timestamp),
            [] if headers is None else read_headers(orjson.loads(headers)),
        )
    except ValueError as error:
        raise HttpProblem(BAD_REQUEST, f"the record's key, timestamp or headers: {error}") from None
