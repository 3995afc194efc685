"""Appends of restored batches, which keep their offsets. Called by listeners, as `operations.restoring`.

    batches begin at the end of the log   → appended unchanged, all or nothing; offsets without records stay without
    the log ends at another offset        → refused: `VersionConflict`

The comparison and the append are one step at the leader, so a repeated request never appends twice, and no other
writer's record gets an offset of the backup. Producers' ids are those of another cluster, and are refused."""

import asyncio
from collections.abc import Sequence
from typing import Final

from raftlog.errors import DeadlineExceeded, InvalidArgument, NotLeader, Overloaded, RecordTooLarge, VersionConflict
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.node import Node, Request
from raftlog.partitions.replica import Replica, ReplicaAppended
from raftlog.partitions.results import ALL
from raftlog.partitions.routing.finder import Finder
from raftlog.partitions.routing.partition import CALL_BATCHES_MAX, CALL_BYTES_MAX
from raftlog.partitions.routing.router import PartitionRouter, decode_appended, encode_appended
from raftlog.records import BatchHeader, validate_restored_batches
from raftlog.runtime.rpc.calls import Answer
from raftlog.types import Buffer, NodeId, intern_uuid

_RESTORE: Final = "operations.restore"
_LOOK_S: Final = 0.002
_OWN_TERM_MS: Final = 2_000
"""Longest wait, in ms, for a new leader to learn the end of its log."""


class RestoringOperations:
    """Appends of batches from a backup, at their own offsets, at the partition's leader."""

    def __init__(self, node: Node, finder: Finder, router: PartitionRouter) -> None:
        self._node, self._finder, self._router = node, finder, router
        node.on_request(_RESTORE, self._serve)

    async def restore_batches(self, topic: str, number: int, body: Buffer, *, deadline: Deadline) -> ReplicaAppended:
        """Append batches at their offsets, from the end of the log on.

        Raises `VersionConflict` if the log ends elsewhere, `InvalidBatch`, `RecordTooLarge`, `InvalidTopic` for an
        internal topic, and the errors of an append."""
        found = await self._finder.writable_topic(topic, deadline)
        partition = await self._finder.partition_of(found, number, deadline)
        if len(body) > CALL_BYTES_MAX:
            raise RecordTooLarge(f"{partition.name}: {len(body)} bytes in one request; the limit is {CALL_BYTES_MAX}")
        checked = validate_restored_batches(body, partition.config.max_message_bytes, CALL_BATCHES_MAX)

        async def call_local(replica: Replica) -> ReplicaAppended:
            """Append the batches to the leader in this process."""
            return await _append(replica, checked, deadline)

        async def call_remote(node: NodeId) -> ReplicaAppended:
            """Append the batches through the node that leads the partition."""
            header = [partition.topic_id.bytes, partition.number]
            answer = await self._node.ask(node, _RESTORE, header, [batch for _, batch in checked], deadline)
            return decode_appended(answer)

        return await self._router.call(partition, deadline, call_local, call_remote, only_reads=False)

    async def _serve(self, request: Request) -> Answer:
        """Append the batches that another broker received, at the replica here."""
        match request.header:
            case [bytes(topic_id), int(number)] if len(topic_id) == 16:
                replica = self._finder.replica(intern_uuid(topic_id), number)
            case _:
                raise InvalidArgument(f"request {_RESTORE!r} of node {request.node} cannot be decoded")
        if replica is None:
            raise NotLeader(f"this broker has no replica of partition {number} of the topic {topic_id.hex()}")
        body = b"".join(request.payload)
        checked = validate_restored_batches(body, replica.config.max_message_bytes, CALL_BATCHES_MAX)
        return encode_appended(await _append(replica, checked, request.deadline))


async def _append(
    replica: Replica, checked: Sequence[tuple[BatchHeader, memoryview]], deadline: Deadline
) -> ReplicaAppended:
    """Append at the leader, once all entries that it proposed have offsets. Raises `VersionConflict`."""
    await replica.offsets(False, Deadline(min(deadline, deadline_in(_OWN_TERM_MS))))
    group, loop = replica.group, asyncio.get_running_loop()
    while group.core.last_id.index != group.log.last_index:
        if not replica.is_leader:
            raise NotLeader(f"{replica.name}: this broker does not lead it", group.core.leader)
        if loop.time() >= deadline:
            raise Overloaded(f"{replica.name}: its entries were not written before the deadline; nothing was appended")
        await asyncio.sleep(_LOOK_S)
    first = checked[0][0].base_offset
    if group.log_end_offset != first:
        raise VersionConflict(
            f"{replica.name}: the log ends at offset {group.log_end_offset}, and the batches begin at {first}; nothing "
            "was appended"
        )
    try:
        async with asyncio.timeout_at(deadline):
            return await replica.append([bytearray(batch) for _, batch in checked], ALL)
    except TimeoutError:
        raise DeadlineExceeded(f"{replica.name}: appended, but not committed before the deadline") from None
