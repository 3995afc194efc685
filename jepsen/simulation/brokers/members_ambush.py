"""Ambush: crash or isolate a leader at the moment when it changes the Raft configuration.

The strike hits a leader that has just entered a joint configuration, or left it for new voters, so that another leader
must complete the change. Called by `watch`; created by the nemesis.
"""

from random import Random
from typing import Final

from jepsen.simulation.brokers.faults import Faults
from jepsen.simulation.network.links import SECOND_NS
from jepsen.simulation.properties import Replica
from raftlog.raft import Configuration

DELAYS_S: Final = (0.0, 0.005, 0.05)
STRIKES_MAX: Final = 12


class MembershipAmbush:
    """Faults that hit leaders during configuration changes; `chance` is their probability at each change of voters."""

    def __init__(self, faults: Faults, random: Random, chance: float) -> None:
        self._faults, self._random, self._chance = faults, random, chance
        self._left = STRIKES_MAX

    def on_change(self, leader: Replica, before: Configuration, after: Configuration) -> None:
        """Crash or isolate, by chance, a leader that has appended another Raft configuration."""
        concerns_voters = before.is_joint or after.is_joint
        if not concerns_voters or self._left == 0 or self._random.random() >= self._chance:
            return
        self._left -= 1
        machine = self._faults.machines[leader.me.node_id]
        loop = self._faults.loop
        machine.note("an ambush: it changes a Raft configuration")
        delay_ns = int(self._random.choice(DELAYS_S) * self._random.random() * SECOND_NS)
        loop.call_at_ns(loop.now_ns + delay_ns, self._strike, leader)

    def _strike(self, leader: Replica) -> None:
        """Inject a fault into the leader's machine, unless its process has ended since then."""
        machine = self._faults.machines[leader.me.node_id]
        if machine.node.starts == leader.incarnation:
            self._faults.strike(machine)

    def end(self) -> None:
        """Stop these faults."""
        self._left = 0
