"""Nemesis of the cluster: periods with faults, quiet periods, and an end at which all faults end.

A period draws one to three of the kinds of faults that the run's options allow. A fault ends after a drawn time, within
its period or beyond it, so that some overlap; before a quiet period all faults end. A supervisor starts machines
that are down. The effect of each fault is in `faults`."""

from random import Random
from typing import Final

from jepsen.simulation.cluster import Cluster
from jepsen.simulation.nemesis.cut_ambushes import CutAmbushes
from jepsen.simulation.nemesis.fault_budget import FaultBudget
from jepsen.simulation.nemesis.faults import Faults
from jepsen.simulation.network.links import MILLISECOND_NS, SECOND_NS
from jepsen.simulation.operator import Operator

SUPERVISE_NS: Final = 100 * MILLISECOND_NS
PERIOD_S: Final = (1.5, 5.0)


class Nemesis:
    """Injector of the faults of one run: draws, begins and ends them."""

    def __init__(self, cluster: Cluster, random: Random) -> None:
        self.cluster, self.random = cluster, random
        self.loop = cluster.loop
        self.fault_budget = FaultBudget(cluster)
        self.operators = [
            Operator(cluster, plan, self.fault_budget, cluster.random(f"operator {plan.number}"))
            for plan in cluster.groups
        ]
        self.faults = Faults(cluster, self.fault_budget, self.operators, cluster.random("faults"))
        self.cut_ambushes = (
            CutAmbushes(cluster, cluster.random("cut ambushes")) if cluster.options.cut_ambushes else None
        )
        self._is_over = False

    def start(self) -> None:
        """Start the operators, the supervisor and the faults."""
        for operator in self.operators:
            operator.start()
        self._supervise()
        if self.cut_ambushes is not None:
            self.cut_ambushes.start()
        if self.cluster.options.faults:
            self.loop.call_at_ns(self.loop.now_ns + SECOND_NS, self._begin_period)

    def end(self) -> None:
        """Inject no more faults, and end those under way as far as possible."""
        self._is_over = True
        if self.cut_ambushes is not None:
            self.cut_ambushes.end()
        for operator in self.operators:
            operator.has_interference = False
        self.heal()

    def heal(self) -> None:
        """End all faults that can end at once, and record that in the history."""
        self.cluster.recorder.nemesis("heal")
        self.faults.heal()

    def _begin_period(self) -> None:
        """Begin a period, with one to three faults or quiet, and schedule the next one."""
        if self._is_over:
            return
        options = self.cluster.options
        if self.random.random() < options.quiet:
            self.loop.note("nemesis", "a quiet period")
            self.heal()
        else:
            for fault in self.random.choices(options.faults, k=self.random.randint(1, 3)):
                self.cluster.recorder.nemesis(fault.value)
                self.faults.inject(fault)
        self.loop.call_at_ns(self.loop.now_ns + int(self.random.uniform(*PERIOD_S) * SECOND_NS), self._begin_period)

    def _supervise(self) -> None:
        """Start the nodes that are down, unless a fault keeps them down."""
        self.loop.call_at_ns(self.loop.now_ns + SUPERVISE_NS, self._supervise)
        for machine in self.cluster.machines.values():
            if machine.node.process is None and self.faults.down_until_ns.get(machine.node_id, 0) <= self.loop.now_ns:
                machine.start()
