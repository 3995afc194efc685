"""Answers about topics, in the form of the REST Proxy's v2."""

from collections.abc import Mapping, Sequence

from msgspec import UNSET, UnsetType, field

from raftlog.types import Offset
from raftlog.values.value import NO_LEADER, Count, LeaderNumber, NodeNumber, Value


class BrokerIds(Value, frozen=True):
    """Answer of `GET /brokers`: node ids of the registered brokers."""

    brokers: Sequence[NodeNumber]


class TopicReplica(Value, frozen=True, kw_only=True):
    """Replica of a partition: node id of its broker, whether it leads, whether it is in sync."""

    broker: NodeNumber
    leader: bool = False
    in_sync: bool


class PartitionDescription(Value, frozen=True, kw_only=True):
    """Partition and its replicas, as reported by its leader; without an answer of a leader the offsets are None.

    `problem` is the reason why the partition cannot be written or read; it is omitted if there is none."""

    partition: NodeNumber
    leader_id: LeaderNumber = field(name="leader", default=NO_LEADER)
    replica_rows: Sequence[TopicReplica] = field(name="replicas")
    leader_epoch: Count | None = None
    high_watermark: Offset | None = None
    log_start_offset: Offset | None = None
    reported_problem: str | UnsetType | None = field(name="problem", default=UNSET)

    @property
    def leader(self) -> int | None:
        """Node id of the leader; None while there is none."""
        return None if self.leader_id == NO_LEADER else self.leader_id

    @property
    def replicas(self) -> list[int]:
        """Node ids of the replicas, the preferred leader first."""
        return [each.broker for each in self.replica_rows]

    @property
    def in_sync(self) -> list[int]:
        """Node ids of the replicas that are in sync."""
        return [each.broker for each in self.replica_rows if each.in_sync]

    @property
    def problem(self) -> str | None:
        """Reason why the partition cannot be written or read; None if there is none."""
        return None if self.reported_problem is UNSET else self.reported_problem


class TopicDescription(Value, frozen=True):
    """Description of a topic; settings are text under Kafka's names."""

    name: str
    configs: Mapping[str, str]
    replicas: Sequence[PartitionDescription] = field(name="partitions")
    """Partitions by number, with their replicas."""

    @property
    def partitions(self) -> int:
        """Number of partitions."""
        return len(self.replicas)

    @property
    def replication_factor(self) -> int:
        return max((len(each.replica_rows) for each in self.replicas), default=1)
