"""Lag of groups, and targets of an operator's reset: committed offsets compared with the bounds of the logs.

A bounded number of partitions is read at a time; one without a leader is reported as −1 and does not delay the
others. Called by the service."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from raftlog.errors import InvalidArgument, Unavailable, UnknownPartition, UnknownTopic
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.groups.records import OffsetRecord
from raftlog.partitions.groups.results import (
    LagReport,
    MemberDescription,
    ResetTo,
)
from raftlog.partitions.routing.finder import Finder
from raftlog.partitions.routing.partition import Partition
from raftlog.partitions.routing.reads import Reader
from raftlog.types import Offset, OffsetRange, TopicPartition
from raftlog.values.groups import OffsetReset

_AT_ONCE: Final = 64
_T = TypeVar("_T")
_UNKNOWN: Final = OffsetRange(Offset(-1), Offset(-1))


class GroupLagReader:
    """Reader of the lags of groups, and of the target offsets of resets."""

    def __init__(self, finder: Finder, reader: Reader) -> None:
        self._finder, self._reader = finder, reader

    async def lag(
        self,
        committed: Mapping[TopicPartition, OffsetRecord],
        members: Iterable[MemberDescription],
        deadline: Deadline,
    ) -> list[LagReport]:
        """Return the lag in every existing partition that has a committed offset or an owner, sorted."""
        owners = {
            TopicPartition(topic, number): member
            for member in members
            for topic, numbers in member.assignment.items()
            for number in numbers
        }
        places = sorted(committed.keys() | owners.keys())
        ranges = await _for_each(places, lambda place: self._bounds(place, deadline))
        return [
            _lag(place, committed.get(place), bounds, owners.get(place))
            for place, bounds in zip(places, ranges, strict=True)
            if bounds is not None
        ]

    async def _bounds(self, place: TopicPartition, deadline: Deadline) -> OffsetRange | None:
        """Return the first and end offset of a partition's log; None if the partition does not exist.

        A member may own a partition that was deleted after it was assigned."""
        try:
            return await self._reader.offsets(await self._partition(place, deadline), False, deadline)
        except (UnknownTopic, UnknownPartition):
            return None
        except Unavailable:
            return _UNKNOWN

    async def _partition(self, place: TopicPartition, deadline: Deadline) -> Partition:
        """Return a partition by its topic's name and its number. Raises `UnknownTopic`."""
        return (await self._finder.topic(place.topic, deadline)).partition(place.partition)

    async def targets(
        self, before: Mapping[TopicPartition, int], to: ResetTo, deadline: Deadline
    ) -> dict[TopicPartition, tuple[Offset, bool]]:
        """Return the target offset of each partition, and whether it was clamped to the bounds of the log.

        `before` has the committed offsets, −1 without one. Raises `UnknownTopic`, `UnknownPartition`, `Unavailable` and
        `InvalidArgument`."""
        places = sorted(before)
        found = await _for_each(places, lambda place: self._target(place, before[place], to, deadline))
        return dict(zip(places, found, strict=True))

    async def _target(self, place: TopicPartition, before: int, to: ResetTo, deadline: Deadline) -> tuple[Offset, bool]:
        """Return the requested offset, limited to the partition's bounds, and whether it was limited."""
        partition = await self._partition(place, deadline)
        bounds = await self._reader.offsets(partition, True, deadline)
        match to:
            case ResetTo(edge="earliest", timestamp_ms=None, shift=None, offset=None):
                wanted: int = bounds.beginning
            case ResetTo(edge="latest", timestamp_ms=None, shift=None, offset=None):
                wanted = bounds.end
            case ResetTo(edge=None, timestamp_ms=int(timestamp_ms), shift=None, offset=None):
                at = await self._reader.offset_for_timestamp(partition, timestamp_ms, deadline)
                wanted = bounds.end if at is None else at[0]
            case ResetTo(edge=None, timestamp_ms=None, shift=int(shift), offset=None):
                if before < 0:
                    raise InvalidArgument(
                        f"a shift needs a committed offset, and {place.topic}/{place.partition} has none: name one"
                    )
                wanted = before + shift
            case ResetTo(edge=None, timestamp_ms=None, shift=None, offset=int(offset)):
                wanted = offset
            case _:
                raise InvalidArgument("a reset goes to earliest, latest, a timestamp, by a shift, or to an offset")
        after = Offset(min(max(wanted, bounds.beginning), bounds.end))
        return after, after != wanted


def describe_resets(
    before: Mapping[TopicPartition, int], targets: Mapping[TopicPartition, tuple[Offset, bool]]
) -> list[OffsetReset]:
    """Return the offset of each partition before and after a reset, sorted by partition."""
    return [
        OffsetReset(place.topic, place.partition, _offset_or_none(before.get(place, -1)), after, clamped)
        for place, (after, clamped) in sorted(targets.items())
    ]


def _offset_or_none(offset: int) -> Offset | None:
    """Return the offset; None if it is negative, which means none."""
    return None if offset < 0 else Offset(offset)


def _lag(
    place: TopicPartition, committed: OffsetRecord | None, bounds: OffsetRange, member: MemberDescription | None
) -> LagReport:
    """Return the report of a partition; offsets and lag are −1 if they are unknown."""
    beginning, end = bounds
    current = -1 if committed is None else int(committed.offset)
    lag = -1 if end < 0 else max(0, end - max(current, beginning))
    return LagReport(place.topic, place.partition, current, int(beginning), int(end), lag, member)


async def _for_each(places: Sequence[TopicPartition], read: Callable[[TopicPartition], Awaitable[_T]]) -> list[_T]:
    """Return the result of `read` for each partition, in order; at most `_AT_ONCE` run at once."""
    found: list[_T] = []
    for first in range(0, len(places), _AT_ONCE):
        found += await asyncio.gather(*(read(place) for place in places[first : first + _AT_ONCE]))
    return found
