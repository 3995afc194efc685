"""Effect and end of each kind of fault on a cluster of drivers, beyond the faults of their machines.

Called by `nemesis`."""

from collections.abc import Callable, Iterator
from functools import partial
from random import Random

from jepsen.simulation.cluster import Cluster, GroupPlan, Moment
from jepsen.simulation.machine import Machine
from jepsen.simulation.nemesis.fault_budget import Damage, FaultBudget
from jepsen.simulation.nemesis.file_damage import damage_file, damage_journal
from jepsen.simulation.nemesis.machine_faults import DOWN_S, MachineFaults
from jepsen.simulation.network import shapes
from jepsen.simulation.network.links import SECOND_NS
from jepsen.simulation.operator import Operator
from jepsen.simulation.options import Fault
from raftlog.errors import RaftlogError
from raftlog.raft import ReplicaId
from raftlog.runtime.process.driver import Driver
from raftlog.types import Offset


class Faults(MachineFaults[Machine]):
    """Injector of faults of one run."""

    def __init__(self, cluster: Cluster, fault_budget: FaultBudget, operators: list[Operator], random: Random) -> None:
        super().__init__(cluster.loop, cluster.network, cluster.machines, random)
        self.cluster, self.fault_budget, self.operators = cluster, fault_budget, operators
        self.kinds |= {
            Fault.DAMAGE: self._damage,
            Fault.JOURNAL: self._damage_journal,
            Fault.WIPE: self._wipe,
            Fault.MEMBERS: lambda: self.random.choice(self.operators).change_target(),
            Fault.TRANSFER: self._transfer,
            Fault.TRIM: self._trim,
            Fault.ROLLING: self._rolling_restart,
            Fault.AMBUSH: self._ambush,
        }

    def find_leader(self) -> Machine | None:
        """Return the machine that leads a random Raft group; None without a leader."""
        found = self.cluster.leader(self.random.choice(self.cluster.groups))
        return None if found is None else found[0]

    def heal(self) -> None:
        """End all faults that can end at once; damage and lost disks wait for their repair."""
        self.cluster.ambush = None
        super().heal()

    def _rolling_restart(self) -> None:
        """Restart all machines, one per second."""
        for place, machine in enumerate(self.all_machines()):
            self.loop.call_at_ns(self.loop.now_ns + (place + 1) * SECOND_NS, self._restart, machine)

    def _restart(self, machine: Machine) -> None:
        """Crash the machine if it runs; the supervisor starts it within half a second."""
        if machine.is_running:
            machine.crash()
            self.keep_down(machine, (0.05, 0.5))

    def _ambush(self) -> None:
        """Inject a power loss or an isolation after the next moments of one drawn kind.

        The power loss affects the machine of the replica, or all machines."""
        wanted = self.random.choice(list(Moment))
        strike = self.random.choice((self._strike_power, self._strike_power, self._strike_all, self._strike_links))
        strikes = iter(range(self.random.choice((1, 1, 3))))
        self.cluster.ambush = partial(self._on_moment, wanted, strike, strikes)

    def _on_moment(
        self,
        wanted: Moment,
        strike: Callable[[Machine], object],
        strikes: Iterator[int],
        moment: Moment,
        machine: Machine,
    ) -> None:
        """Schedule `strike` if the moment is the wanted one; end the ambush when `strikes` is exhausted."""
        if moment is not wanted:
            return
        if next(strikes, None) is None:
            self.cluster.ambush = None
            return
        machine.note(f"{moment.value}: an ambush")
        delay_ns = int(self.random.choice((0.0, 0.5, 2.0)) * machine.disk.delay_ns * self.random.random())
        self.loop.call_at_ns(self.loop.now_ns + delay_ns, strike, machine)

    def _strike_power(self, machine: Machine) -> None:
        """Cut the machine's power and keep it down for a while."""
        machine.lose_power()
        self.keep_down(machine, self.random.choice(((0.0, 0.1), DOWN_S)))

    def _strike_all(self, _machine: Machine) -> None:
        """Cut the power of all machines."""
        for machine in self.all_machines():
            self._strike_power(machine)

    def _strike_links(self, machine: Machine) -> None:
        """Isolate the machine."""
        self.cut(shapes.isolate(machine.node.number, self.numbers()))

    # disks

    def _damage(self) -> None:
        """Flip bits or zero a page in a file of a Raft group, while the process runs or is down."""
        plan, machine = self.random.choice(self.cluster.groups), self.random_machine()
        is_free = all(damage.machine is not machine for damage in self.fault_budget.open_damages())
        if is_free and self.fault_budget.may_damage(machine, plan):
            inside = f"/{plan.group_id}/"
            damaged = damage_file(
                machine.disk, lambda path: inside in path and "/.raftlog/" not in path, self.random, machine.note
            )
            if damaged is not None:
                self.fault_budget.damages.append(Damage(plan, machine, machine.me, damaged))
                if self.random.random() < 0.5 and machine.node.is_up:
                    machine.crash()

    def _damage_journal(self) -> None:
        """Crash a random machine, flip a bit in its journal, and restart it, if the fault budget allows the loss."""
        machine = self.random_machine()
        if machine.node.is_up and not machine.is_new_disk and self.fault_budget.may_damage(machine):
            machine.crash()
            if damage_journal(machine.disk, machine.me.disk_uuid, self.random, machine.note):
                self.fault_budget.losing_identity[machine.me] = machine
                machine.start()

    def _wipe(self) -> None:
        """Replace the disk of a random machine by an empty one, if the fault budget allows the loss."""
        machine = self.random_machine()
        if not machine.is_new_disk and self.fault_budget.may_damage(machine):
            if machine.node.is_up:
                machine.crash()
            machine.wipe()
            self.keep_down(machine)

    # operators

    def _transfer(self) -> None:
        """Request a leadership transfer in a random Raft group, to a random voter."""
        plan = self.random.choice(self.cluster.groups)
        found = self.cluster.leader(plan)
        if found is not None:
            machine, group = found
            target = self.random.choice(group.core.configuration.all_voters())
            machine.call(partial(self._transfer_to, plan, machine, target))

    def _transfer_to(self, plan: GroupPlan, machine: Machine, target: ReplicaId, driver: Driver) -> None:
        """Transfer the leadership of the group's replica in this driver; note an error."""
        group = driver.groups.get(plan.key)
        try:
            if group is not None:
                machine.note(f"{plan.partition}: hands over to {target}")
                group.transfer_leadership(target)
        except RaftlogError as error:
            machine.note(f"{plan.partition}: does not hand over, {error}")

    def _trim(self) -> None:
        """Trim, on random replicas, records that all readers have read."""
        for plan in self.cluster.groups:
            read_up_to = min(plan.readers_at.values(), default=0)
            for machine in self.all_machines():
                if self.random.random() < 0.6:
                    machine.call(partial(self._trim_at, plan, Offset(read_up_to)))

    def _trim_at(self, plan: GroupPlan, offset: Offset, driver: Driver) -> None:
        """Trim the group's replica in this driver to the offset, at most to its high watermark."""
        group = driver.groups.get(plan.key)
        if group is not None:
            group.trim(min(offset, group.high_watermark))
