"""Environment of a node: disk, transport, randomness and wall clock, real or simulated.

The simulator passes its own; `real_environment` makes those of a process. Nothing else in this package reaches the
operating system."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from raftlog.errors import InvalidArgument
from raftlog.events import event
from raftlog.membership.wire import UdpWire, Wire
from raftlog.partitions.addresses import Address
from raftlog.partitions.node.settings import NodeSettings
from raftlog.runtime.memory_budget import MemoryBudget
from raftlog.runtime.rpc.authentication import credentials_of
from raftlog.runtime.rpc.calls import Answer, Call
from raftlog.runtime.rpc.handshake import Channel, HandshakeRefusal, PeerIdentity
from raftlog.runtime.rpc.memory import PeerMemory
from raftlog.runtime.rpc.tcp_transport import PeerStatus, TcpTransport
from raftlog.runtime.rpc.traffic import TrafficTotals
from raftlog.runtime.transport import Envelope, ProcessHeartbeat, Transport
from raftlog.storage.disk import Disk
from raftlog.storage.real_disk import RealDisk
from raftlog.storage.syncs.aio_syncs import AioRefused, AioSyncs
from raftlog.storage.syncs.sync_choice import SyncChoice
from raftlog.storage.syncs.sync_threads import SyncThreads
from raftlog.types import NodeId

_logger = logging.getLogger(__name__)


class NodeTransport(Transport, Protocol):
    """Interface of the transport that a node uses; `TcpTransport` documents the attributes."""

    on_envelopes: Callable[[NodeId, Sequence[Envelope]], None]
    on_heartbeat: Callable[[NodeId, ProcessHeartbeat], None]
    on_connection: Callable[[NodeId, Channel, bool], None]
    serve: Callable[[NodeId, object], Awaitable[object]]
    serve_probe: Callable[[PeerIdentity, object], Awaitable[object]]
    on_refused: Callable[[HandshakeRefusal], None]
    address: Address | None

    @property
    def messages_from_outsiders(self) -> int: ...

    def outsiders(self) -> list[PeerIdentity]:
        """Return the authenticated processes on the Raft channel that are no known members of the cluster."""
        ...

    @property
    def memory(self) -> PeerMemory: ...

    @property
    def receive_budget(self) -> MemoryBudget: ...

    @property
    def protocol_errors(self) -> int: ...

    async def start(self, host: str, port: int | None) -> None:
        """Listen, and begin to connect to other nodes. Port 0: any free port; None: do not listen."""
        ...

    def set_addresses(self, addresses: Mapping[NodeId, Address]) -> None:
        """Set all other nodes and their addresses; close connections to nodes that are not in `addresses`."""
        ...

    def drop_outsiders(self) -> None:
        """Close the connections with processes whose disk is retired, or not the one assigned to their node id.

        `PeerMemory.is_allowed` decides."""
        ...

    def limit_bulk(self, bytes_per_s: int | None) -> None:
        """Set the total rate of all bulk connections; None restores the rate in the settings."""
        ...

    async def call(self, node: NodeId, call: Call) -> Answer:
        """Send a request to a node, and return its answer."""
        ...

    async def probe(self, address: Address, call: Call) -> tuple[PeerIdentity, Answer]:
        """Send a request over a new connection; return the identity of the process at `address`, and its answer."""
        ...

    def peers(self) -> list[PeerStatus]:
        """Return the state of the links to all nodes with an address, by node id."""
        ...

    def traffic(self) -> TrafficTotals:
        """Return the counts of messages and bytes since the start."""
        ...

    async def close(self) -> None:
        """Close all connections, after waiting messages were written or a timeout."""
        ...


async def _close_nothing(_: bool) -> None:
    """Do nothing; default of callbacks."""


@dataclass(frozen=True, slots=True)
class NodeEnvironment:
    """Clock, disk, network and random generator that a node uses.

    `random` must differ from start to start: new disks and the starts of a process get their ids from it."""

    disk: Disk
    make_transport: Callable[[Callable[[], PeerIdentity]], NodeTransport]
    random: Random
    wall_ms: Callable[[], int]
    close: Callable[[bool], Awaitable[None]] = _close_nothing
    """Called at the end; the argument is whether to wait for submitted syncs."""
    make_wire: Callable[[], Wire] = UdpWire
    """Function that makes the datagram wire of gossip, for nodes that use gossip."""


def real_environment(settings: NodeSettings) -> NodeEnvironment:
    """Return the environment of a real process; call it on the running loop."""
    loop = asyncio.get_running_loop()
    threads = SyncThreads(settings.sync_threads)
    aio = _aio_syncs(settings.sync_method)
    disk = RealDisk(
        threads.run,
        loop.call_soon_threadsafe,
        settings.open_files_max,
        waits_for_descriptors=True,
        aio=aio,
        choice=SyncChoice() if settings.sync_method == "auto" else None,
    )
    random = Random()  # noqa: S311 - election timeouts and names; seeded by the operating system

    def make_transport(identity: Callable[[], PeerIdentity]) -> NodeTransport:
        """Return the TCP transport of the settings."""
        return TcpTransport(
            identity,
            random,
            settings.rpc,
            credentials=credentials_of(settings.secret),
            tls=settings.tls,
            insecure=settings.insecure,
        )

    async def close(waits: bool) -> None:
        """Stop the threads for syncs; with `waits`, after the submitted syncs."""
        threads.close(waits=False)
        if waits:
            await threads.wait_closed()
        if aio is not None:
            await aio.close(waits)

    return NodeEnvironment(disk, make_transport, random, lambda: time.time_ns() // 1_000_000, close)


def _aio_syncs(method: str) -> AioSyncs | None:
    """Return the AIO context of the running loop; None if threads make the syncs."""
    if method == "threads":
        return None
    try:
        return AioSyncs(asyncio.get_running_loop())
    except AioRefused as refused:
        if method == "aio":
            raise InvalidArgument(
                f"sync_method=aio: the kernel refuses Linux AIO: {refused}. Use auto or threads, or allow io_setup and "
                "raise /proc/sys/fs/aio-max-nr"
            ) from None
        event(_logger, "aio_refused", why=str(refused))
        return None
