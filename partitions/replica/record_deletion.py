"""Deletion of records by request: a committed trim to a committed offset.

The state of producers stays: until the log has a snapshot of it after the newest roll, nothing below that roll's
segment can be removed as a whole. Called by the routing, at the leader."""

import asyncio
from typing import Final

from raftlog.errors import DeadlineExceeded, OffsetOutOfRange, Unavailable
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.replica.producer_state import ProducerState
from raftlog.runtime.log.leftovers import has_roll_at
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.types import Offset

_LOOK_S: Final = 0.01


class RecordDeletion:
    """Deletion of records at the request of clients, in one replica."""

    def __init__(self, name: str, group: PartitionReplica, producers: ProducerState) -> None:
        self._name, self._group, self._producers = name, group, producers

    async def delete_before(self, offset: int, deadline: Deadline) -> Offset:
        """Delete the records below `offset`; return the log start offset, which may be higher already.

        Raises `OffsetOutOfRange` above the last stable offset, `DeadlineExceeded`, and the errors of a proposal. A
        retry is safe."""
        group = self._group
        if offset > group.high_watermark:
            raise OffsetOutOfRange(offset, group.committed_start_offset, group.high_watermark)
        try:
            async with asyncio.timeout_at(deadline):
                await self._check_transactions(offset)
                while group.log_start_offset < offset:
                    await self._trim_or_wait(offset)
        except TimeoutError:
            raise DeadlineExceeded(
                f"{self._name}: the deadline passed before the records below {offset} were deleted; retry"
            ) from None
        return group.committed_start_offset

    async def _check_transactions(self, offset: int) -> None:
        """Raise `OffsetOutOfRange` above the first batch of an open transaction, once the producers' state is read.

        If their state is lost for good, every offset is allowed."""
        producers = self._producers
        while not producers.is_loaded and producers.problem is None:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_S)
        first_open = producers.table.transactions.first_open_offset
        if producers.problem is None and first_open is not None and offset > first_open:
            raise OffsetOutOfRange(offset, self._group.committed_start_offset, Offset(first_open))

    async def _trim_or_wait(self, offset: int) -> None:
        """Trim the log, or begin a new segment, if that is possible now; else wait a short time for it."""
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
        """Begin a new segment, since a log keeps its last record unless another segment begins after it.

        Without room for one, trim the closed segments first."""
        group = self._group
        try:
            await group.roll_now()
        except Unavailable:
            closed_to = group.log.segments.active.base_offset
            if group.log_start_offset >= closed_to or not self._may_trim(closed_to):
                raise
            await group.propose_trim(closed_to, self._producers.snapshot_index)

    def _may_trim(self, offset: int) -> bool:
        """Return whether a trim to `offset` removes no state of producers."""
        return self._producers.is_covered or offset < self._group.log.segments.active.base_offset
