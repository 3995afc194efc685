"""One attempt of a poll: fetches records and advances the positions of a locked instance.

Positions advance only when the whole answer is ready; after an error none advances. With the reset
policy `none` a position that is not in the log is such an error, and so is a batch that cannot be decoded: the
client has to choose the next position. Other partitions that cannot be read do not block the rest; only when there
is nothing else do they cause an error. Called by instances."""

import asyncio
from collections.abc import Callable
from typing import Final

from raftlog.errors import OffsetOutOfRange, RaftlogError, UndecodableBatch
from raftlog.partitions.consumers.initial_positions import InitialPositions
from raftlog.partitions.consumers.instance_host import InstanceHost
from raftlog.partitions.consumers.poll import Poll, Polled, PollLimits
from raftlog.partitions.consumers.positions import FetchPositions
from raftlog.partitions.consumers.results import PollDelivery, RecordPiece
from raftlog.partitions.consumers.settings import InstanceSettings
from raftlog.partitions.deadline import Deadline

MAX_BYTES_MAX: Final = 64 * 1024 * 1024
"""Limit of key and value bytes in one answer, whatever the request asks for."""


class Deliveries:
    """Execution of the polls of one instance: fetches records and prepares the answer."""

    def __init__(
        self,
        host: InstanceHost,
        settings: InstanceSettings,
        positions: FetchPositions,
        initial_positions: InitialPositions,
    ) -> None:
        """Prepare the polls of an instance; `initial_positions` finds positions of partitions without one."""
        self._host, self._settings, self._positions, self._initial_positions = (
            host,
            settings,
            positions,
            initial_positions,
        )

    @property
    def empty_answer(self) -> PollDelivery:
        """Answer without records."""
        return PollDelivery(self._settings.format)

    async def attempt(
        self, until: Deadline, max_bytes: int, interrupted: asyncio.Event, is_wanted: Callable[[], bool]
    ) -> PollDelivery:
        """Fetch until records are available, the deadline passes or `interrupted` is set; return the records.

        Returns no records if `is_wanted` returns False by then, because a newer poll has replaced this one."""
        bounds = self._host.bounds
        limits = PollLimits(
            self._settings.fetch_min_bytes,
            max(1, min(max_bytes, MAX_BYTES_MAX)),
            bounds.stored_bytes_max,
            bounds.opener,
        )
        fetch_order = list(self._positions.fetch_order())
        polled = await Poll(self._host.reader, limits, until, interrupted).run(fetch_order)
        for partition in polled.failed:
            self._positions.move_to_end(partition)
        if not is_wanted():
            return self.empty_answer
        moved = [
            self._initial_positions.reset_position(partition, error)
            for partition, error in polled.failed.items()
            if isinstance(error, OffsetOutOfRange)
        ]
        if any(each.to is None for each in moved):
            return PollDelivery(self._settings.format, (), moved)
        _raise_blocking_error(polled, len(fetch_order))
        pieces = []
        for partition, taken in polled.taken:
            self._positions.deliver(partition, taken.end, taken.leader_epoch)
            if taken.records:
                pieces.append(RecordPiece(*partition, taken.offset, taken.end, taken.batches))
        return PollDelivery(self._settings.format, pieces, moved)


def _raise_blocking_error(polled: Polled, partition_count: int) -> None:
    """Raise the error that ends the poll: an undecodable batch, or any error if no partition could be read.

    `partition_count`: number of partitions to read."""
    others = [error for error in polled.failed.values() if not isinstance(error, OffsetOutOfRange)]
    stopping: list[RaftlogError] = [error for error in others if isinstance(error, UndecodableBatch)]
    if not stopping and partition_count == len(others):
        stopping = others
    if stopping:
        raise stopping[0]
