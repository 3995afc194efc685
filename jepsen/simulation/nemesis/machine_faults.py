"""Faults of machines, their network and their disks, for any kind of cluster.

Targets are drawn: often leaders, whose faults have most effect. Durations are drawn too; at its end a fault is
undone, unless its target has changed. Extended by the faults of each kind of cluster.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from random import Random
from typing import Final, Generic, Protocol, TypeVar

from jepsen.simulation.network import shapes
from jepsen.simulation.network.links import MILLISECOND_NS, SECOND_NS, LinkConditions
from jepsen.simulation.network.network import SimulatedNetwork
from jepsen.simulation.node import Node, Process, State
from jepsen.simulation.options import Fault
from jepsen.simulation.timed_disk import TimedDisk
from jepsen.simulation.virtual_time.loop import VirtualLoop
from raftlog.types import NodeId

DOWN_S: Final = (0.05, 4.0)
FAULT_S: Final = (0.5, 6.0)


class AnyMachine(Protocol):
    """Interface of a machine, for faults."""

    @property
    def node(self) -> Node: ...

    @property
    def node_id(self) -> NodeId: ...

    @property
    def disk(self) -> TimedDisk: ...

    @property
    def is_running(self) -> bool:
        """Whether a process exists and is not paused."""
        ...

    def note(self, text: str) -> None:
        """Add an event of this machine to the timeline."""
        ...

    def crash(self) -> None:
        """Kill the process, which must be up; the disk keeps all writes."""
        ...

    def lose_power(self) -> None:
        """Cut the power: the disk keeps synced writes, and a random part of the rest."""
        ...


M = TypeVar("M", bound=AnyMachine)


class MachineFaults(ABC, Generic[M]):
    """Faults of machines; see the module. `kinds` maps each fault to its function; subclasses add more."""

    def __init__(
        self, loop: VirtualLoop, network: SimulatedNetwork, machines: Mapping[NodeId, M], random: Random
    ) -> None:
        self.loop, self.network, self.machines, self.random = loop, network, machines, random
        self.down_until_ns: dict[NodeId, int] = {}
        """Time until which each stopped machine stays down."""
        self._healed = 0
        """Number of calls of `heal`; each cancels the ends of faults that were scheduled before it."""
        self.kinds: dict[Fault, Callable[[], object]] = {
            Fault.CRASH: self._crash,
            Fault.POWER: self._lose_power,
            Fault.PAUSE: self._pause,
            Fault.CLOCK: self._disturb_clock,
            Fault.HALVES: lambda: self.cut(shapes.halves(self.numbers(), self.random)),
            Fault.RING: lambda: self.cut(shapes.majorities_ring(self.numbers(), self.random)),
            Fault.BRIDGE: lambda: self.cut(shapes.bridge(self.numbers(), self.random)),
            Fault.ISOLATED: lambda: self.cut(shapes.isolate(self.random_machine().node.number, self.numbers())),
            Fault.ONE_WAY: self._cut_one_way,
            Fault.LOSSY: self._make_lossy,
            Fault.RESET: self._reset_streams,
            Fault.SLOW_DISK: self._slow_down_disk,
            Fault.FAILED_SYNC: self._fail_sync,
            Fault.FULL_DISK: self._fill_disk,
        }

    @abstractmethod
    def find_leader(self) -> M | None:
        """Return a machine with a leader of a Raft group; None without one."""

    def inject(self, fault: Fault) -> None:
        """Inject a fault of this kind."""
        self.kinds[fault]()

    def heal(self) -> None:
        """End all faults that can end at once; damage and lost disks wait for their repair."""
        self._healed += 1
        self.network.heal()
        self.down_until_ns.clear()
        for machine in self.machines.values():
            machine.disk.recover()
            if machine.node.clock.drift_ppm:
                machine.node.set_drift(0)
            process = machine.node.process
            if process is not None and process.state is State.PAUSED:
                machine.node.resume()

    # choosing

    def all_machines(self) -> list[M]:
        """Return all machines, up or down, in the order of their node ids."""
        return list(self.machines.values())

    def numbers(self) -> list[int]:
        """Return the numbers of all nodes."""
        return [machine.node.number for machine in self.all_machines()]

    def random_machine(self) -> M:
        """Return a random machine, a leader half of the time."""
        if self.random.random() < 0.5:
            leader = self.find_leader()
            if leader is not None:
                return leader
        return self.random.choice(self.all_machines())

    def draw_machines(self) -> list[M]:
        """Return random machines: one, a minority, a majority or all; each at most once."""
        count = len(self.all_machines())
        chosen = self.random.choice((1, 1, (count - 1) // 2, count // 2 + 1, count))
        first = self.random_machine()
        others = [machine for machine in self.all_machines() if machine is not first]
        return [first, *self.random.sample(others, max(chosen, 1) - 1)]

    def undo_later(self, seconds: tuple[float, float], undo: Callable[[], object]) -> None:
        """Call `undo` after a random time between the two `seconds`, unless `heal` is called before."""
        due_ns = self.loop.now_ns + int(self.random.uniform(*seconds) * SECOND_NS)
        self.loop.call_at_ns(due_ns, self._undo, self._healed, undo)

    def _undo(self, healed: int, undo: Callable[[], object]) -> None:
        """Call `undo` unless `heal` was called since it was scheduled; `healed` is the former number of calls."""
        if healed == self._healed:
            undo()

    # machines

    def keep_down(self, machine: M, seconds: tuple[float, float] = DOWN_S) -> None:
        """Keep the machine down for a random time between the two `seconds`; then the supervisor may start it."""
        self.down_until_ns[machine.node_id] = self.loop.now_ns + int(self.random.uniform(*seconds) * SECOND_NS)

    def _crash(self) -> None:
        """Crash some machines and keep them down for a while."""
        for machine in self.draw_machines():
            if machine.node.is_up:
                machine.crash()
                self.keep_down(machine)

    def _lose_power(self) -> None:
        """Cut the power of some machines and keep them down for a while."""
        for machine in self.draw_machines():
            machine.lose_power()
            self.keep_down(machine)

    def _pause(self) -> None:
        """Pause the processes of some machines for a while."""
        for machine in self.draw_machines():
            process = machine.node.process
            if process is not None and process.state is State.RUNNING:
                machine.node.pause()
                self.undo_later(FAULT_S, partial(self._resume, machine, process))

    def _resume(self, machine: M, process: Process) -> None:
        """Resume the process, unless it has ended or was resumed."""
        if machine.node.process is process and process.state is State.PAUSED:
            machine.node.resume()

    def _disturb_clock(self) -> None:
        """Step the wall clock of a machine, and let its clocks drift for a while."""
        machine = self.random_machine()
        machine.node.jump_wall(self.random.randint(-60, 60) * SECOND_NS)
        machine.node.set_drift(self.random.choice((-300_000, -1_000, 1_000, 300_000)))
        self.undo_later(FAULT_S, partial(machine.node.set_drift, 0))

    # network

    def cut(self, cuts: Iterable[shapes.Cut]) -> None:
        """Cut these links for a while; then all links are restored."""
        self.network.impose(cuts)
        self.undo_later(FAULT_S, self.network.heal)

    def _cut_one_way(self) -> None:
        """Cut all links from a machine, or all links to it, for a while."""
        node = [self.random_machine().node.number]
        others = [number for number in self.numbers() if number not in node]
        self.cut(shapes.one_way_cuts(node, others) if self.random.random() < 0.5 else shapes.one_way_cuts(others, node))

    def _make_lossy(self) -> None:
        """Make the links of one machine, or all links, slow and lossy for a while."""
        conditions = LinkConditions(
            delay_max_ns=self.random.choice((5, 50, 300)) * MILLISECOND_NS,
            loss=self.random.choice((0.05, 0.3)),
            duplicate=self.random.choice((0.0, 0.2)),
            reorder=self.random.choice((0.0, 0.3)),
            reorder_ns=self.random.choice((20, 200)) * MILLISECOND_NS,
        )
        only = self.random_machine() if self.random.random() < 0.5 else None
        for a in self.all_machines():
            for b in self.all_machines():
                if a is not b and (only is None or only in (a, b)):
                    self.network.set_conditions(a.node, b.node, conditions)
        self.undo_later(FAULT_S, self.network.heal)

    def _reset_streams(self) -> None:
        """Reset all streams between two random machines."""
        if len(self.machines) == 1:
            return
        a, b = self.random.sample(self.all_machines(), 2)
        self.network.reset_streams(a.node, b.node)

    # disks

    def slow_disks(self, slow: Callable[[TimedDisk], object]) -> None:
        """Slow down the disks of one or several machines for a while."""
        for machine in self.draw_machines():
            slow(machine.disk)
            machine.note("its disk gets slow")
            self.undo_later(FAULT_S, machine.disk.recover)

    def _slow_down_disk(self) -> None:
        """Make the syncs of some disks 10 or 100 times as slow for a while."""
        self.slow_disks(lambda disk: disk.slow_down(self.random.choice((10, 100))))

    def _fail_sync(self) -> None:
        """Fail the next sync of a random machine's disk."""
        machine = self.random_machine()
        if machine.is_running:
            machine.note("its next sync fails")
            machine.disk.fail_sync()

    def _fill_disk(self) -> None:
        """Leave only a few bytes of free space on some disks for a while."""
        for machine in self.draw_machines():
            machine.disk.capacity_bytes = machine.disk.used_bytes() + self.random.choice((0, 500, 5_000, 30_000))
            machine.note("its disk is nearly full")
            self.undo_later(FAULT_S, machine.disk.recover)
