"""What each kind of fault does to the cluster, and how it ends. Who calls: `nemesis`.

Targets are drawn: often a leader, because that is where it hurts. Durations are drawn too, and a fault that is over
undoes itself, unless its target is no longer what it was.
"""

from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Final

from jepsen.simulation import shapes
from jepsen.simulation.cluster import Cluster, GroupPlan, Moment
from jepsen.simulation.file_damage import damage_journal, damage_segment
from jepsen.simulation.harm import Harm
from jepsen.simulation.links import MILLISECOND_NS, SECOND_NS, LinkConditions
from jepsen.simulation.machine import Machine
from jepsen.simulation.node import Process, State
from jepsen.simulation.operator import Operator
from jepsen.simulation.options import Fault
from raftlog.errors import RaftlogError
from raftlog.raft import ReplicaId
from raftlog.runtime.driver import Driver
from raftlog.types import NodeId, Offset

DOWN_S: Final = (0.05, 4.0)
FAULT_S: Final = (0.5, 6.0)


class Faults:
    """See the module."""

    def __init__(self, cluster: Cluster, harm: Harm, operators: list[Operator], random: Random) -> None:
        self.cluster, self.harm, self.operators, self.random = cluster, harm, operators, random
        self.loop, self.network = cluster.loop, cluster.network
        self.down_until_ns: dict[NodeId, int] = {}
        """Machines that are kept down on purpose."""
        self._healed = 0
        """Counts healings: what was to be undone later is undone by them."""
        self._kinds: dict[Fault, Callable[[], object]] = {
            Fault.CRASH: self._crash,
            Fault.POWER: self._power,
            Fault.PAUSE: self._pause,
            Fault.CLOCK: self._clock,
            Fault.HALVES: lambda: self._cut(shapes.halves(self._numbers(), self.random)),
            Fault.RING: lambda: self._cut(shapes.majorities_ring(self._numbers(), self.random)),
            Fault.BRIDGE: lambda: self._cut(shapes.bridge(self._numbers(), self.random)),
            Fault.ISOLATED: lambda: self._cut(shapes.isolated(self._someone().node.number, self._numbers())),
            Fault.ONE_WAY: self._one_way,
            Fault.LOSSY: self._lossy,
            Fault.RESET: self._reset,
            Fault.SLOW_DISK: self._slow_disk,
            Fault.FAILED_SYNC: self._failed_sync,
            Fault.FULL_DISK: self._full_disk,
            Fault.DAMAGE: self._damage,
            Fault.JOURNAL: self._journal,
            Fault.WIPE: self._wipe,
            Fault.MEMBERS: lambda: self.random.choice(self.operators).retarget(),
            Fault.TRANSFER: self._transfer,
            Fault.TRIM: self._trim,
            Fault.ROLLING: self._rolling,
            Fault.AMBUSH: self._ambush,
        }

    def inflict(self, fault: Fault) -> None:
        self._kinds[fault]()

    def heal(self) -> None:
        """Everything that can heal at once does; damage and lost disks take their repair."""
        self._healed += 1
        self.cluster.ambush = None
        self.network.heal()
        self.down_until_ns.clear()
        for machine in self.cluster.machines.values():
            machine.disk.recover()
            if machine.node.clock.drift_ppm:
                machine.node.set_drift(0)
            process = machine.node.process
            if process is not None and process.state is State.PAUSED:
                machine.node.resume()

    # choosing

    def _machines(self) -> list[Machine]:
        return list(self.cluster.machines.values())

    def _numbers(self) -> list[int]:
        return [machine.node.number for machine in self._machines()]

    def _someone(self) -> Machine:
        """A leader as often as not."""
        if self.random.random() < 0.5:
            found = self.cluster.leader(self.random.choice(self.cluster.groups))
            if found is not None:
                return found[0]
        return self.random.choice(self._machines())

    def _several(self) -> list[Machine]:
        """One, a minority, a majority or all; never one twice."""
        count = len(self._machines())
        chosen = self.random.choice((1, 1, (count - 1) // 2, count // 2 + 1, count))
        first = self._someone()
        others = [machine for machine in self._machines() if machine is not first]
        return [first, *self.random.sample(others, max(chosen, 1) - 1)]

    def _later(self, seconds: tuple[float, float], undo: Callable[[], object]) -> None:
        """Undo after a while, unless everything healed before."""
        due_ns = self.loop.now_ns + int(self.random.uniform(*seconds) * SECOND_NS)
        self.loop.call_at_ns(due_ns, self._undo, self._healed, undo)

    def _undo(self, healed: int, undo: Callable[[], object]) -> None:
        if healed == self._healed:
            undo()

    # machines

    def _stays_down(self, machine: Machine, seconds: tuple[float, float] = DOWN_S) -> None:
        self.down_until_ns[machine.node_id] = self.loop.now_ns + int(self.random.uniform(*seconds) * SECOND_NS)

    def _crash(self) -> None:
        for machine in self._several():
            if machine.node.is_up:
                machine.crash()
                self._stays_down(machine)

    def _power(self) -> None:
        for machine in self._several():
            machine.lose_power()
            self._stays_down(machine)

    def _pause(self) -> None:
        for machine in self._several():
            process = machine.node.process
            if process is not None and process.state is State.RUNNING:
                machine.node.pause()
                self._later(FAULT_S, partial(self._resume, machine, process))

    def _resume(self, machine: Machine, process: Process) -> None:
        if machine.node.process is process and process.state is State.PAUSED:
            machine.node.resume()

    def _clock(self) -> None:
        machine = self._someone()
        machine.node.jump_wall(self.random.randint(-60, 60) * SECOND_NS)
        machine.node.set_drift(self.random.choice((-300_000, -1_000, 1_000, 300_000)))
        self._later(FAULT_S, partial(machine.node.set_drift, 0))

    def _rolling(self) -> None:
        for place, machine in enumerate(self._machines()):
            self.loop.call_at_ns(self.loop.now_ns + (place + 1) * SECOND_NS, self._restart, machine)

    def _restart(self, machine: Machine) -> None:
        if machine.is_running:
            machine.crash()
            self._stays_down(machine, (0.05, 0.5))

    def _ambush(self) -> None:
        """At the next such moments something happens to whoever they are about, or to all."""
        wanted = self.random.choice(list(Moment))
        strike = self.random.choice((self._strike_power, self._strike_power, self._strike_all, self._strike_links))
        strikes = iter(range(self.random.choice((1, 1, 3))))
        self.cluster.ambush = partial(self._spring, wanted, strike, strikes)

    def _spring(
        self,
        wanted: Moment,
        strike: Callable[[Machine], object],
        strikes: Iterator[int],
        moment: Moment,
        machine: Machine,
    ) -> None:
        if moment is not wanted:
            return
        if next(strikes, None) is None:
            self.cluster.ambush = None
            return
        machine.note(f"{moment.value}: an ambush")
        delay_ns = int(self.random.choice((0.0, 0.5, 2.0)) * machine.disk.delay_ns * self.random.random())
        self.loop.call_at_ns(self.loop.now_ns + delay_ns, strike, machine)

    def _strike_power(self, machine: Machine) -> None:
        machine.lose_power()
        self._stays_down(machine, self.random.choice(((0.0, 0.1), DOWN_S)))

    def _strike_all(self, _machine: Machine) -> None:
        for machine in self._machines():
            self._strike_power(machine)

    def _strike_links(self, machine: Machine) -> None:
        self._cut(shapes.isolated(machine.node.number, self._numbers()))

    # network

    def _cut(self, cuts: list[shapes.Cut]) -> None:
        self.network.impose(cuts)
        self._later(FAULT_S, self.network.heal)

    def _one_way(self) -> None:
        node = [self._someone().node.number]
        others = [number for number in self._numbers() if number not in node]
        self._cut(shapes.one_way(node, others) if self.random.random() < 0.5 else shapes.one_way(others, node))

    def _lossy(self) -> None:
        conditions = LinkConditions(
            delay_max_ns=self.random.choice((5, 50, 300)) * MILLISECOND_NS,
            loss=self.random.choice((0.05, 0.3)),
            duplicate=self.random.choice((0.0, 0.2)),
            reorder=self.random.choice((0.0, 0.3)),
            reorder_ns=self.random.choice((20, 200)) * MILLISECOND_NS,
        )
        only = self._someone() if self.random.random() < 0.5 else None
        for a in self._machines():
            for b in self._machines():
                if a is not b and (only is None or only in (a, b)):
                    self.network.set_conditions(a.node, b.node, conditions)
        self._later(FAULT_S, self.network.heal)

    def _reset(self) -> None:
        a, b = self.random.sample(self._machines(), 2)
        self.network.reset_streams(a.node, b.node)

    # disks

    def _slow_disk(self) -> None:
        for machine in self._several():
            machine.disk.slow_down(self.random.choice((10, 100)))
            machine.note("its disk gets slow")
            self._later(FAULT_S, machine.disk.recover)

    def _failed_sync(self) -> None:
        machine = self._someone()
        if machine.is_running:
            machine.note("its next sync fails")
            machine.disk.fail_sync()

    def _full_disk(self) -> None:
        for machine in self._several():
            machine.disk.capacity_bytes = machine.disk.used_bytes() + self.random.choice((0, 500, 5_000, 30_000))
            machine.note("its disk is nearly full")
            self._later(FAULT_S, machine.disk.recover)

    def _damage(self) -> None:
        """Bits flip, or a page is zeroed, in a file of a group; the process may run, or be started on it."""
        plan, machine = self.random.choice(self.cluster.groups), self._someone()
        is_free = all(damage.machine is not machine for damage in self.harm.open_damages())
        if is_free and self.harm.may_harm(machine, plan):
            damage = damage_segment(machine, plan, self.random)
            if damage is not None:
                self.harm.damages.append(damage)
                if self.random.random() < 0.5 and machine.node.is_up:
                    machine.crash()

    def _journal(self) -> None:
        machine = self._someone()
        if machine.node.is_up and not machine.is_new_disk and self.harm.may_harm(machine):
            machine.crash()
            if damage_journal(machine, self.random):
                self.harm.doomed[machine.me] = machine
                machine.start()

    def _wipe(self) -> None:
        machine = self._someone()
        if not machine.is_new_disk and self.harm.may_harm(machine):
            if machine.node.is_up:
                machine.crash()
            machine.wipe()
            self._stays_down(machine)

    # operators

    def _transfer(self) -> None:
        plan = self.random.choice(self.cluster.groups)
        found = self.cluster.leader(plan)
        if found is not None:
            machine, group = found
            target = self.random.choice(group.core.configuration.all_voters())
            machine.call(partial(self._transfer_to, plan, machine, target))

    def _transfer_to(self, plan: GroupPlan, machine: Machine, target: ReplicaId, driver: Driver) -> None:
        group = driver.groups.get(plan.key)
        try:
            if group is not None:
                machine.note(f"{plan.partition}: hands over to {target}")
                group.transfer_leadership(target)
        except RaftlogError as error:
            machine.note(f"{plan.partition}: does not hand over, {error}")

    def _trim(self) -> None:
        """Everything that all readers have read may go; on some replicas it does."""
        for plan in self.cluster.groups:
            read_up_to = min(plan.readers_at.values(), default=0)
            for machine in self._machines():
                if self.random.random() < 0.6:
                    machine.call(partial(self._trim_at, plan, Offset(read_up_to)))

    def _trim_at(self, plan: GroupPlan, offset: Offset, driver: Driver) -> None:
        group = driver.groups.get(plan.key)
        if group is not None:
            group.trim(min(offset, group.high_watermark))
