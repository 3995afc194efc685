"""Answers about placement of partitions: replicas, reassignments, the balancer, recovery of a partition.

Sizes are approximate; None when no broker that answers has them. `reason` and `reasons` are sentences: the
missing or awaited condition, and the next step."""

from collections.abc import Iterable, Sequence
from typing import Literal, Self, TypeAlias

from raftlog.values.value import UNSET, Count, LeaderNumber, Namespace, NodeNumber, UnsetType, Value, Version

BalancerMode: TypeAlias = Literal["off", "node_add", "continuous"]
BalancerState: TypeAlias = Literal["off", "ready", "in_progress", "stalled", "starting"]
PartitionStatus: TypeAlias = Literal["done", "failed"]


MOVES_MAX = 1_000
"""Partitions named in one answer."""


class ReplicaPlace(Value, frozen=True):
    """Place of a replica; `core` is always 0."""

    node_id: NodeNumber
    core: int = 0


def places_of(nodes: Iterable[int]) -> list[ReplicaPlace]:
    """Return the places of replicas on these nodes."""
    return [ReplicaPlace(node) for node in nodes]


class PartitionName(Value, frozen=True, kw_only=True):
    """Partition by the namespace, topic and number that paths of the admin API have."""

    ns: Namespace = "kafka"
    topic: str
    partition: NodeNumber


class Reconfiguration(PartitionName, frozen=True, kw_only=True):
    """Partition with a reassignment pending.

    `previous_replicas` vote now, or voted before a joint configuration; `current_replicas` vote afterwards, and
    `learners` catch up. `bytes_left_to_move` + `bytes_moved` = `partition_size` for each learner; both are sums
    over all learners. `reason`: the condition that the reassignment waits for."""

    previous_replicas: Sequence[ReplicaPlace]
    current_replicas: Sequence[ReplicaPlace]
    learners: Sequence[NodeNumber] = ()
    bytes_left_to_move: Count | None = None
    bytes_moved: Count | None = None
    partition_size: Count | None = None
    bytes_per_s: Count = 0
    reconfiguration_policy: str = "full_local_retention"
    reason: str | None = None
    version: Version = 0

    @property
    def from_nodes(self) -> list[int]:
        return [each.node_id for each in self.previous_replicas]

    @property
    def to_nodes(self) -> list[int]:
        return [each.node_id for each in self.current_replicas]


class LeavingPartition(PartitionName, frozen=True, kw_only=True):
    """Partition with a replica on a broker that is decommissioned; `moving_to` is None while no new place is chosen."""

    moving_to: ReplicaPlace | None
    bytes_left_to_move: Count | None = None
    bytes_moved: Count | None = None
    partition_size: Count | None = None
    bytes_per_s: Count = 0
    reconfiguration_policy: str = "full_local_retention"
    reason: str | None = None

    @classmethod
    def of(cls, move: Reconfiguration, node: int) -> Self:
        """Return a reassignment as the progress of emptying a broker."""
        new = [each for each in move.current_replicas if each.node_id not in move.from_nodes]
        shared = {name: getattr(move, name) for name in cls.__struct_fields__ if name != "moving_to"}
        return cls(moving_to=new[0] if new and node not in move.to_nodes else None, **shared)


class Cancelled(PartitionName, frozen=True, kw_only=True):
    """Reassignment that was cancelled."""

    result: Literal["success"] = "success"


class Ordered(Value, frozen=True):
    """Version after an order."""

    version: Version


class MovesPlanned(Value, frozen=True):
    """Number of partitions that the balancer is going to move."""

    partitions_to_move: Count


class LeaderNow(Value, frozen=True):
    """Node id of a partition's leader."""

    leader_id: LeaderNumber


class LocalReplica(PartitionName, frozen=True, kw_only=True):
    """Replica on the broker that was asked. `is_under_replicated`: as far as its leader is here. `status`: in words."""

    core: int = 0
    leader_id: LeaderNumber
    is_leader: bool
    is_under_replicated: bool
    replicas: Sequence[ReplicaPlace]
    bytes: Count
    status: str


class LocalSummary(Value, frozen=True):
    """Numbers of the replicas on the broker that was asked."""

    count: Count
    leaderless: Count
    under_replicated: Count


class ListedPartition(Value, frozen=True, kw_only=True):
    """Partition, one row of a list."""

    ns: Namespace = "kafka"
    topic: str
    partition_id: NodeNumber
    leader_id: LeaderNumber
    replicas: Sequence[ReplicaPlace]
    disabled: bool = False
    version: Version | None = None


class NamespaceReplica(Value, frozen=True, kw_only=True):
    """Replica of a partition; its lag is None when the leader has no information about it."""

    node_id: NodeNumber
    core: int = 0
    in_sync: bool
    entries_behind: Count | None = None
    bytes_behind: Count | None = None
    catch_up_bytes_per_s: float = 0
    problem: str | None = None


class NamespacePartition(Value, frozen=True, kw_only=True):
    """Partition, as its leader reports it; `problem` is the reason why it cannot be written or read."""

    ns: Namespace = "kafka"
    topic: str
    partition_id: NodeNumber
    status: PartitionStatus = "done"
    leader_id: LeaderNumber
    replicas: Sequence[NamespaceReplica]
    leader_epoch: Count | None = None
    high_watermark: Count | None = None
    log_start_offset: Count | None = None
    version: Version | None = None
    problem: str | None = None


class BalancerViolations(Value, frozen=True):
    """Brokers that are away, and brokers without room."""

    unavailable_nodes: Sequence[NodeNumber] = ()
    over_disk_limit_nodes: Sequence[NodeNumber] = ()


class BalancerStatus(Value, frozen=True):
    """State of the balancer of the controller's leader. `stalled`: something should move and cannot; `reasons` why."""

    status: BalancerState
    mode: BalancerMode
    violations: BalancerViolations
    seconds_since_last_tick: float | None
    current_reassignments_count: Count
    reasons: Sequence[str]


class RecoveredRange(Value, frozen=True):
    """Offsets of a log that cannot be read."""

    first_offset: Count
    end_offset: Count
    problem: str


class RecoveryReplica(Value, frozen=True, kw_only=True):
    """Replica of a partition that cannot go on; without an answer, or without a replica, the rest is left out."""

    node_id: NodeNumber
    reachable: bool
    has_replica: bool | UnsetType = UNSET
    disk_uuid: str | UnsetType = UNSET
    is_leader: bool | UnsetType = UNSET
    term: Count | UnsetType = UNSET
    last_index: Count | UnsetType = UNSET
    last_term: Count | UnsetType = UNSET
    log_start_offset: Count | UnsetType = UNSET
    log_end_offset: Count | UnsetType = UNSET
    voters: Sequence[NodeNumber] | UnsetType = UNSET
    problem: str | UnsetType | None = UNSET
    damaged: Sequence[RecoveredRange] | UnsetType = UNSET


class ReplacedDisk(Value, frozen=True):
    """Disk that was replaced, and held a replica."""

    node_id: NodeNumber
    disk_uuid: str


class PartitionRecovery(Value, frozen=True, kw_only=True):
    """Partition without a majority of its replicas, and the plan to continue with the log of `survivor`.

    `loss`: sentences about the data that the plan loses. `refusal`: reason why there is no plan. `lost_offsets`:
    first and end offset of each lost range."""

    topic: str
    partition_id: NodeNumber
    replicas: Sequence[RecoveryReplica]
    replaced_disks: Sequence[ReplacedDisk]
    survivor: NodeNumber | None
    refusal: str | None
    loss: Sequence[str]
    done: bool
    lost_offsets: Sequence[Sequence[Count]]
    kept_in: Sequence[str]
