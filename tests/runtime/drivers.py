"""Drivers of several processes in virtual time: real drivers on simulated disks and a simulated network.

One group on all of them. `World.run` lets time go by, `crash` kills a process and keeps its disk, `start` brings it
back. Bulk requests between processes arrive after a fixed delay, or fail when the other one is down.
"""

import asyncio
import uuid
from collections.abc import Callable, Sequence
from random import Random

from jepsen.simulation import Node, Process, SimulatedNetwork, VirtualLoop
from jepsen.simulation.disk.simulated_disk import PendingSync, SimulatedDisk
from raftlog.raft import RaftSettings, ReplicaId, Role
from raftlog.records import NewRecord, build_batch, read_records
from raftlog.runtime.config import DriverConfig
from raftlog.runtime.journal.config import JournalConfig
from raftlog.runtime.process.driver import Driver
from raftlog.runtime.replica.partition_replica import Committed, PartitionReplica
from raftlog.runtime.transport import Envelope, ProcessHeartbeat, Transport
from raftlog.storage.disk import File, SyncDone
from raftlog.storage.roll import Roll, RollMember
from raftlog.types import NodeId

GROUP = uuid.UUID(int=77)
SYNC_NS = 300_000
SMALL = DriverConfig(
    segment_bytes=8192,
    large_append_bytes=4096,
    checkpoint_interval_ms=2000,
    recent_bytes_max=4096,
    transfer_chunk_bytes=4096,
    transfer_timeout_ms=500,
    raft=RaftSettings(),
    journal=JournalConfig(file_bytes=1 << 18, write_bytes_max=1 << 16, reserve_bytes=1 << 16, checkpoint_bytes=1 << 20),
)


def any_path(_: str) -> bool:
    return True


def no_path(_: str) -> bool:
    return False


def is_of_journal(path: str) -> bool:
    return "/journal" in path


def is_of_segments(path: str) -> bool:
    return "/journal" not in path


class TimedDisk(SimulatedDisk):
    """Disk whose syncs return after a delay, in the process that submitted them."""

    def __init__(self, world: "World", node: Node) -> None:
        super().__init__(Random(node.number))
        self._world, self._node = world, node
        self._is_held: Callable[[str], bool] = no_path
        self._held: list[PendingSync] = []

    def leave_free(self, size_bytes: int) -> None:
        """Set the capacity so that `size_bytes` bytes are free."""
        self.capacity_bytes = 1 << 40
        self.capacity_bytes -= self.free_bytes("/data") - size_bytes

    def submit_sync(self, files: Sequence[File], directories: Sequence[str], done: SyncDone) -> None:
        super().submit_sync(files, directories, done)
        if any(map(self._is_held, (*(file.path for file in files), *directories))):
            self._held.append(self.newest_sync)
        else:
            self._complete_later(self.newest_sync)

    def _complete_later(self, sync: PendingSync) -> None:
        process = self._node.running_process()
        self._world.loop.call_at_ns(
            self._world.loop.now_ns + SYNC_NS,
            lambda: process.call_soon(self.complete, sync) if process.is_alive else None,
        )

    def hold(self, is_held: Callable[[str], bool]) -> None:
        """Hold syncs of such paths until `release`; others return as usual."""
        self._is_held = is_held

    def release(self) -> None:
        """Complete the held syncs that no crash ended, and hold no more."""
        held, self._held, self._is_held = self._held, [], no_path
        for sync in held:
            if sync in self._pending:
                self._complete_later(sync)


class SimulatedWire(Transport):
    """Transport of one process over the simulated network."""

    def __init__(self, world: "World", process: Process) -> None:
        self._world, self._process = world, process

    def send(self, node: NodeId, envelopes: Sequence[Envelope]) -> None:
        message = [copy_payloads(envelope) for envelope in envelopes]
        self._world.network.send(self._process, self._world.nodes[node - 1], "raft", message, 100)

    def send_heartbeat(self, node: NodeId, heartbeat: ProcessHeartbeat) -> None:
        self._world.network.send(self._process, self._world.nodes[node - 1], "heartbeat", heartbeat, 10)

    async def request(self, node: NodeId, request: object) -> object:
        await asyncio.sleep(0.001)
        driver = self._world.drivers.get(node)
        if driver is None or node in self._world.unreachable:
            raise ConnectionError(f"node {node} is down")
        return await driver.serve(NodeId(self._process.node.number + 1), request)


def copy_payloads(envelope: Envelope) -> Envelope:
    """Return the envelope with payload bytes of its own, as after a transfer."""
    entries = getattr(envelope.message, "entries", ())
    if not entries:
        return envelope
    copies = tuple(entry._replace(payload=bytes(entry.payload)) for entry in entries)
    return Envelope(envelope.group, envelope.message._replace(entries=copies))  # type: ignore[call-arg]


class World:
    """Nodes, each with a disk and, while it is up, a driver, that share one Raft group."""

    def __init__(self, count: int = 3, config: DriverConfig = SMALL, voters: int | None = None) -> None:
        self.loop = VirtualLoop()
        self.network = SimulatedNetwork(self.loop, Random(1))
        self.nodes = [self.loop.add_node(f"n{number + 1}") for number in range(count)]
        self.ids = [ReplicaId(NodeId(number + 1), uuid.UUID(int=number + 1)) for number in range(count)]
        self.disks = [TimedDisk(self, node) for node in self.nodes]
        self.drivers: dict[int, Driver] = {}
        self.unreachable: set[int] = set()
        self.failures: list[tuple[int, Exception]] = []
        self.config = config
        first = self.ids[: voters or count]
        self.roll = Roll(GROUP, 1, 0, 0, -1, 1000, 1, tuple(RollMember(*replica) for replica in first))
        for number, node in enumerate(self.nodes, 1):
            self.network.attach(node)
            self.disks[number - 1].make_directory("/data")
            self.disks[number - 1].sync([], ["/"])
            self.start(number, is_first=True)
        self.run(0.01)

    def __enter__(self) -> "World":
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.close()

    def start(self, number: int, *, is_first: bool = False) -> None:
        node = self.nodes[number - 1]
        process = node.start()
        process.call_soon(self._boot, number, process, is_first)
        self.run(0.001)

    def _boot(self, number: int, process: Process, is_first: bool) -> None:
        driver = Driver.open(
            self.disks[number - 1],
            "/data",
            self.ids[number - 1],
            SimulatedWire(self, process),
            Random(number),
            self.config,
            boot_epoch=process.incarnation,
            wall_ms=lambda: process.node.wall_ns() // 1_000_000,
            create=is_first,
        )
        driver.on_failure = lambda error: self.failures.append((number, error))
        self.drivers[number] = driver
        if is_first and RollMember(*self.ids[number - 1]) in self.roll.voters:
            driver.create_group(self.roll)
        driver.start()
        self.network.bind(process, "raft", lambda source, message: driver.receive(NodeId(source.number + 1), message))
        self.network.bind(
            process,
            "heartbeat",
            lambda source, heartbeat: driver.receive_heartbeat(NodeId(source.number + 1), heartbeat),
        )

    def crash(self, number: int, *, power: bool = False) -> None:
        self.nodes[number - 1].crash()
        del self.drivers[number]
        if power:
            self.disks[number - 1].power_loss()
        else:
            self.disks[number - 1].process_crash()

    def run(self, seconds: float) -> None:
        self.loop.run_for(seconds)

    def run_until(self, condition: Callable[[], bool], seconds: float = 20.0) -> None:
        for _ in range(int(seconds * 100)):
            if condition():
                return
            self.run(0.01)
        raise AssertionError(f"not within {seconds} virtual seconds")

    def group(self, number: int) -> PartitionReplica:
        return self.drivers[number].groups[GROUP.bytes]

    def leader(self) -> int:
        """Run until there is a leader of the latest term; return its number."""
        self.run_until(lambda: bool(self._leaders()))
        return max(self._leaders(), key=lambda number: self.group(number).core.term)

    def _leaders(self) -> list[int]:
        return [
            number
            for number in self.drivers
            if GROUP.bytes in self.drivers[number].groups and self.group(number).core.role is Role.LEADER
        ]

    def propose(self, number: int, *values: bytes) -> "asyncio.Future[Committed]":
        """Propose one batch in that node's process; return the future."""
        proposed: list[asyncio.Future[Committed]] = []
        batch = build_batch([NewRecord(value, None, 1000) for value in values])
        self.nodes[number - 1].running_process().call_soon(lambda: proposed.append(self.group(number).propose([batch])))
        self.run(0.0001)
        proposed[0].add_done_callback(lambda future: future.exception())  # not every caller awaits it
        return proposed[0]

    def commit(self, number: int, *values: bytes) -> Committed:
        future = self.propose(number, *values)
        self.run_until(future.done)
        return future.result()

    def fill(self, number: int, count: int, size: int = 500) -> None:
        """Commit `count` records."""
        for position in range(count):
            self.commit(number, b"%d " % position + b"x" * size)

    def run_at(self, number: int, action: Callable[[], object]) -> list[object]:
        """Run an action in that node's process; return the list with its result."""
        done: list[object] = []
        self.nodes[number - 1].running_process().call_soon(lambda: done.append(action()))
        self.run(0.0001)
        return done

    def converge(self) -> None:
        """Wait until all replicas have committed the same."""
        self.run_until(lambda: len({self._stand(number) for number in self.drivers}) == 1)

    def _stand(self, number: int) -> object:
        group = self.group(number)
        core = group.core
        is_settled = core.committed_index == group.log.last_index == group.applied_index == group.log.written_index
        return (core.committed_index, core.term, group.damage) if is_settled else (number, "not yet")

    def files(self, number: int) -> dict[str, bytes]:
        """Return the `.log` files of a replica, by name."""
        disk, path = self.disks[number - 1], self.group(number).path
        found = {}
        for name in disk.list_directory(path):
            if name.endswith(".log"):
                file = disk.open(f"{path}/{name}", read_only=True)
                found[name] = file.read(0, file.size())
                file.close()
        return found

    def values(self, number: int) -> list[bytes]:
        """Return every committed value of a replica."""
        group = self.group(number)
        offset: int = group.log_start_offset
        values: list[bytes] = []
        while offset < group.high_watermark:
            for batch in group.read(offset, 1 << 20):
                for record in read_records(batch):
                    offset = record.offset + 1
                    values.append(record.value or b"")
        return values
