"""Recovery of a partition that lost its majority: its remains, the loss, and the recovery on an operator's order.

`RecoveryExecution` is the broker's entry point; `plan` decides, pure; `replica_standing` is each replica's
report of itself."""

from raftlog.partitions.placement.recovery.execution import Recovered, RecoveryExecution
from raftlog.partitions.placement.recovery.plan import Plan
from raftlog.partitions.placement.recovery.replica_standing import Absent, ReplicaStanding

__all__ = ["Absent", "Plan", "Recovered", "RecoveryExecution", "ReplicaStanding"]
