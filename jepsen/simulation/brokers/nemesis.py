"""What befalls the brokers: a rough start perhaps, then periods with faults and quiet ones, and an end where all heals.

A supervisor starts what is down. What each fault does is in `faults`.
"""

from random import Random
from typing import Final

from jepsen.simulation.brokers.cluster import BrokerCluster, Machine
from jepsen.simulation.brokers.faults import Faults
from jepsen.simulation.links import MILLISECOND_NS, SECOND_NS
from jepsen.simulation.options import Fault

SUPERVISE_NS: Final = 100 * MILLISECOND_NS
PERIOD_S: Final = (1.5, 5.0)
BIRTH_S: Final = 4.0
"""What disturbs the founding of the cluster happens within this."""
BIRTH_FAULTS: Final = (Fault.CRASH, Fault.POWER, Fault.HALVES, Fault.ISOLATED, Fault.ONE_WAY, Fault.RESET, Fault.PAUSE)


class Nemesis:
    """See the module."""

    def __init__(self, cluster: BrokerCluster, random: Random) -> None:
        self.cluster, self.random = cluster, random
        self.loop = cluster.loop
        self.faults = Faults(cluster, cluster.random("faults"))
        self._is_over = False

    def start(self) -> None:
        self._supervise()
        for machine in self.cluster.machines.values():
            if self.random.random() < self.cluster.options.rough_start:
                self._disturb_later(machine)
        if self.cluster.options.faults:
            self.loop.call_at_ns(self.loop.now_ns + 6 * SECOND_NS, self._period)

    def end(self) -> None:
        """No more faults; everything heals that can."""
        self._is_over = True
        self.cluster.recorder.nemesis("heal for good")
        self.faults.heal_for_good()

    def _heal(self) -> None:
        self.cluster.recorder.nemesis("heal")
        self.faults.heal()

    def _disturb_later(self, machine: Machine) -> None:
        """Something while the cluster is founded, at a moment when nearly everything happens at once."""
        for _ in range(self.random.choice((1, 1, 3))):
            seconds = self.random.uniform(0, BIRTH_S)
            self.loop.call_at_ns(self.loop.now_ns + int(seconds * SECOND_NS), self._disturb, machine)

    def _disturb(self, machine: Machine) -> None:
        fault = self.random.choice(BIRTH_FAULTS)
        self.cluster.recorder.nemesis(fault.value)
        if fault is Fault.CRASH and machine.node.is_up:
            machine.crash()
        elif fault is Fault.POWER:
            machine.lose_power()
        else:
            self.faults.inflict(fault)

    def _period(self) -> None:
        if self._is_over:
            return
        options = self.cluster.options
        if self.random.random() < options.quiet:
            self.loop.note("nemesis", "a quiet period")
            self._heal()
        else:
            for fault in self.random.choices(options.faults, k=self.random.randint(1, 3)):
                self.cluster.recorder.nemesis(fault.value)
                self.faults.inflict(fault)
        self.loop.call_at_ns(self.loop.now_ns + int(self.random.uniform(*PERIOD_S) * SECOND_NS), self._period)

    def _supervise(self) -> None:
        """Start again what was started once, is down, and need not stay so."""
        self.loop.call_at_ns(self.loop.now_ns + SUPERVISE_NS, self._supervise)
        for machine in self.cluster.machines.values():
            if machine.node.process is None and machine.node.starts and self.faults.may_start(machine):
                machine.start()
