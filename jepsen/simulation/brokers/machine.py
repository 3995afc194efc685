"""Machine of the simulation: a node of the network, a disk that outlives processes, and a program.

    start → the program runs as a process → it exits, or ends by `crash`, `lose_power`
    service is not None ⇒ the process is up, and has reported that it can be called

The program is an argument: it opens the product in the given environment, sets `service`, and returns at its end. An
operating error that it raises ends its process, as it would end a real one. The supervisor starts it again (`nemesis`).
"""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from random import Random
from typing import Any, Final, Generic, TypeAlias, TypeVar
from uuid import UUID

from jepsen.simulation.brokers.transport import SimulatedTransport
from jepsen.simulation.brokers.wires import WiredLoop
from jepsen.simulation.node import Node, Process, State
from jepsen.simulation.options import generator
from jepsen.simulation.timed_disk import TimedDisk
from raftlog.errors import RaftlogError
from raftlog.membership.wire import Wire
from raftlog.partitions.node import NodeEnvironment, NodeTransport
from raftlog.raft import ReplicaId
from raftlog.runtime.rpc.config import RpcConfig
from raftlog.runtime.rpc.handshake import PeerIdentity
from raftlog.runtime.transport import Envelope
from raftlog.types import NodeId

S = TypeVar("S")

DATA_DIR: Final = "/data"
RPC_PORT: Final = 7000
RPC: Final = RpcConfig(
    frame_bytes_max=1 << 21,
    body_bytes_max=1 << 20,
    header_bytes_max=1 << 18,
    turn_bytes=1 << 18,
    read_buffer_bytes=1 << 13,
    write_buffer_bytes=1 << 15,
    send_queue_bytes_max=1 << 19,
    handshake_timeout_ms=2_000,
    stall_timeout_ms=5_000,
    bulk_timeout_ms=4_000,
)
"""Limits that are small enough to be reached in a run."""

Program: TypeAlias = "Callable[[Machine[S], NodeEnvironment], Awaitable[None]]"


def _ignore_messages(*_: object) -> None:
    return None


def _refuse_wire(process: Process) -> Wire:
    """Raise `AssertionError`: the simulation has no gossip."""
    raise AssertionError(f"{process} is not meant to gossip")


class Machine(Generic[S]):
    """Simulated machine with at most one process.

    `seed` names the generators of its processes, one for each start."""

    def __init__(
        self,
        loop: WiredLoop,
        node: Node,
        node_id: NodeId,
        disk: TimedDisk,
        program: "Program[S]",
        seed: object,
    ) -> None:
        self.loop, self.node, self.node_id, self.disk = loop, node, node_id, disk
        self.program = program
        self.service: S | None = None
        self.end: str | None = None
        """Reason of the exit of the last process; None after a crash, and while it runs."""
        self.replica: ReplicaId | None = None
        """Replica by the identity on its disk; None before the first start, and when unknown."""
        self.disk_uuids: set[UUID] = set()
        """Disk uuids that processes used since the disk was empty; never iterated in an order that matters."""
        self.stale: ReplicaId | None = None
        """Replica whose outdated disk this machine has; None if its disk is current."""
        self.on_send: Callable[[Sequence[Envelope]], object] = _ignore_messages
        """Callback for the Raft messages that the process hands to its transport."""
        self.make_wire: Callable[[Process], Wire] = _refuse_wire
        """Factory of the gossip network interface of its processes."""
        self._seed = seed
        self._random = generator(seed, "machine", node_id)

    def __repr__(self) -> str:
        return f"<machine {self.name}>"

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def is_running(self) -> bool:
        """Whether a process exists and is not paused."""
        process = self.node.process
        return process is not None and process.state is State.RUNNING

    def note(self, text: str) -> None:
        """Add an event of this machine to the timeline."""
        self.loop.note(self.name, text)

    def wall_ms(self) -> int:
        """Return the node's wall clock in milliseconds."""
        return self.node.wall_ns() // 1_000_000

    # the program, from outside

    def call(self, callback: Callable[[S], object]) -> bool:
        """Schedule the callback in the process; return false without a process that can be called."""
        process, service = self.node.process, self.service
        if process is None or service is None:
            return False
        process.call_soon(callback, service)
        return True

    def spawn(self, operation: Callable[[S], Coroutine[Any, Any, None]], name: str) -> bool:
        """Run `operation` as a task of the process; return false without a process that can be called.

        Any exception ends the run."""
        process, service = self.node.process, self.service
        if process is None or service is None:
            return False
        process.spawn(operation(service), name=name)
        return True

    # life and death

    def start(self) -> None:
        """Start a process, which runs the program."""
        process = self.node.start()
        self.disk.process = process
        self.end = None
        process.spawn(self._run(process), name="main")

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
        """Replace the disk by an empty one; the machine must be down."""
        assert self.node.process is None, f"{self} runs"
        self.note("its disk is wiped")
        self.disk.wipe()
        self.replica = None
        self.disk_uuids.clear()

    def _crash_process(self) -> None:
        """Kill the process if there is one; the disk is not changed."""
        self.service = None
        self.on_send = _ignore_messages
        self.disk.process = None
        if self.node.process is not None:
            self.node.crash()

    async def _run(self, process: Process) -> None:
        """Run the program until its end, note the reason, and end the process.

        A `RaftlogError` or `OSError` of the program ends the process as well."""
        try:
            await self.program(self, self._environment(process))
            end = "it was ordered to stop"
        except (RaftlogError, OSError) as error:
            end = f"{type(error).__name__}: {error}"
        self.note(f"ends: {end}")
        self.loop.call_at_ns(self.loop.now_ns, self._exit, process, end)

    def _exit(self, process: Process, end: str) -> None:
        """Kill the process unless the node has another one by now, and record the reason."""
        if self.node.process is process:
            self.crash()
            self.end = end

    def _environment(self, process: Process) -> NodeEnvironment:
        """Return the process's environment: disk, transport, random numbers, clock, and gossip wire."""
        random = generator(self._seed, "process", self.node_id, process.incarnation)
        return NodeEnvironment(
            self.disk,
            partial(self._make_transport, process, random),
            random,
            self.wall_ms,
            make_wire=partial(self.make_wire, process),
        )

    def _make_transport(self, process: Process, random: Random, identity: Callable[[], PeerIdentity]) -> NodeTransport:
        """Return the transport of the process, which reports sent messages to `on_send`."""
        nonces = generator(self._seed, "nonces", self.node_id, process.incarnation)
        return SimulatedTransport(
            identity, random, nonces.randbytes, RPC, self.loop.network, process, self._report_sends
        )

    def _report_sends(self, envelopes: Sequence[Envelope]) -> None:
        """Report sent messages to the present `on_send`."""
        self.on_send(envelopes)
