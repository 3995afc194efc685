"""Requests to a partition's leader on any node: fetch with long poll, offsets, deletion of old records, markers.

Deletions and markers can be repeated like reads. A long poll is sent in pieces, so that it follows a change of leader.
Called by the broker, and by transaction coordinators."""

import asyncio

from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.node import Node
from raftlog.partitions.replica import Replica
from raftlog.partitions.results import Fetched
from raftlog.partitions.routing.isolation import hide_transactions, isolation_field
from raftlog.partitions.routing.partition import Partition
from raftlog.partitions.routing.router import (
    END_TRANSACTION,
    FETCH,
    OFFSETS,
    TIMESTAMP,
    TRIM,
    PartitionRouter,
    decode_numbers,
)
from raftlog.records import TransactionMarker
from raftlog.types import Isolation, NodeId, Offset, OffsetRange

_POLL_MS = 2_000
"""Longest time, in ms, that one request of a long poll waits at the leader."""
_AGAIN_MS = 500
"""Pause, in ms, before the next request to a leader that refuses to hold a long poll."""
_LOOK_MS = 1_500
"""Shortest time, in ms, to look for a leader before a fetch returns the records of the replica here."""


class Reader:
    """Reads from the leaders of partitions, here or on other nodes; one instance per process."""

    def __init__(self, node: Node, router: PartitionRouter) -> None:
        self.allows_waits = True
        """Whether fetches may wait for records; False once the broker is about to stop."""
        self._node, self._router = node, router

    async def fetch(
        self,
        target: Partition,
        offset: int,
        max_bytes: int,
        min_bytes: int,
        deadline: Deadline,
        isolation: Isolation = Isolation.READ_COMMITTED,
    ) -> Fetched:
        """Return stored batches from the one that contains `offset` on; as `Broker.fetch`."""
        while True:
            until = Deadline(min(deadline, deadline_in(_POLL_MS)))
            fetched = await self._fetch_until(target, offset, max_bytes, min_bytes, until, isolation)
            now = asyncio.get_running_loop().time()
            if sum(map(len, fetched.batches)) >= min_bytes or now >= deadline or self._node.ended.done():
                return fetched
            if not self.allows_waits or (fetched.batches and now < until):  # the next batch does not fit
                return fetched
            if now < until:  # the leader has too many waiting fetches, or stops
                await self._node.pause(Deadline(min(until, deadline_in(_AGAIN_MS))))

    async def _fetch_until(
        self, target: Partition, offset: int, max_bytes: int, min_bytes: int, until: Deadline, isolation: Isolation
    ) -> Fetched:
        """Fetch, and wait for records until `until`; after that the caller looks the leader up again."""

        async def call_local(replica: Replica) -> Fetched:
            """Fetch from the replica that leads in this process."""
            return hide_transactions(await replica.fetch(offset, max_bytes, min_bytes, until, isolation))

        async def call_remote(node: NodeId) -> Fetched:
            """Fetch through the node that leads the partition."""
            header = {"offset": offset, "max_bytes": max_bytes, "min_bytes": min_bytes, **isolation_field(isolation)}
            answer = await self._router.read(node, FETCH, target, header, until)
            high_watermark, log_start, epoch = decode_numbers(answer, 3)
            batches = [memoryview(piece) for piece in answer.payload]
            return Fetched(batches, Offset(high_watermark), Offset(log_start), epoch)

        # A fetch that does not wait for records still waits for a leader and its answer.
        deadline = Deadline(max(until, deadline_in(_LOOK_MS)))
        return await self._router.call(target, deadline, call_local, call_remote)

    async def offsets(
        self,
        target: Partition,
        linearizable: bool,
        deadline: Deadline,
        isolation: Isolation = Isolation.READ_COMMITTED,
    ) -> OffsetRange:
        """Return the log start offset and the end of the records that `isolation` shows; as `Broker.offsets`."""

        async def call_local(replica: Replica) -> OffsetRange:
            """Read the offsets of the replica that leads in this process."""
            return await replica.offsets(linearizable, deadline, isolation)

        async def call_remote(node: NodeId) -> OffsetRange:
            """Read the offsets through the node that leads the partition."""
            header = {"linearizable": linearizable, **isolation_field(isolation)}
            beginning, end = decode_numbers(await self._router.read(node, OFFSETS, target, header, deadline), 2)
            return OffsetRange(Offset(beginning), Offset(end))

        return await self._router.call(target, deadline, call_local, call_remote)

    async def offset_for_timestamp(
        self,
        target: Partition,
        timestamp_ms: int,
        deadline: Deadline,
        isolation: Isolation = Isolation.READ_COMMITTED,
    ) -> tuple[Offset, int] | None:
        """Return offset and timestamp of the first record at or after a timestamp; as `Broker.offset_for_timestamp`."""

        async def call_local(replica: Replica) -> tuple[Offset, int] | None:
            """Search the log of the replica that leads in this process."""
            return await replica.offset_for_timestamp(timestamp_ms, deadline, isolation)

        async def call_remote(node: NodeId) -> tuple[Offset, int] | None:
            """Search through the node that leads the partition; None if no record has the timestamp or a later one."""
            header = {"timestamp": timestamp_ms, **isolation_field(isolation)}
            answer = await self._router.read(node, TIMESTAMP, target, header, deadline)
            if answer.value is None:
                return None
            offset, timestamp = decode_numbers(answer, 2)
            return Offset(offset), timestamp

        return await self._router.call(target, deadline, call_local, call_remote)

    async def delete_before(self, target: Partition, offset: int, deadline: Deadline) -> Offset:
        """Delete the records below `offset`; as `Broker.delete_records`.

        After an unanswered attempt the outcome is unknown."""

        async def call_local(replica: Replica) -> Offset:
            """Delete records through the replica that leads in this process."""
            return await replica.delete_before(offset, deadline)

        async def call_remote(node: NodeId) -> Offset:
            """Delete records through the node that leads the partition."""
            [start] = decode_numbers(await self._router.read(node, TRIM, target, {"before": offset}, deadline), 1)
            return Offset(start)

        return await self._router.call(target, deadline, call_local, call_remote, only_reads=False)

    async def end_transaction(self, target: Partition, marker: TransactionMarker, deadline: Deadline) -> None:
        """Write a transaction's marker at the leader; see `Participant.end_transaction`."""

        async def call_local(replica: Replica) -> None:
            """End the transaction at the replica that leads in this process."""
            await replica.transactions.end_transaction(marker, deadline)

        async def call_remote(node: NodeId) -> None:
            """End the transaction through the node that leads the partition."""
            await self._router.read(node, END_TRANSACTION, target, {"marker": list(marker)}, deadline)

        await self._router.call(target, deadline, call_local, call_remote, only_reads=False)
