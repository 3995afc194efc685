"""Nodes of one test process, on loopback and real directories, and the Raft groups that they share.

Waits are for events: every Raft ready of a node, and every connection, wakes the waiters."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.node import Node, NodeSettings
from raftlog.raft import RaftSettings
from raftlog.records import NewRecord, build_batch, read_records
from raftlog.runtime.config import DriverConfig
from raftlog.runtime.journal.config import JournalConfig
from raftlog.runtime.replica.partition_replica import Committed
from raftlog.runtime.rpc.config import RpcConfig
from raftlog.storage.roll import Roll, RollMember
from raftlog.types import NodeId
from tests.cluster_secret import SECRET

GROUP = uuid.UUID(int=77)
NODES = (1, 2, 3)
WITHIN_S = 20.0
DRIVER = DriverConfig(
    tick_ms=20,
    raft=RaftSettings(quiesce_after_ticks=20),
    large_append_bytes=8192,
    segment_bytes=1 << 16,
    journal=JournalConfig(file_bytes=1 << 18, write_bytes_max=1 << 16, reserve_bytes=1 << 16, checkpoint_bytes=1 << 20),
)
RPC = RpcConfig(reconnect_min_ms=5, reconnect_max_ms=50, close_timeout_ms=200)


def settings_of(directory: Path, number: int, **changes: Any) -> NodeSettings:
    defaults: dict[str, Any] = {
        "data_dir": str(directory / str(number)),
        "node_id": number,
        "host_label": f"host-{number}",
        "cluster_id": "blue",
        "driver": DRIVER,
        "rpc": RPC,
        "secret": SECRET,
        "housekeeping_ms": 20,
        "settle_ms": 0,
        "transfer_retry_ms": 50,
    }
    return NodeSettings(**{**defaults, **changes})


def first_roll(group_id: uuid.UUID, members: Iterable[RollMember]) -> Roll:
    return Roll(group_id, 1, 0, 0, -1, 1_000, 1, tuple(sorted(members)))


class NodeCluster:
    """Nodes by number; stopped nodes keep their directory and their address."""

    def __init__(self, directory: Path, numbers: Iterable[int] = NODES, **changes: Any) -> None:
        self.directory = directory
        self.numbers = tuple(numbers)
        self.changes = changes
        self.nodes: dict[int, Node] = {}
        self.members: dict[int, RollMember] = {}
        self.addresses: dict[NodeId, tuple[str, int]] = {}
        self._moved = asyncio.Event()

    async def start(self, *numbers: int, **changes: Any) -> None:
        """Open and start nodes, all of them by default, and set the addresses of the others in each."""
        for number in numbers or self.numbers:
            at = self.addresses.get(NodeId(number))
            port = {"rpc_port": at[1]} if at else {}
            others = {node: at for node, at in self.addresses.items() if node != number}
            placeholder = {node: ("127.0.0.1", 1) for node in self.numbers if node != number}
            settings = settings_of(
                self.directory, number, peers={**placeholder, **others}, **{**port, **self.changes, **changes}
            )
            node = self.nodes[number] = await Node.open(settings)
            stepped = node.driver.on_step
            node.driver.on_step = lambda group, ready, stepped=stepped: (stepped(group, ready), self._moved.set())  # type: ignore[misc]
            changed = node.transport.on_connection
            node.transport.on_connection = lambda *what, changed=changed: (changed(*what), self._moved.set())  # type: ignore[misc]
            await node.start()
            self.addresses[NodeId(number)] = node.transport.address
            self.members[number] = RollMember(number, node.identity.disk_uuid)
        self.set_peers_of_all()
        await self.wait_until(self.is_connected)

    def is_connected(self) -> bool:
        """Return whether every running node is connected to every other one."""
        return all(
            peer.raft.is_connected and peer.bulk.is_connected
            for node in self.nodes.values()
            for peer in node.transport.peers()
            if peer.node in self.nodes
        )

    def set_peers_of_all(self, disks: Mapping[NodeId, uuid.UUID] | None = None) -> None:
        for number, node in self.nodes.items():
            others = {other: at for other, at in self.addresses.items() if other != number}
            node.set_peers(others, disks or {})

    async def stop(self, *numbers: int) -> None:
        for number in numbers or tuple(self.nodes):
            await self.nodes.pop(number).stop()

    async def wait_until(self, condition: Callable[[], object]) -> None:
        """Wait until the condition is true; check it after every step of a node."""
        async with asyncio.timeout(WITHIN_S):
            while not condition():
                self._moved.clear()
                await self._moved.wait()

    def create(self, group_id: uuid.UUID = GROUP, members: Iterable[int] = NODES) -> Roll:
        roll = first_roll(group_id, [self.members[number] for number in members])
        for number in members:
            self.nodes[number].create_group(roll)
        return roll

    def leader(self, group_id: uuid.UUID = GROUP) -> int:
        """Return the number of the ready leader; 0 for none."""
        for number, node in self.nodes.items():
            known = node.leader_of(group_id)
            if known is not None and known.is_ready:
                return number
        return 0

    async def wait_for_leader(self, group_id: uuid.UUID = GROUP) -> Node:
        """Wait for a ready leader; return its node."""
        await self.wait_until(lambda: self.leader(group_id))
        return self.nodes[self.leader(group_id)]

    async def write(self, *values: bytes, group_id: uuid.UUID = GROUP) -> list[Committed]:
        """Append a record for each value at the leader."""
        leader = await self.wait_for_leader(group_id)
        group = leader.find_replica(group_id)
        assert group is not None
        proposed = [group.propose([build_batch([NewRecord(value, None, 1_000)])]) for value in values]
        async with asyncio.timeout(WITHIN_S):
            return await asyncio.gather(*proposed)

    async def wait_for_convergence(self, group_id: uuid.UUID = GROUP) -> list[bytes]:
        """Wait until all running replicas have applied the same entries; return their values."""
        await self.wait_until(lambda: len({self._end(node, group_id) for node in self.nodes.values()}) == 1)
        found = [values_of(node, group_id) for node in self.nodes.values()]
        assert all(each == found[0] for each in found)
        return found[0]

    @staticmethod
    def _end(node: Node, group_id: uuid.UUID) -> object:
        group = node.find_replica(group_id)
        assert group is not None
        is_settled = group.applied_index == group.log.last_index == group.log.written_index
        return group.applied_index if is_settled else object()


def values_of(node: Node, group_id: uuid.UUID = GROUP) -> list[bytes]:
    group = node.find_replica(group_id)
    assert group is not None
    offset, values = int(group.log_start_offset), []
    while offset < group.high_watermark:
        for batch in group.read(offset, 1 << 22):
            for record in read_records(batch):
                values.append(record.value or b"")
                offset = record.offset + 1
    return values


def soon(seconds: float = WITHIN_S) -> Any:
    """Return a deadline within which a test's request is done."""
    return deadline_in(seconds * 1_000)


@asynccontextmanager
async def run_cluster(directory: Path, numbers: Iterable[int] = NODES, **changes: Any) -> AsyncIterator[NodeCluster]:
    """Start a cluster; at the end stop the nodes that still run."""
    cluster = NodeCluster(directory, numbers, **changes)
    try:
        await cluster.start()
        yield cluster
    finally:
        await cluster.stop()
