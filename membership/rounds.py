"""Order of probes: each member once a round, in a new random order (SWIM 4.3).

So a member is probed at most 2n - 1 turns after its last probe. A joining member gets a random position in the rest of
the present round. Called by the machine."""

from random import Random

from raftlog.membership.roster import Roster
from raftlog.types import NodeId


class Rounds:
    """Random order in which members are probed, each once a round.

    `_left` is the rest of the round, the next member last; it skips members that are not up."""

    def __init__(self, roster: Roster, random: Random) -> None:
        self._roster = roster
        self._random = random
        self._left: list[NodeId] = []

    def insert(self, node_id: NodeId) -> None:
        """Insert a member that became up into the present round."""
        self._left.insert(self._random.randint(0, len(self._left)), node_id)

    def next_target(self) -> NodeId | None:
        """Return the next member to probe; None if there is no other member."""
        for _ in range(2):
            while self._left:
                member = self._roster.get(self._left.pop())
                if member is not None and member.state.is_up:
                    return member.node_id
            self._left = self._roster.others_up()
            self._random.shuffle(self._left)
        return None
