"""Recovery of a partition that lost its majority: its remains, the loss, and the recovery on an operator's order.

`Recovering` is the broker's entry point; `plan` decides, pure; `standings` is each replica's report of itself."""

from raftlog.partitions.placement.recovery.plan import Plan
from raftlog.partitions.placement.recovery.recovering import Recovered, Recovering
from raftlog.partitions.placement.recovery.standings import Absent, ReplicaStanding

__all__ = ["Absent", "Plan", "Recovered", "Recovering", "ReplicaStanding"]
