"""Snapshots at the controller's leader, which keep its log short: a roll, the state, and a trim to that roll.

    roll committed → state written as `snapshot` entries after it, all committed → trim committed

A leader that is deposed or crashes in the middle leaves an incomplete run, which readers skip; the next leader
begins anew, after a roll of its own. The trim comes only after the run has committed, so at every moment the
remaining log gives the state. Called by the host's timer while this process leads."""

import asyncio
import logging
from typing import Final

from raftlog.errors import Unavailable
from raftlog.partitions.controller.local_copy import LocalCopy
from raftlog.partitions.controller.machine import snapshot_payloads
from raftlog.partitions.deadline import Deadline
from raftlog.records import ControlKind
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.types import Index, Offset

_logger = logging.getLogger(__name__)
_PROPOSED_BYTES: Final = 1024 * 1024
"""Size of the pieces proposed together; the next ones follow once they are committed."""


def log_bytes(group: PartitionReplica) -> int:
    """Return the size of the log's files."""
    return sum(segment.end_position for segment in group.log.segments.segments)


def is_due(group: PartitionReplica, copy: LocalCopy, snapshot_log_bytes: int) -> bool:
    """Return whether the log has grown enough since its last snapshot."""
    grown = log_bytes(group) - copy.snapshot_bytes
    return copy.is_up_to_date and grown > max(snapshot_log_bytes, copy.snapshot_bytes)


async def write_snapshot(group: PartitionReplica, copy: LocalCopy, deadline: Deadline) -> None:
    """Write a snapshot and trim the log to it. Raises `RaftlogError` if it was abandoned, which loses no data."""
    roll_index, base_offset = await _ensure_roll(group)
    if not await copy.wait_for_index(roll_index, deadline):
        raise Unavailable("the roll for a snapshot of the controller's state was not applied in time")
    waiting: list[tuple[ControlKind, bytes]] = []
    size = total = 0
    for payload in snapshot_payloads(copy.state, roll_index):
        waiting.append((ControlKind.SNAPSHOT, payload))
        size += len(payload)
        total += len(payload)
        await asyncio.sleep(0)
        if size >= _PROPOSED_BYTES:
            await group.propose_control(waiting)
            waiting, size = [], 0
    if waiting:
        await group.propose_control(waiting)
    await group.propose_trim(base_offset, roll_index)
    _logger.info("a snapshot of the controller's state, %d bytes, follows entry %d", total, roll_index)


async def _ensure_roll(group: PartitionReplica) -> tuple[Index, Offset]:
    """Return index and offset of a committed roll that begins the newest segment and has no records after it.

    Begins a new segment where the newest one has records. Raises like `PartitionReplica.roll_now`."""
    active = group.log.segments.active
    if group.log.next_offset == active.base_offset and 1 < active.base_index <= group.applied_index:
        return Index(active.base_index), Offset(active.base_offset)
    rolled = await group.roll_now()
    return rolled.first_index, rolled.base_offset
