"""From where replicas are to where they shall be: leaders change their groups' members, and who was let go leaves.

Who may come in: the broker, which starts it and tells it what happens. What shall be is the controller's assignment
(`control`); who votes is what stands in the group's own log. Moves, replaced disks and other numbers of replicas are
one and the same here.
"""

from raftlog.partitions.placement.moves.leaving import Leaving
from raftlog.partitions.placement.moves.losses import lost_majority
from raftlog.partitions.placement.moves.moves import Moves
from raftlog.partitions.placement.moves.plan import is_reached, next_change

assert __name__.startswith("raftlog."), "import this room as raftlog.partitions.placement.moves"

__all__ = ["Leaving", "Moves", "is_reached", "lost_majority", "next_change"]
