"""Machine of the cluster: a node, a disk that outlives crashes, and the driver in its process.

The disk has a uuid, which together with the node's id identifies a voter. After damage to the journal, or a
wipe, the disk gets a new uuid: votes and acknowledgements under the old uuid are void, and an operator has to replace
the member (`operator`). A process whose disk fails exits, and the supervisor starts it again.

    boot epoch = number of starts,    driver is not None ⇒ the process is up and has recovered its groups
"""

import uuid
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Protocol

from jepsen.simulation.network.transport import SimulatedTransport
from jepsen.simulation.node import Node, Process, State
from jepsen.simulation.options import generator
from jepsen.simulation.timed_disk import TimedDisk
from jepsen.simulation.virtual_time.loop import VirtualLoop
from raftlog.errors import JournalDamaged, RaftlogError, StorageError, Unavailable
from raftlog.raft import Ready, ReplicaId
from raftlog.runtime.config import DriverConfig
from raftlog.runtime.journal.operations import GroupKey
from raftlog.runtime.process.driver import Driver
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.runtime.transport import Envelope
from raftlog.types import NodeId

DATA_DIR = "/data"


class Watcher(Protocol):
    """Observer of events on a machine."""

    def on_open(self, machine: "Machine", driver: Driver) -> None:
        """Receive the driver of a process that has opened its disk, before the groups' `on_recovery`."""
        ...

    def on_recovery(self, machine: "Machine", group: PartitionReplica) -> None:
        """Receive a replica that a process recovered from its disk, or created."""
        ...

    def on_ready(self, machine: "Machine", group: PartitionReplica, ready: Ready) -> None:
        """Receive a Ready of a replica, after the driver has executed it."""
        ...

    def on_send(self, machine: "Machine", envelopes: Sequence[Envelope]) -> None:
        """Receive messages that the machine's process sends, before they enter the network."""
        ...

    def on_lost_identity(self, machine: "Machine", old: ReplicaId) -> None:
        """Receive the identity of a lost disk, whose promises are void; `machine` has the new identity."""
        ...

    def create_groups(self, machine: "Machine", driver: Driver) -> None:
        """Create the missing Raft groups of the cluster's plan for this machine."""
        ...


class Machine:
    """Machine with at most one process, which runs a driver."""

    def __init__(
        self,
        loop: VirtualLoop,
        node: Node,
        node_id: NodeId,
        disk: TimedDisk,
        config: DriverConfig,
        watcher: Watcher,
        connect: Callable[[Process, Callable[[Sequence[Envelope]], None]], SimulatedTransport],
        random: Random,
    ) -> None:
        self.loop, self.node, self.node_id, self.disk = loop, node, node_id, disk
        self.config = config
        self.driver: Driver | None = None
        self.boot_epoch = 0
        self.me = ReplicaId(node_id, self._new_uuid(random))
        self.is_new_disk = True
        """Whether no process has opened the journal of this disk uuid yet."""
        self._watcher = watcher
        self._connect = connect
        self._random = random

    def __repr__(self) -> str:
        return f"<machine {self.node.name} {self.me}>"

    # what a test sees

    @property
    def is_running(self) -> bool:
        """Whether a process exists and is not paused."""
        process = self.node.process
        return process is not None and process.state is State.RUNNING

    @property
    def name(self) -> str:
        """Name of the node."""
        return self.node.name

    def group(self, key: GroupKey) -> PartitionReplica | None:
        """Return the replica on this machine; None if the process is down or has none."""
        return None if self.driver is None else self.driver.groups.get(key)

    def call(self, callback: Callable[[Driver], object]) -> bool:
        """Schedule the callback in the process; return false without a process that has recovered."""
        process, driver = self.node.process, self.driver
        if process is None or driver is None:
            return False
        process.call_soon(callback, driver)
        return True

    def note(self, text: str) -> None:
        """Add an event of this machine to the timeline."""
        self.loop.note(self.node.name, text)

    # life and death

    def start(self) -> None:
        """Start a process, which opens the disk."""
        process = self.node.start()
        self.boot_epoch += 1
        self.disk.process = process
        process.call_soon(self._open, process)

    def crash(self) -> None:
        """Kill the process like kill -9: the disk keeps all writes."""
        self._crash_process()
        self.disk.process_crash()

    def lose_power(self) -> None:
        """Cut the power: the disk keeps synced writes, and a random part of the rest."""
        self._crash_process()
        self.disk.power_loss(torn=self._random.random() < 0.8)
        self.note("its power is lost: what was not synced may be gone")

    def wipe(self) -> None:
        """Replace the disk by an empty one."""
        assert self.driver is None, f"{self} runs"
        self.note("its disk is wiped")
        self.disk.wipe()
        self._lose_identity()

    def _crash_process(self) -> None:
        """Kill the process if there is one; the disk is not changed."""
        self.driver = None
        self.disk.process = None
        if self.node.process is not None:
            self.node.crash()

    def _open(self, process: Process) -> None:
        """Open the driver on the disk, report its groups to the watcher, and start it; end the process on an error."""
        transport = self._connect(process, partial(self._watcher.on_send, self))
        try:
            driver = self._open_driver(transport)
            self.is_new_disk = False
            self._watcher.create_groups(self, driver)
        except (StorageError, Unavailable, OSError) as error:
            self._give_up(process, error)
            return
        driver.on_failure = partial(self._give_up, process)
        driver.on_step = partial(self._watcher.on_ready, self)
        self.driver = driver
        transport.deliver_to(driver)
        self._watcher.on_open(self, driver)
        for group in driver.groups.values():
            self._watcher.on_recovery(self, group)
        driver.start()

    def _open_driver(self, transport: SimulatedTransport) -> Driver:
        """Open the driver; after damage to the journal, with a new disk uuid."""
        try:
            return self._try_open(transport)
        except JournalDamaged as error:
            self.note(f"its journal is damaged: {error}")
            self._move_aside()
            self._lose_identity()
            return self._try_open(transport)

    def _try_open(self, transport: SimulatedTransport) -> Driver:
        """Open the driver once. Raises `JournalDamaged`, `StorageError`, `Unavailable` or `OSError`."""
        return Driver.open(
            self.disk,
            DATA_DIR,
            self.me,
            transport,
            generator(self.me, self.boot_epoch),
            self.config,
            boot_epoch=self.boot_epoch,
            wall_ms=self.wall_ms,
            create=self.is_new_disk,
        )

    def wall_ms(self) -> int:
        """Return the node's wall clock in milliseconds."""
        return self.node.wall_ns() // 1_000_000

    def _give_up(self, process: Process, error: RaftlogError | OSError) -> None:
        """End the process as on a fatal error, once its present code has returned."""
        self.note(f"ends: {error}")
        self.loop.call_at_ns(self.loop.now_ns, self._end, process)

    def _end(self, process: Process) -> None:
        """Kill the process unless the node has another one by now."""
        if self.node.process is process:
            self.crash()

    def _move_aside(self) -> None:
        """Move the data of the old disk uuid into another directory, so that the new disk uuid does not use it."""
        aside = f"{DATA_DIR}/.raftlog/aside/{self.me.disk_uuid}"
        self.disk.make_directory(aside)
        for name in self.disk.list_directory(DATA_DIR):
            if name != ".raftlog":
                self.disk.rename(f"{DATA_DIR}/{name}", f"{aside}/{name}")
        self.disk.sync([], [DATA_DIR, aside])

    def _lose_identity(self) -> None:
        """Give the disk a new uuid, and report the old identity to the watcher."""
        old = self.me
        self.me = ReplicaId(self.node_id, self._new_uuid(self._random))
        self.is_new_disk = True
        self._watcher.on_lost_identity(self, old)

    @staticmethod
    def _new_uuid(random: Random) -> uuid.UUID:
        """Return a random uuid for a disk."""
        return uuid.UUID(int=random.getrandbits(128), version=4)
