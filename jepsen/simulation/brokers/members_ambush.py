"""An ambush for leaders that change the members of their groups: they die of it, or are cut off, at that very moment.

A leader that has just entered a joint configuration, or has just left it for voters that are new, is struck; so another
one has to find its way out of what is half done. Told by `watch`; made by the nemesis.
"""

from random import Random
from typing import Final

from jepsen.simulation.brokers.faults import Faults
from jepsen.simulation.network.links import SECOND_NS
from jepsen.simulation.properties import Replica
from raftlog.raft import Configuration

DELAYS_S: Final = (0.0, 0.005, 0.05)
STRIKES_MAX: Final = 12


class MembersAmbush:
    """`chance`: of a strike at each change of voters."""

    def __init__(self, faults: Faults, random: Random, chance: float) -> None:
        self._faults, self._random, self._chance = faults, random, chance
        self._left = STRIKES_MAX

    def changed(self, leader: Replica, before: Configuration, after: Configuration) -> None:
        """Strike a leader that appended another configuration, by chance."""
        concerns_voters = before.is_joint or after.is_joint
        if not concerns_voters or self._left == 0 or self._random.random() >= self._chance:
            return
        self._left -= 1
        machine = self._faults.machines[leader.me.node_id]
        loop = self._faults.loop
        machine.note("an ambush: it changes the members of a group")
        delay_ns = int(self._random.choice(DELAYS_S) * self._random.random() * SECOND_NS)
        loop.call_at_ns(loop.now_ns + delay_ns, self._strike, leader)

    def _strike(self, leader: Replica) -> None:
        machine = self._faults.machines[leader.me.node_id]
        if machine.node.starts == leader.incarnation:
            self._faults.strike(machine)

    def end(self) -> None:
        """Stop these faults."""
        self._left = 0
