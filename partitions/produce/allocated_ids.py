"""Check that the controller allocated a producer id, at the broker that receives a produce request.

    allocated ids < `next_producer_id` of the controller ≤ computed ids (of the sink on Spark, over HTTP)

An id in the local copy of the controller's state is accepted at once. The copy may lack an id that another broker has
just handed out, so an unknown id is refused only after a read of the controller (ReadIndex) that began after the
request arrived; concurrent requests share one read. Called by `Partition` for each request of an idempotent
producer."""

import asyncio
from collections.abc import Collection
from typing import Final

from raftlog.errors import RaftlogError, Unavailable, UnknownProducer
from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.records import COMPUTED_PRODUCER_IDS

_READ_MS: Final = 3_000
"""Time limit of one read of the controller, in ms."""


class AllocatedIds:
    """Check that producer ids were allocated by the controller; one instance per process."""

    def __init__(self, metadata: ControllerHost) -> None:
        self._metadata = metadata
        self._running: asyncio.Task[None] | None = None
        self._queued: asyncio.Task[None] | None = None
        """Read that has not begun, and is therefore new enough for every request that has arrived."""

    async def check(self, name: str, producer_ids: Collection[int], deadline: Deadline) -> None:
        """Raise `UnknownProducer` for an id that was never allocated; `name` is the partition's.

        Raises `Unavailable` when the controller does not answer before the deadline."""
        if self._find_unknown(producer_ids) is None:
            return
        await self._read_controller(name, deadline)
        unknown = self._find_unknown(producer_ids)
        if unknown is not None:
            raise UnknownProducer(
                f"{name}: producer id {unknown} was never given out by this cluster; nothing was appended; get an "
                "id from POST /producers"
            )

    def are_allocated(self, producer_ids: Collection[int]) -> bool:
        """Return whether all of these ids were allocated, as known here."""
        following = self._metadata.state.next_producer_id
        return max(producer_ids, default=0) < following or self._find_unknown(producer_ids) is None

    def _find_unknown(self, producer_ids: Collection[int]) -> int | None:
        """Return the first producer id that is not allocated, as far as this broker knows; None if all are."""
        following = self._metadata.state.next_producer_id
        return next((each for each in producer_ids if following <= each < COMPUTED_PRODUCER_IDS), None)

    async def _read_controller(self, name: str, deadline: Deadline) -> None:
        """Wait until a read of the controller that begins now has ended. Raises `Unavailable` at the deadline."""
        if self._queued is None:
            self._queued = asyncio.get_running_loop().create_task(self._run_read(self._running), name="producer ids")
            self._queued.add_done_callback(_retrieve)
        read = self._queued
        left_s = max(0.0, deadline - asyncio.get_running_loop().time())
        await asyncio.wait([read], timeout=left_s)
        error = read.exception() if read.done() else None
        if read.done() and error is None:
            return
        if error is not None and not isinstance(error, RaftlogError):
            raise error
        why = "" if error is None else f" ({error})"
        raise Unavailable(
            f"{name}: the producer id is not known here yet, and the controller did not confirm it before the "
            f"deadline{why}; nothing was appended; retry"
        )

    async def _run_read(self, earlier: "asyncio.Task[None] | None") -> None:
        """Update the local copy from the controller, after the earlier read has ended."""
        if earlier is not None:
            await asyncio.wait([earlier])
        self._running, self._queued = self._queued, None
        await self._metadata.barrier(deadline_in(_READ_MS))


def _retrieve(read: "asyncio.Task[None]") -> None:
    """Retrieve the error of a read for which no request waits any more, so that asyncio does not log it."""
    if not read.cancelled():
        read.exception()


def computed_id_error(name: str, producer_id: int) -> UnknownProducer:
    """Return the error for a producer id that only the Spark sink may use: a client could use up its sequences."""
    return UnknownProducer(
        f"{name}: producer id {producer_id} was never given out by this cluster; nothing was appended; get an id with "
        "InitProducerId"
    )
