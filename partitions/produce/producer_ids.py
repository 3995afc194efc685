"""Producer ids of this broker, allocated by the controller in blocks (KIP-730). Each id is handed out at most once.

    next id ≤ end of the block          the rest of a block is lost when the process stops

Called by the broker."""

import asyncio
from typing import Final, NamedTuple

from raftlog.errors import IdentityRefused, Unavailable, UnknownBroker
from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.controller.machine import AllocateProducerIds
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.node import Node

_BLOCK: Final = 1_000
_LOOK_S: Final = 0.05


class ProducerId(NamedTuple):
    """Identity that an idempotent producer writes into its batches."""

    producer_id: int
    producer_epoch: int


class Producers:
    """Source of new producer ids, taken from the controller in blocks; one instance per process."""

    def __init__(self, node: Node, metadata: ControllerHost) -> None:
        """Begin without producer ids; a block is requested with the first one."""
        self._node, self._metadata = node, metadata
        self._next = self._end = 0
        self._asked = self._block = 0
        """Number of blocks requested so far; `_block` is the number of the present one."""
        self._lock = asyncio.Lock()

    async def allocate(self, deadline: Deadline, *, is_fresh: bool = False) -> ProducerId:
        """Return a new id, with epoch 0.

        `is_fresh`: greater than all that were handed out before the call, so that no partition has expired it. A broker
        that was just started waits until the controller has registered the start. Raises `Unavailable`, and
        `DeadlineExceeded` when the controller did not answer (then at most a block is lost)."""
        asked = self._asked
        while not self._metadata.is_ready and self._node.loop.time() < deadline and self._node.is_working:
            await self._node.pause(Deadline(min(deadline, self._node.loop.time() + _LOOK_S)))
        try:
            async with asyncio.timeout_at(deadline), self._lock:
                if self._next == self._end or (is_fresh and self._block <= asked):
                    await self._take_block(deadline)
                self._next += 1
                return ProducerId(self._next - 1, 0)
        except TimeoutError:
            raise Unavailable(
                "the controller allocated no producer ids before the deadline; retry, or use another broker"
            ) from None

    async def _take_block(self, deadline: Deadline) -> None:
        """Request the next block of producer ids from the controller. Raises `Unavailable`."""
        me = self._node.identity
        self._asked += 1
        command = AllocateProducerIds(me.node_id, me.disk_uuid, me.boot_epoch, _BLOCK)
        try:
            first = await self._metadata.submit(command, deadline)
        except (IdentityRefused, UnknownBroker) as error:  # the controller has another start of this broker
            raise Unavailable(
                f"this broker cannot get producer ids now: {error}; retry, or use another broker"
            ) from None
        self._next, self._end, self._block = first, first + _BLOCK, self._asked
