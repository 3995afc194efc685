"""First position of an instance in a partition, and its next position if the present one is not in the log.

    an anchor that still holds → the committed offset → `auto.offset.reset`

Called by instances."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from raftlog.errors import OffsetOutOfRange, RaftlogError
from raftlog.partitions.consumers.instance_host import InstanceHost
from raftlog.partitions.consumers.positions import FetchPositions
from raftlog.partitions.consumers.results import ChosenPosition, MovedPosition
from raftlog.partitions.consumers.stored_instance import NOTHING_COMMITTED, Anchor
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.groups.records import OffsetRecord
from raftlog.partitions.groups.results import StableOffset
from raftlog.types import Offset, TopicPartition

_ASKED_AT_ONCE = 16


class DecidedPositions(NamedTuple):
    """First positions that were determined.

    Without partitions whose leader did not answer, or whose offset a transaction may change; these are retried."""

    anchors: dict[TopicPartition, Anchor]
    """Anchors to store, because the next coordinator could choose other positions without them."""
    refused: list[MovedPosition]
    """Partitions without a committed offset while the reset policy is `none`."""


class InitialPositions:
    """Choice of the first position of one instance in each of its partitions."""

    def __init__(self, host: InstanceHost, group: str, reset: str, positions: FetchPositions) -> None:
        self._host, self._group, self._reset, self._positions = host, group, reset, positions

    async def decide(self, anchors: Mapping[TopicPartition, Anchor], deadline: Deadline) -> DecidedPositions:
        """Set the position of every owned partition that has none. Raises the errors of `Coordinator.committed`."""
        missing = self._positions.missing
        begun = DecidedPositions({}, [])
        if not missing:
            return begun
        committed = await self._host.offsets.stable_offsets(self._group, deadline=deadline)
        undecided = []
        for partition in missing:
            if partition in committed and committed[partition].is_pending:
                continue  # an open transaction may change the offset (KIP-447); the next poll retries
            offset = committed_offset(committed, partition)
            anchor = anchors.get(partition)
            if anchor is not None and anchor.committed == offset:
                self._positions.begin(partition, anchor.offset)
            elif offset != NOTHING_COMMITTED:
                self._positions.begin(partition, offset)
            else:
                undecided.append(partition)
        for some in _split(_ASKED_AT_ONCE, undecided):
            await asyncio.gather(*(self._begin_by_policy(partition, begun, deadline) for partition in some))
        return begun

    async def _begin_by_policy(self, partition: TopicPartition, begun: DecidedPositions, deadline: Deadline) -> None:
        """Set the first position of a partition by the reset policy; do nothing if its leader does not answer."""
        try:
            bounds = await self._host.reader.offsets(*partition, deadline=deadline)
        except RaftlogError:
            return  # the next poll retries, and reports the error
        if self._reset == "none":
            begun.refused.append(MovedPosition(*partition, -1, None, *bounds))
        elif self._reset == "earliest":
            self._positions.begin(partition, bounds.beginning)
        else:
            self._positions.begin(partition, bounds.end)
            begun.anchors[partition] = Anchor(bounds.end, NOTHING_COMMITTED)

    def reset_position(self, partition: TopicPartition, error: OffsetOutOfRange) -> MovedPosition:
        """Replace a position that is not in the log, by the reset policy; return the change."""
        to = {"earliest": error.first, "latest": error.end}.get(self._reset)
        if to is not None:
            self._positions.begin(partition, to)
        return MovedPosition(*partition, error.offset, to, error.first, error.end)

    async def resolve(self, chosen: Sequence[ChosenPosition], deadline: Deadline) -> dict[TopicPartition, Offset]:
        """Return the offsets of the positions that a client chose. Raises the errors of the partitions' leaders."""
        found: dict[TopicPartition, Offset] = {}
        for some in _split(_ASKED_AT_ONCE, chosen):
            offsets = await asyncio.gather(*(self._resolve_one(each, deadline) for each in some))
            found |= {each.partition: offset for each, offset in zip(some, offsets, strict=True)}
        return found

    async def _resolve_one(self, chosen: ChosenPosition, deadline: Deadline) -> Offset:
        """Return the offset of a chosen offset, timestamp or edge; a time after the last record means the end."""
        reader = self._host.reader
        if chosen.offset is not None:
            return Offset(chosen.offset)
        if chosen.timestamp_ms is not None:
            at = await reader.offset_for_timestamp(*chosen.partition, chosen.timestamp_ms, deadline=deadline)
            if at is not None:
                return at[0]
        bounds = await reader.offsets(*chosen.partition, deadline=deadline)
        return bounds.beginning if chosen.edge == "beginning" else bounds.end


def committed_offset(
    committed: Mapping[TopicPartition, OffsetRecord | StableOffset], partition: TopicPartition
) -> Offset:
    """Return the committed offset of a partition, or the constant `NOTHING_COMMITTED`."""
    found = committed.get(partition)
    return NOTHING_COMMITTED if found is None else found.offset


def _split(count: int, items: Sequence) -> list[Sequence]:  # type: ignore[type-arg]
    """Return the items in lists of at most `count`."""
    return [items[first : first + count] for first in range(0, len(items), count)]
