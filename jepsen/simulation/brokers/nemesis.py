"""Nemesis of brokers: perhaps faults at the start, then periods with and without faults, then recovery.

A supervisor starts machines that are down. The effect of each fault is in `faults`; `workload.operators` sends the
requests of operators."""

from random import Random
from typing import Final

from jepsen.simulation.brokers.cluster import BrokerCluster, Machine
from jepsen.simulation.brokers.faults import Faults
from jepsen.simulation.brokers.members_ambush import MembershipAmbush
from jepsen.simulation.brokers.workload.early_changes import EarlyOperator
from jepsen.simulation.brokers.workload.operators import AcceptedRequests, Operator
from jepsen.simulation.network.links import MILLISECOND_NS, SECOND_NS
from jepsen.simulation.options import Fault
from raftlog.types import NodeId

SUPERVISE_NS: Final = 100 * MILLISECOND_NS
PERIOD_S: Final = (1.5, 5.0)
BIRTH_S: Final = 4.0
"""Time, in seconds, within which disturbances of the cluster's founding happen."""
BIRTH_FAULTS: Final = (Fault.CRASH, Fault.POWER, Fault.HALVES, Fault.ISOLATED, Fault.ONE_WAY, Fault.RESET, Fault.PAUSE)


class Nemesis:
    """Nemesis of one run of brokers."""

    def __init__(self, cluster: BrokerCluster, random: Random) -> None:
        self.cluster, self.random = cluster, random
        self.loop = cluster.loop
        self.faults = Faults(cluster, cluster.random("faults"))
        self.taken = AcceptedRequests()
        elasticity = cluster.options.elasticity
        self._operators = [
            Operator(cluster, cluster.random(f"operator {place}"), self.faults, self.taken)
            for place in range(elasticity.operators)
        ]
        self.early_operators: list[EarlyOperator] = []
        if (early := cluster.options.early_changes) is not None:
            self.early_operators += (
                EarlyOperator(cluster, place, early, self.faults, self.taken) for place in range(early.operators)
            )
        self._ambush = MembershipAmbush(self.faults, cluster.random("members ambush"), elasticity.ambushes)
        cluster.watch.on_change = self._ambush.on_change
        self._restarted_removed: dict[NodeId, bool] = {}
        """Machines whose brokers were removed; true if the machine was started again since then."""
        self._is_over = False

    def start(self) -> None:
        """Start the supervisor, faults of the founding, the faults of the run, and the operators."""
        self._supervise()
        for machine in self.cluster.machines.values():
            if self.random.random() < self.cluster.options.rough_start:
                self._disturb_later(machine)
        if self.cluster.options.faults:
            self.loop.call_at_ns(self.loop.now_ns + 6 * SECOND_NS, self._begin_period)
        for operator in (*self._operators, *self.early_operators):
            operator.step_later(6 * SECOND_NS)

    def end(self) -> None:
        """Inject no more faults, and end those under way as far as possible."""
        self._is_over = True
        self._ambush.end()
        for operator in (*self._operators, *self.early_operators):
            operator.is_stopped = True
        self.cluster.recorder.nemesis("heal for good")
        self.faults.heal_for_good()

    def _heal(self) -> None:
        """End all faults that can end at once, and record that in the history."""
        self.cluster.recorder.nemesis("heal")
        self.faults.heal()

    def _disturb_later(self, machine: Machine) -> None:
        """Inject a fault into a machine while the cluster is being founded."""
        for _ in range(self.random.choice((1, 1, 3))):
            seconds = self.random.uniform(0, BIRTH_S)
            self.loop.call_at_ns(self.loop.now_ns + int(seconds * SECOND_NS), self._disturb, machine)

    def _disturb(self, machine: Machine) -> None:
        """Crash this machine, cut its power, or inject another fault, at random."""
        fault = self.random.choice(BIRTH_FAULTS)
        self.cluster.recorder.nemesis(fault.value)
        if fault is Fault.CRASH and machine.node.is_up:
            machine.crash()
        elif fault is Fault.POWER:
            machine.lose_power()
        else:
            self.faults.inject(fault)

    def _begin_period(self) -> None:
        """Begin a period of random length, with faults or without, and schedule the next one."""
        if self._is_over:
            return
        options = self.cluster.options
        if self.random.random() < options.quiet:
            self.loop.note("nemesis", "a quiet period")
            self._heal()
        else:
            for fault in self.random.choices(options.faults, k=self.random.randint(1, 3)):
                self.cluster.recorder.nemesis(fault.value)
                self.faults.inject(fault)
        self.loop.call_at_ns(self.loop.now_ns + int(self.random.uniform(*PERIOD_S) * SECOND_NS), self._begin_period)

    def _supervise(self) -> None:
        """Restart nodes that are down and are meant to run."""
        self.loop.call_at_ns(self.loop.now_ns + SUPERVISE_NS, self._supervise)
        for machine in self.cluster.machines.values():
            if machine.node.process is None and machine.node.starts and self.faults.may_start(machine):
                if self.cluster.is_removed(machine):
                    self._restart_removed(machine)
                else:
                    machine.start()

    def _restart_removed(self, machine: Machine) -> None:
        """Start a removed machine once more, with its old disk, which the cluster refuses, or with an empty one."""
        node = machine.node_id
        if node not in self._restarted_removed:
            self._restarted_removed[node] = False
            self.faults.keep_down(machine)
        elif not self._is_over and not self._restarted_removed[node]:
            self._restarted_removed[node] = True
            if self.random.random() < self.cluster.options.elasticity.returns and self._has_other_seed(machine):
                machine.wipe()
            machine.start()

    def _has_other_seed(self, machine: Machine) -> bool:
        """Return whether another seed is in the cluster. A broker with an empty disk needs one to find the cluster."""
        seeds = (each for each in self.cluster.members() if each.node_id <= self.cluster.options.seeds)
        return any(seed is not machine for seed in seeds)
