"""Exchange of fitness reports between processes, and their consequences for leaderships.

    a stall, a full disk, an orderly stop → announced to the others → they transfer nothing to it; it transfers its own

A process without file descriptors for its logs counts as stalled as long as that lasts.

A stall is announced at once, and by every `update` while the process counts as slow; so is a full disk. Each peer has
at most one message in flight, and the next one compensates for a lost one. Owned by the node, whose timer calls
`update`."""

import asyncio
import logging
from typing import Any, Protocol

from raftlog.errors import InvalidArgument, RaftlogError
from raftlog.events import event
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.node.environment import NodeTransport
from raftlog.partitions.node.fitness import Fitness
from raftlog.partitions.node.leaders import LedGroups
from raftlog.partitions.node.requests import Request, Requests
from raftlog.partitions.node.settings import NodeSettings
from raftlog.runtime.node_identity import NodeIdentity
from raftlog.runtime.process.driver import Driver
from raftlog.runtime.process.ticker import Stall
from raftlog.runtime.rpc.calls import Answer
from raftlog.types import NodeId

_logger = logging.getLogger(__name__)

LEAVING = "node.leaving"
FITNESS = "node.fitness"
_ANNOUNCE_MS = 200


class FitnessPort(Protocol):
    """Interface of the node that `FitnessExchange` uses."""

    settings: NodeSettings
    loop: asyncio.AbstractEventLoop
    driver: Driver
    leaders: LedGroups
    transport: NodeTransport

    @property
    def identity(self) -> NodeIdentity:
        """Identity of this process and its disk."""
        ...


class FitnessExchange:
    """Fitness of this process, and its announcements to others."""

    def __init__(self, node: FitnessPort, requests: Requests) -> None:
        """Begin to follow stalls and the disk here, and to serve reports of other nodes."""
        self.fitness = Fitness(node.identity.node_id, node.settings.unfit_ms)
        self._node, self._requests, self._loop = node, requests, node.loop
        self._announcements: dict[NodeId, asyncio.Task[None]] = {}
        self._transfer_timer: asyncio.TimerHandle | None = None
        self.stalls = dict.fromkeys(Stall, 0)
        """Stalls of each kind since the start of the process."""
        self._was_fit = True
        self._stalled_until = 0.0
        """Time after which the last stall counts as over."""
        requests.on_request(LEAVING, self._serve_draining)
        requests.on_request(FITNESS, self._serve_fitness)
        node.driver.on_stall, node.driver.room.on_change = self.record_stall, self.on_room_change
        node.driver.descriptors.on_change = self.on_descriptors_change

    # this process

    def update(self, now: float) -> None:
        """Determine the fitness of this process, announce it, and move leaderships; called about every second."""
        if self._node.driver.descriptors.shortage is not None:
            self.fitness.record_stall(now)  # brokers that can open files lead better
        slow_ms, is_full = own = self.fitness.own_report(now)
        is_fit = not slow_ms and not is_full
        self._node.driver.set_unfit(not self.fitness.is_fit(self._node.identity.node_id, now))
        if not is_fit or not self._was_fit:
            for peer in self._node.transport.peers():
                self._announce(peer.node, FITNESS, list(own))
        self._was_fit = is_fit
        self._node.leaders.tick(now)

    def on_room_change(self) -> None:
        """Record and announce that the disk has become full, or has room again."""
        driver = self._node.driver
        room = driver.room
        name = "disk_full" if room.is_full else "disk_has_room"
        event(_logger, name, free_bytes=room.free_bytes, min_free_bytes=room.min_free_bytes)
        self.fitness.record_full(driver.room.is_full)
        self.update(self._loop.time())

    def on_descriptors_change(self) -> None:
        """Log that file descriptors for the logs are exhausted, or available again; announce the fitness."""
        why = self._node.driver.descriptors.shortage
        if why is not None:
            event(_logger, "descriptors_exhausted", why=why)
        else:
            event(_logger, "descriptors_available")
        self.update(self._loop.time())

    def record_stall(self, stall: Stall) -> None:
        """Record and announce a stall of the loop or the disk that the driver has detected; move leaderships away."""
        now = self._loop.time()
        self.stalls[stall] += 1
        if not self.fitness.is_slow(self._node.identity.node_id, now):
            event(_logger, "stalled", what=stall.value)
        self.fitness.record_stall(now)
        if stall is Stall.DISK:
            self._node.leaders.record_disk_stall(now)
        self._stalled_until = now + 2 * self._node.settings.driver.stall_ms / 1000
        self.update(now)
        if self._transfer_timer is None:
            self._transfer_timer = self._loop.call_later(self._node.leaders.transfer_timeout_s, self._end_transfers)

    def _end_transfers(self) -> None:
        """End transfers that were not completed, so that an election follows."""
        self._transfer_timer = None
        self._node.leaders.tick(self._loop.time())

    def _announce(self, node: NodeId, name: str, header: Any) -> None:
        """Send a message to a node in the background, unless one to it is in flight."""
        if node not in self._announcements:
            task = self._loop.create_task(self._send(node, name, header, deadline_in(_ANNOUNCE_MS)), name=name)
            self._announcements[node] = task
            task.add_done_callback(lambda _: self._announcements.pop(node))

    async def _send(self, node: NodeId, name: str, header: Any, deadline: Deadline) -> None:
        """Send a message to a node; log a failure."""
        try:
            await self._requests.ask(node, name, header, (), deadline)
        except RaftlogError as error:
            _logger.info("node %s did not receive %s: %s", node, name, error)

    async def announce_stop(self) -> None:
        """Announce that this process stops, so that other processes transfer nothing to it."""
        deadline = deadline_in(_ANNOUNCE_MS)
        await asyncio.gather(*(self._send(peer.node, LEAVING, None, deadline) for peer in self._node.transport.peers()))

    def problems(self) -> list[str]:
        """Return the present problems of this process as text; a stall that is over is not among them."""
        room = self._node.driver.room
        problems = [f"the disk has no room for records: {room.describe}"] if room.is_low else []
        if (shortage := self._node.driver.descriptors.shortage) is not None:
            problems.append(shortage)
        if self._loop.time() < self._stalled_until:
            problems.append("its disk or its loop is stalled; it leads nothing while others can")
        return problems

    def stop(self) -> None:
        """Cancel the pending transfers and announcements."""
        if self._transfer_timer is not None:
            self._transfer_timer.cancel()
        for task in self._announcements.values():
            task.cancel()

    # other processes

    async def _serve_draining(self, request: Request) -> Answer:
        """Record that another process is about to stop."""
        self._node.leaders.mark_draining(request.node)
        return Answer()

    async def _serve_fitness(self, request: Request) -> Answer:
        """Record the report of another process."""
        match request.header:
            case [int(slow_ms), bool(is_full)]:
                now = self._loop.time()
                self.fitness.record_report(request.node, slow_ms, is_full, now)
                self._node.leaders.count_room(now)
            case _:
                raise InvalidArgument(f"request {FITNESS!r} cannot be decoded")
        return Answer()
