"""Three nodes in virtual time, on simulated disks and connections, that share a Raft group."""

import uuid
from collections.abc import Callable, Iterable
from typing import Any

from jepsen.simulation.brokers.machine import DATA_DIR, RPC, RPC_PORT, Machine
from jepsen.simulation.brokers.wires import WiredLoop
from jepsen.simulation.network.links import LinkConditions
from jepsen.simulation.network.network import SimulatedNetwork
from jepsen.simulation.options import generator
from jepsen.simulation.timed_disk import TimedDisk
from raftlog.partitions.node import Node, NodeEnvironment, NodeSettings
from raftlog.raft import RaftSettings, Role
from raftlog.records import build_batch, read_records
from raftlog.runtime.config import DriverConfig
from raftlog.runtime.journal.config import JournalConfig
from raftlog.runtime.replica.partition_replica import Committed, PartitionReplica
from raftlog.storage.roll import Roll, RollMember
from raftlog.types import NodeId

GROUP = uuid.UUID(int=77)
WITHIN_S = 20.0
DRIVER = DriverConfig(
    tick_ms=100,
    raft=RaftSettings(election_ticks_min=8),
    segment_bytes=8192,
    journal=JournalConfig(file_bytes=1 << 16, write_bytes_max=1 << 15, reserve_bytes=1 << 14, checkpoint_bytes=1 << 17),
)

Computer = Machine[Node]


class Rig:
    """Simulated machines by number, and their Raft group."""

    def __init__(self, seed: int = 1, numbers: Iterable[int] = (1, 2, 3)) -> None:
        self.loop = WiredLoop()
        self.network = SimulatedNetwork(self.loop, generator(seed, "network"), LinkConditions())
        self.machines: dict[int, Computer] = {}
        for number in numbers:
            node = self.loop.add_node(f"n{number}")
            self.network.attach(node)
            disk = TimedDisk(generator(seed, "disk", number), self.loop, 1_000_000)
            self.machines[number] = Machine(self.loop, node, NodeId(number), disk, self.program, seed)
        self.loop.wire(self.network, self.loop.nodes)

    async def program(self, machine: Computer, around: NodeEnvironment) -> None:
        """Run a process from start to end."""
        others = {number: (f"n{number}", RPC_PORT) for number in self.machines if number != machine.node_id}
        settings = NodeSettings(
            data_dir=DATA_DIR,
            node_id=machine.node_id,
            host_label=machine.name,
            rpc_host=machine.name,
            rpc_port=RPC_PORT,
            cluster_id="blue",
            peers=others,
            driver=DRIVER,
            rpc=RPC,
            insecure=True,
            peers_save_ms=500,
        )
        node = await Node.open(settings, around)
        await node.start()
        machine.service = node
        failure = await node.ended
        if failure is not None:
            raise failure

    def start(self, *numbers: int) -> None:
        for number in numbers or tuple(self.machines):
            self.machines[number].start()
        self.run_until(
            lambda: all(self.machines[number].service or self.machines[number].end for number in self.machines)
        )

    def node(self, number: int) -> Node:
        node = self.machines[number].service
        assert node is not None, f"node {number} is down"
        return node

    def group(self, number: int) -> PartitionReplica | None:
        node = self.machines[number].service
        return None if node is None else node.find_replica(GROUP)

    def create(self) -> None:
        members = tuple(RollMember(number, self.node(number).identity.disk_uuid) for number in self.machines)
        roll = Roll(GROUP, 1, 0, 0, -1, 1_000, 1, members)
        for machine in self.machines.values():
            machine.call(lambda node: node.create_group(roll))

    def leader(self) -> int:
        """Return the leader that committed an entry of its term; 0 without one."""
        for number in self.machines:
            group = self.group(number)
            if group is not None and group.core.role is Role.LEADER and group.core.has_own_term_commit:
                return number
        return 0

    def run_until(self, condition: Callable[[], object], within_s: float = WITHIN_S) -> None:
        assert self.loop.run_until(lambda: bool(condition()), within_s=within_s), self.loop.trace.timeline(30)

    def write(self, number: int, value: bytes) -> Committed:
        """Append a record at the node and return its committed position."""
        done: list[Any] = []

        def propose(node: Node) -> None:
            group = node.find_replica(GROUP)
            assert group is not None, number
            group.propose([build_batch([value], now_ms=1_000)]).add_done_callback(done.append)

        self.machines[number].call(propose)
        self.run_until(lambda: done)
        committed: Committed = done[0].result()
        return committed

    def values(self, number: int) -> list[bytes]:
        """Return the values of all committed records of a node."""
        group = self.group(number)
        assert group is not None, number
        offset, found = int(group.log_start_offset), []
        while offset < group.high_watermark:
            for batch in group.read(offset, 1 << 20):
                for record in read_records(batch):
                    found.append(record.value or b"")
                    offset = record.offset + 1
        return found

    def refusals(self, number: int) -> str:
        """Return the reported reasons of failed connections of a node."""
        return "; ".join(str(peer.raft.last_error) for peer in self.node(number).transport.peers())

    def close(self) -> None:
        self.loop.close()
