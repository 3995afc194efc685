"""Requests of other nodes for partitions that this node leads: appends and reads. They are never forwarded again.

Every request names the topic by its uuid, so that a request for a deleted topic never reaches a later topic of the same
name. Malformed requests are refused; batches are validated here again. Called by the node's requests."""

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

from raftlog.errors import DeadlineExceeded, InvalidArgument, NotLeader, Unavailable
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.node import Node
from raftlog.partitions.node.requests import Request
from raftlog.partitions.replica import Replica
from raftlog.partitions.replica.traced_append import append_traced
from raftlog.partitions.results import Fetched
from raftlog.partitions.routing.isolation import hide_transactions, isolation_of
from raftlog.partitions.routing.router import (
    END_TRANSACTION,
    FETCH,
    OFFSETS,
    PRODUCE,
    TIMESTAMP,
    TRACED_PRODUCE,
    TRIM,
    encode_appended,
)
from raftlog.records import TransactionMarker, validate_client_batches
from raftlog.runtime.rpc.calls import Answer
from raftlog.runtime.tracing.spans import Span
from raftlog.runtime.tracing.tracer import Tracer
from raftlog.types import Isolation, intern_uuid

FindReplica = Callable[[UUID, int], Replica | None]
_WAIT_MS_MAX = 60_000
_WAITING_MAX = 2_048
"""Maximum number of fetches of other nodes that may wait here: half of a connection's limit of served requests."""


class DataRequests:
    """Handlers of produce and read requests that other nodes forward to this leader.

    `find` returns this node's replica of a partition."""

    def __init__(self, node: Node, find: FindReplica, fetch_bytes_max: int, tracer: Tracer | None = None) -> None:
        """Begin to serve produce, fetch and other data requests of other nodes.

        `find` returns the replica of a request."""
        self._find, self._fetch_bytes_max, self._tracer = find, fetch_bytes_max, tracer
        self._loop = node.loop
        self._waiting = 0
        """Fetches of other nodes that are being served."""
        node.on_request(PRODUCE, self._produce)
        node.on_request(TRACED_PRODUCE, self._produce_traced)
        node.on_request(FETCH, self._fetch)
        node.on_request(OFFSETS, self._offsets)
        node.on_request(TIMESTAMP, self._timestamp)
        node.on_request(TRIM, self._trim)
        node.on_request(END_TRANSACTION, self._end_transaction)

    async def _produce_traced(self, request: Request) -> Answer:
        """Append like `_produce`; measure it in the caller's trace, whose context is the header's last field."""
        match request.header:
            case [*header, str(traceparent)]:
                request = request._replace(header=header)
            case _:
                raise _malformed_error(TRACED_PRODUCE)
        tracer = self._tracer
        span = None if tracer is None else tracer.continue_trace("append for another broker", traceparent)
        if tracer is None or span is None:
            return await self._produce(request)
        span.attributes["from"] = request.node
        error: BaseException | None = None
        try:
            return await self._produce(request, span)
        except BaseException as raised:
            error = raised
            raise
        finally:
            tracer.finish(span, error)

    async def _produce(self, request: Request, span: Span | None = None) -> Answer:
        """Append another broker's batches to the replica here. Raises `Unavailable` after the deadline."""
        match request.header:
            case [bytes(topic_id), int(number), -1 | 0 | 1 as acks] if len(topic_id) == 16:
                replica = self._replica(topic_id, number)
            case _:
                raise _malformed_error(PRODUCE)
        if self._loop.time() >= request.deadline:
            raise Unavailable(f"{replica.name}: the deadline passed on the way to the leader; nothing was appended")
        batches = []
        for piece in request.payload:
            for _, batch in validate_client_batches(piece, replica.config.max_message_bytes):
                batches.append(bytearray(batch))
        if not batches:
            raise _malformed_error(PRODUCE)
        try:
            async with asyncio.timeout_at(request.deadline):
                if span is None:
                    appended = await replica.append(batches, acks)
                else:
                    appended = await append_traced(replica, batches, acks, span)
                return encode_appended(appended)
        except TimeoutError:
            raise DeadlineExceeded(f"{replica.name}: appended, but not committed before the deadline") from None

    async def _fetch(self, request: Request) -> Answer:
        """Read batches of the replica here for another broker, within its byte bound."""
        replica, deadline, header = self._read_partition(request, FETCH)
        match header:
            case {"offset": int(offset), "max_bytes": int(max_bytes), "min_bytes": int(min_bytes)}:
                max_bytes = max(1, min(max_bytes, self._fetch_bytes_max))
                min_bytes, isolation = min(min_bytes, max_bytes), isolation_of(header)
                found = await self._fetch_within_bound(replica, offset, max_bytes, min_bytes, deadline, isolation)
                return Answer([found.high_watermark, found.log_start_offset, found.leader_epoch], tuple(found.batches))
        raise _malformed_error(FETCH)

    async def _fetch_within_bound(
        self,
        replica: Replica,
        offset: int,
        max_bytes: int,
        min_bytes: int,
        deadline: Deadline,
        isolation: Isolation,
    ) -> Fetched:
        """Fetch; above the bound of waiting fetches answer at once, so that other requests are served."""
        if self._waiting >= _WAITING_MAX:
            return hide_transactions(await replica.fetch(offset, max_bytes, 0, deadline, isolation))
        self._waiting += 1
        try:
            return hide_transactions(await replica.fetch(offset, max_bytes, min_bytes, deadline, isolation))
        finally:
            self._waiting -= 1

    async def _offsets(self, request: Request) -> Answer:
        """Answer a request for the offsets of a partition."""
        replica, deadline, header = self._read_partition(request, OFFSETS)
        is_linearizable = header.get("linearizable") is True
        return Answer(list(await replica.offsets(is_linearizable, deadline, isolation_of(header))))

    async def _timestamp(self, request: Request) -> Answer:
        """Answer a request for the first offset at or after a timestamp."""
        replica, deadline, header = self._read_partition(request, TIMESTAMP)
        match header:
            case {"timestamp": int(timestamp)}:
                found = await replica.offset_for_timestamp(timestamp, deadline, isolation_of(header))
                return Answer(None if found is None else list(found))
        raise _malformed_error(TIMESTAMP)

    async def _trim(self, request: Request) -> Answer:
        """Answer a request to delete the records before an offset."""
        replica, deadline, header = self._read_partition(request, TRIM)
        match header:
            case {"before": int(before)}:
                return Answer([await replica.delete_before(before, deadline)])
        raise _malformed_error(TRIM)

    async def _end_transaction(self, request: Request) -> Answer:
        """Write the marker of a transaction that another broker coordinates."""
        replica, deadline, header = self._read_partition(request, END_TRANSACTION)
        match header:
            case {"marker": [int(producer_id), int(epoch), bool(is_commit), int(coordinator_epoch), int(number)]}:
                marker = TransactionMarker(producer_id, epoch, is_commit, coordinator_epoch, number)
                await replica.transactions.end_transaction(marker, deadline)
                return Answer(None)
        raise _malformed_error(END_TRANSACTION)

    def _read_partition(self, request: Request, name: str) -> tuple[Replica, Deadline, dict[str, Any]]:
        """Decode the common header fields; return the replica, the deadline and the other fields."""
        match request.header:
            case [bytes(topic_id), int(number), int(wait_ms), dict(header)] if len(topic_id) == 16:
                wait_ms = min(max(wait_ms, 0), _WAIT_MS_MAX)
                return self._replica(topic_id, number), deadline_in(wait_ms), header
        raise _malformed_error(name)

    def _replica(self, topic_id: bytes, number: int) -> Replica:
        """Return the replica here. Raises `NotLeader` if there is none."""
        replica = self._find(intern_uuid(topic_id), number)
        if replica is None:
            raise NotLeader(f"this broker has no replica of partition {number} of the topic {topic_id.hex()}")
        return replica


def _malformed_error(name: str) -> InvalidArgument:
    """Return the error for a request of another broker that cannot be decoded."""
    return InvalidArgument(
        f"the request {name!r} cannot be decoded; check that the other broker runs a compatible release"
    )
