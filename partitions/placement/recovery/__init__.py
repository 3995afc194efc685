"""Recovery of a partition that lost its majority: remaining replicas, possible loss, and execution if accepted.

`RecoveryExecution` is the broker's entry point; `plan` decides, pure; `replica_status` is each replica's
report of itself."""

from raftlog.partitions.placement.recovery.execution import RecoveryExecution, RecoveryResult
from raftlog.partitions.placement.recovery.plan import Plan
from raftlog.partitions.placement.recovery.replica_status import AbsentReplica, ReplicaStatus

__all__ = ["AbsentReplica", "Plan", "RecoveryExecution", "RecoveryResult", "ReplicaStatus"]
