"""Records that are deleted because somebody says so: a committed trim to any offset that is committed.

What is known of producers stays: as long as it does not stand behind the newest roll, nothing below that roll's segment
can go whole. Called by the routing, at the leader.
"""

import asyncio
from typing import Final

from raftlog.errors import DeadlineExceeded, OffsetOutOfRange, Unavailable
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.replica.producer_state import ProducerState
from raftlog.runtime.log.leftovers import has_roll_at
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.types import Offset

_LOOK_S: Final = 0.01


class Deleting:
    """Of one replica."""

    def __init__(self, name: str, group: PartitionReplica, producers: ProducerState) -> None:
        self._name, self._group, self._producers = name, group, producers

    async def delete_before(self, offset: int, deadline: Deadline) -> Offset:
        """Where the log begins once the records below `offset` are gone: there, or behind it if it began there before.

        Raises `OffsetOutOfRange` above the high watermark, `DeadlineExceeded`, and what a proposal raises. Asking again
        is safe.
        """
        group = self._group
        if offset > group.high_watermark:
            raise OffsetOutOfRange(offset, group.committed_start_offset, group.high_watermark)
        try:
            async with asyncio.timeout_at(deadline):
                while group.log_start_offset < offset:
                    await self._step(offset)
        except TimeoutError:
            raise DeadlineExceeded(
                f"{self._name}: the deadline passed before the records below {offset} were gone; ask again"
            ) from None
        return group.committed_start_offset

    async def _step(self, offset: int) -> None:
        """Come nearer to it; what is waited for has no event, and takes some turns of the loop."""
        group = self._group
        has_roll = has_roll_at(group.log.segments, offset, group.applied_index)
        if self._may_trim(offset) and (offset < group.high_watermark or has_roll):
            await group.propose_trim(offset, self._producers.snapshot_index)
            while group.log_start_offset < offset:  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_S)
            return
        if offset == group.log_end_offset and not has_roll and self._producers.may_roll():
            await self._roll()
            return
        await asyncio.sleep(_LOOK_S)

    async def _roll(self) -> None:
        """A log keeps its last record unless another segment begins behind it. Where there is no room for that, closed
        segments go first."""
        group = self._group
        try:
            await group.roll_now()
        except Unavailable:
            closed_to = group.log.segments.active.base_offset
            if group.log_start_offset >= closed_to or not self._may_trim(closed_to):
                raise
            await group.propose_trim(closed_to, self._producers.snapshot_index)

    def _may_trim(self, offset: int) -> bool:
        """Whether nothing of what is known of producers goes with it."""
        return self._producers.is_covered or offset < self._group.log.segments.active.base_offset
