"""Answers about placement of partitions: replicas, reassignments, the balancer, recovery of a partition.

Sizes are approximate; None if no answering broker has them. `reason` and `reasons` are sentences: the missing or
awaited condition, and the next step."""

from collections.abc import Iterable, Sequence
from typing import Literal, Self, TypeAlias

from raftlog.values.value import UNSET, Count, LeaderNumber, Namespace, NodeNumber, UnsetType, Value, Version

BalancerMode: TypeAlias = Literal["off", "node_add", "continuous"]
BalancerState: TypeAlias = Literal["off", "ready", "in_progress", "stalled", "starting"]
PartitionStatus: TypeAlias = Literal["done", "failed"]


MOVES_MAX = 1_000
"""Maximum number of partitions in one answer."""


class ReplicaPlace(Value, frozen=True):
    """Broker that has a replica, in the form of the admin API; `core` is always 0."""

    node_id: NodeNumber
    core: int = 0


def make_places(nodes: Iterable[int]) -> list[ReplicaPlace]:
    """Return the `ReplicaPlace` of each node."""
    return [ReplicaPlace(node) for node in nodes]


class PartitionName(Value, frozen=True, kw_only=True):
    """Name of a partition: namespace, topic and number, as in paths of the admin API."""

    ns: Namespace = "kafka"
    topic: str
    partition: NodeNumber


class Reconfiguration(PartitionName, frozen=True, kw_only=True):
    """Partition with a pending reassignment.

    `previous_replicas` vote now, or voted before a joint configuration; `current_replicas` vote afterwards, and
    `learners` catch up. `bytes_left_to_move` + `bytes_moved` = `partition_size` for each learner; both are sums
    over all learners. `reason`: the condition for which the reassignment waits."""

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
        """Node ids of the replicas before the reassignment."""
        return [each.node_id for each in self.previous_replicas]

    @property
    def to_nodes(self) -> list[int]:
        """Node ids of the replicas after the reassignment."""
        return [each.node_id for each in self.current_replicas]


class LeavingPartition(PartitionName, frozen=True, kw_only=True):
    """Partition with a replica on a broker that is decommissioned; `moving_to` is None until a place is chosen."""

    moving_to: ReplicaPlace | None
    bytes_left_to_move: Count | None = None
    bytes_moved: Count | None = None
    partition_size: Count | None = None
    bytes_per_s: Count = 0
    reconfiguration_policy: str = "full_local_retention"
    reason: str | None = None

    @classmethod
    def from_reassignment(cls, move: Reconfiguration, node: int) -> Self:
        """Return the `LeavingPartition` of a reassignment that removes a replica from broker `node`."""
        new = [each for each in move.current_replicas if each.node_id not in move.from_nodes]
        shared = {name: getattr(move, name) for name in cls.__struct_fields__ if name != "moving_to"}
        return cls(moving_to=new[0] if new and node not in move.to_nodes else None, **shared)


class CancelledReassignment(PartitionName, frozen=True, kw_only=True):
    """Reassignment that was cancelled."""

    result: Literal["success"] = "success"


class AssignmentVersion(Value, frozen=True):
    """Version of the partition's assignment after an accepted request."""

    version: Version


class PlannedMoves(Value, frozen=True):
    """Number of partitions that the balancer has planned to move."""

    partitions_to_move: Count


class CurrentLeader(Value, frozen=True):
    """Node id of a partition's leader."""

    leader_id: LeaderNumber


class LocalReplica(PartitionName, frozen=True, kw_only=True):
    """Replica on the answering broker. `is_under_replicated`: set only on the leader's broker. `status`: in words."""

    core: int = 0
    leader_id: LeaderNumber
    is_leader: bool
    is_under_replicated: bool
    replicas: Sequence[ReplicaPlace]
    bytes: Count
    status: str


class LocalSummary(Value, frozen=True):
    """Counts of the replicas on the answering broker."""

    count: Count
    leaderless: Count
    under_replicated: Count


class ListedPartition(Value, frozen=True, kw_only=True):
    """Row of a list of partitions."""

    ns: Namespace = "kafka"
    topic: str
    partition_id: NodeNumber
    leader_id: LeaderNumber
    replicas: Sequence[ReplicaPlace]
    disabled: bool = False
    version: Version | None = None


class NamespaceReplica(Value, frozen=True, kw_only=True):
    """Replica of a partition; its lag is None if the leader does not have it."""

    node_id: NodeNumber
    core: int = 0
    in_sync: bool
    entries_behind: Count | None = None
    bytes_behind: Count | None = None
    catch_up_bytes_per_s: float = 0
    problem: str | None = None


class NamespacePartition(Value, frozen=True, kw_only=True):
    """Partition, as reported by its leader; `problem` is the reason why it cannot be written or read."""

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
    """Brokers that are unavailable, and brokers without disk space."""

    unavailable_nodes: Sequence[NodeNumber] = ()
    over_disk_limit_nodes: Sequence[NodeNumber] = ()


class BalancerStatus(Value, frozen=True):
    """State of the balancer, at the controller's leader. `stalled`: necessary moves are impossible; `reasons` why."""

    status: BalancerState
    mode: BalancerMode
    violations: BalancerViolations
    seconds_since_last_tick: float | None
    current_reassignments_count: Count
    reasons: Sequence[str]


class RecoveredRange(Value, frozen=True):
    """Range of offsets of a log that cannot be read."""

    first_offset: Count
    end_offset: Count
    problem: str


class RecoveryReplica(Value, frozen=True, kw_only=True):
    """Replica of a partition that needs recovery; without an answer or a replica the other fields are omitted."""

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
    """Disk that held a replica and was replaced."""

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
