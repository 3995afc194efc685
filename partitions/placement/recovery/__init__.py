"""A partition that cannot go on by itself: what is left of it, what going on would cost, and doing it when told to.

`Recovering` is the broker's way in; `plan` decides, pure; `standings` is what each replica says of itself.
"""

from raftlog.partitions.placement.recovery.plan import Plan
from raftlog.partitions.placement.recovery.recovering import Recovered, Recovering
from raftlog.partitions.placement.recovery.standings import Absent, ReplicaStanding

__all__ = ["Absent", "Plan", "Recovered", "Recovering", "ReplicaStanding"]
