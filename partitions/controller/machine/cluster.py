"""State of a cluster as tables, and queries on it.

Some answers come from indexes that are derived from the tables and kept in step with them here: topics by name,
groups by id, and the loads of replicas. Only `put_…`, `remove_…`, `replace_…` and `retire` change the state; they
are called by the rules (`broker_rules`, `topic_rules`) once a command is accepted, and when a snapshot is read.

    every group of every topic is in `groups` once,   a topic that was deleted is not in `topics` and never again

Answers with several items are sorted. Assignments of replicas are the controller's decisions; the voters are
in each group's own log."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import UUID

from raftlog.errors import UnknownBroker, UnknownPartition, UnknownTopic
from raftlog.partitions.controller.machine.commands import Bootstrap
from raftlog.partitions.controller.machine.naming import GroupName, group_keys
from raftlog.partitions.controller.machine.placement import PlacementCandidate
from raftlog.partitions.controller.machine.rows import (
    AclRow,
    AnsweredRequest,
    BrokerMaintenance,
    ClusterSettings,
    DeletedTopic,
    QuotaRow,
    RegisteredBroker,
    ReplicaAssignment,
    RetiredDisk,
    SaltSecret,
    TopicRow,
    UserRow,
)
from raftlog.partitions.controller.machine.table import Table
from raftlog.raft import ReplicaId
from raftlog.types import Index, NodeId


class ReplicaLoad(NamedTuple):
    """Number of Raft groups with a replica on a broker, and of those with the broker as preferred leader."""

    replicas: int
    leaders: int


class ClusterState:
    """State of the cluster in the controller: brokers, topics and assignments."""

    def __init__(self) -> None:
        """Create the state before the bootstrap: all tables are empty."""
        self.bootstrap: Bootstrap | None = None
        self.feature_level = 0
        """Feature level; 0 before the bootstrap; never falls."""
        self.next_producer_id = 0
        """First producer id that is not allocated; advanced by blocks."""
        self.brokers: Table[int, RegisteredBroker] = Table("brokers", RegisteredBroker, lambda row: row.node_id)
        self.retired: Table[UUID, RetiredDisk] = Table("retired_disks", RetiredDisk, lambda row: row.disk_uuid)
        self.topics: Table[UUID, TopicRow] = Table("topics", TopicRow, lambda row: row.topic_id)
        self.moved: Table[GroupName, ReplicaAssignment] = Table("assignments", ReplicaAssignment, lambda row: row.group)
        """Assignments that differ from those of the creation."""
        self.deleted: Table[UUID, DeletedTopic] = Table("deleted_topics", DeletedTopic, lambda row: row.topic_id)
        self.maintenance: Table[int, BrokerMaintenance] = Table(
            "maintenance", BrokerMaintenance, lambda row: row.node_id
        )
        self.settings: Table[int, ClusterSettings] = Table("cluster_config", ClusterSettings, lambda row: 0)
        """Settings of the cluster, at most one row."""
        self.users: Table[str, UserRow] = Table("users", UserRow, lambda row: row.name)
        self.acls: Table[tuple[Any, ...], AclRow] = Table("acls", AclRow, lambda row: row.entry.key)
        self.client_quotas: Table[tuple[tuple[str, str], ...], QuotaRow] = Table(
            "client_quotas", QuotaRow, lambda row: row.entity
        )
        self.secrets: Table[int, SaltSecret] = Table("salt_secret", SaltSecret, lambda row: 0)
        """Secret of the cluster, at most one row; present once a user was created."""
        self.answered: Table[UUID, AnsweredRequest] = Table(
            "requests", AnsweredRequest, lambda row: row.request_id, order=lambda row: row.version
        )
        self._ids_by_name: dict[str, UUID] = {}
        self._groups: dict[bytes, GroupName] = {}
        self._replica_counts: Counter[ReplicaId] = Counter()
        self._leader_counts: Counter[ReplicaId] = Counter()

    def tables(self) -> tuple[Table[Any, Any], ...]:
        """Return the tables in the order of a snapshot, which is that of their creation."""
        return tuple(each for each in vars(self).values() if isinstance(each, Table))

    # brokers

    def all_brokers(self) -> list[RegisteredBroker]:
        """Return the registered brokers, sorted by node id."""
        return sorted(self.brokers, key=lambda broker: broker.node_id)

    def broker(self, node_id: NodeId) -> RegisteredBroker:
        """Return a broker. Raises `UnknownBroker`."""
        broker = self.brokers.get(node_id)
        if broker is None:
            raise UnknownBroker(f"there is no broker {node_id}")
        return broker

    def broker_of(self, replica: ReplicaId) -> RegisteredBroker | None:
        """Return the broker that owns this disk now; None if there is none."""
        broker = self.brokers.get(replica.node_id)
        return broker if broker is not None and broker.disk_uuid == replica.disk_uuid else None

    def require_broker(self, node_id: NodeId, disk_uuid: UUID) -> RegisteredBroker:
        """Return the broker of this node id with this disk. Raises `UnknownBroker`."""
        broker = self.broker_of(ReplicaId(node_id, disk_uuid))
        if broker is None:
            raise UnknownBroker(f"there is no broker {node_id} with the disk {disk_uuid}")
        return broker

    def disk_of(self, node_id: NodeId) -> UUID | None:
        """Return the disk that owns a node id: that of the registered broker, or of a seed before it registers."""
        broker = self.brokers.get(node_id)
        if broker is not None:
            return broker.disk_uuid
        return next((seed.disk_uuid for seed in self.absent_seeds() if seed.node_id == node_id), None)

    def absent_seeds(self) -> Iterator[ReplicaId]:
        """Yield seeds that are not registered and whose disk is not retired."""
        for seed in self.bootstrap.seeds if self.bootstrap else ():
            if seed.disk_uuid not in self.retired and seed.node_id not in self.brokers:
                yield seed

    def load(self, replica: ReplicaId) -> ReplicaLoad:
        """Return the number of replicas and of preferred leaderships of a disk."""
        return ReplicaLoad(self._replica_counts[replica], self._leader_counts[replica])

    def candidates(self) -> list[PlacementCandidate]:
        """Return the brokers that may get new replicas, for `place`."""
        return [
            PlacementCandidate(broker.replica, broker.host, *self.load(broker.replica))
            for broker in self.all_brokers()
            if not self.is_excluded(broker.node_id)
        ]

    def is_in_maintenance(self, node_id: NodeId) -> bool:
        row = self.maintenance.get(node_id)
        return row is not None and row.is_on

    def in_maintenance(self) -> list[NodeId]:
        """Return the node ids of brokers in maintenance mode, sorted."""
        return sorted(row.node_id for row in self.maintenance if row.is_on)

    def is_excluded(self, node_id: NodeId) -> bool:
        """Return whether a broker is draining or in maintenance: it leads nothing and receives no replicas."""
        broker = self.brokers.get(node_id)
        return self.is_in_maintenance(node_id) or (broker is not None and broker.is_draining)

    # topics

    def topic(self, name: str) -> TopicRow:
        """Return a topic by name. Raises `UnknownTopic`."""
        topic_id = self._ids_by_name.get(name)
        if topic_id is None:
            raise UnknownTopic(f"topic {name!r} does not exist; create it first")
        return self.topics[topic_id]

    def topic_by_id(self, topic_id: UUID) -> TopicRow:
        """Return a topic by uuid. Raises `UnknownTopic`, with the name if it was deleted."""
        topic = self.topics.get(topic_id)
        if topic is None:
            tombstone = self.deleted.get(topic_id)
            name = f"; it was {tombstone.name!r} and was deleted" if tombstone else ""
            raise UnknownTopic(f"no topic has the uuid {topic_id}{name}")
        return topic

    def topic_names(self) -> list[str]:
        """Return the names of all topics, internal ones included, sorted."""
        return sorted(self._ids_by_name)

    def has_topic(self, name: str) -> bool:
        return name in self._ids_by_name

    # groups

    def assignment(self, group: GroupName) -> ReplicaAssignment:
        """Return the assigned replicas of a partition. Raises `UnknownTopic` and `UnknownPartition`."""
        topic = self.topic_by_id(group.topic_id)
        if not 0 <= group.partition < topic.partition_count:
            raise UnknownPartition(
                f"topic {topic.name} has no partition {group.partition}; "
                f"it has partitions 0 to {topic.partition_count - 1}"
            )
        moved = self.moved.get(group)
        if moved is not None:
            return moved
        origin = topic.origin(group.partition)
        return ReplicaAssignment(*group, origin.replicas, origin.version)

    def replicas_of(self, topic: TopicRow) -> list[tuple[ReplicaId, ...]]:
        """Return the assigned replicas of each partition, in the order of the partitions."""
        placed = list(topic.first_replicas)
        if len(self.moved):
            for partition in range(len(placed)):
                moved = self.moved.get(GroupName(topic.topic_id, partition))
                if moved is not None:
                    placed[partition] = moved.replicas
        return placed

    def group(self, group_id: UUID) -> GroupName | None:
        """Return topic and partition of a Raft group; None if it is unknown."""
        return self._groups.get(group_id.bytes)

    def has_group(self, group: GroupName) -> bool:
        """Return whether the partition exists."""
        topic = self.topics.get(group.topic_id)
        return topic is not None and 0 <= group.partition < topic.partition_count

    def group_keys(self) -> Iterable[bytes]:
        """Return the ids of all Raft groups except the controller's."""
        return self._groups

    def group_count(self) -> int:
        """Return the number of partitions of all topics."""
        return len(self._groups)

    def groups_of(self, replica: ReplicaId) -> list[GroupName]:
        """Return the partitions assigned to this replica; scans all assignments."""
        return [
            GroupName(topic.topic_id, partition)
            for topic in sorted(self.topics, key=lambda topic: topic.topic_id)
            for partition, replicas in enumerate(self.replicas_of(topic))
            if replica in replicas
        ]

    def deletion_of(self, group_id: UUID, partition: int) -> DeletedTopic | None:
        """Return the deleted topic whose partition this Raft group was, or None; scans all tombstones."""
        for tombstone in self.deleted:
            if partition < tombstone.partition_count and GroupName(tombstone.topic_id, partition).group_id == group_id:
                return tombstone
        return None

    # changes

    def retire(self, disk_uuid: UUID, node_id: NodeId, index: Index) -> None:
        """Exclude a disk permanently; its assignments stay until they are changed."""
        self.retired.put(RetiredDisk(disk_uuid, node_id, index))
        broker = self.brokers.get(node_id)
        if broker is not None and broker.disk_uuid == disk_uuid:
            self.brokers.remove(node_id)

    def replace_replica(self, old: ReplicaId, new: ReplicaId, index: Index) -> None:
        """Assign all replicas of the disk `old` to the disk `new`, at the same positions.

        Adds a row for each replaced replica."""
        for group in self.groups_of(old):
            current = self.assignment(group)
            replicas = tuple(new if replica == old else replica for replica in current.replicas)
            self.put_assignment(replace(current, replicas=replicas, version=index))

    def put_topic(self, topic: TopicRow) -> None:
        """Insert a topic, or replace its row by one with at least as many partitions."""
        before, count = self.topics.get(topic.topic_id), topic.partition_count
        known = 0 if before is None else before.partition_count
        self._ids_by_name[topic.name] = topic.topic_id
        if count > known:
            for partition, key in enumerate(group_keys(topic.topic_id, count, known), known):
                self._groups[key] = GroupName(topic.topic_id, partition)
            self._add_to_loads(topic.first_replicas[known:], 1)
        self.topics.put(topic)

    def remove_topic(self, topic: TopicRow, index: Index) -> None:
        """Remove a topic, and store its tombstone."""
        self._add_to_loads(self.replicas_of(topic), -1)
        for key in group_keys(topic.topic_id, topic.partition_count):
            group = self._groups.pop(key)
            if group in self.moved:
                self.moved.remove(group)
        del self._ids_by_name[topic.name]
        self.topics.remove(topic.topic_id)
        self.deleted.put(DeletedTopic(topic.topic_id, topic.name, topic.partition_count, index))

    def put_assignment(self, assignment: ReplicaAssignment) -> None:
        """Replace the assignment of an existing partition."""
        self._add_to_loads([self.assignment(assignment.group).replicas], -1)
        self._add_to_loads([assignment.replicas], 1)
        self.moved.put(assignment)

    def _add_to_loads(self, placed: Sequence[tuple[ReplicaId, ...]], change: int) -> None:
        """Add `change` (1 or -1) to the loads of the brokers for each assigned partition."""
        members = [replica for replicas in placed for replica in replicas]
        leaders = [replicas[0] for replicas in placed]
        for counts, named in ((self._replica_counts, members), (self._leader_counts, leaders)):
            objects = {id(replica): replica for replica in named}  # few objects, cheaper to compare by identity
            for identity, times in Counter(map(id, named)).items():
                replica = objects[identity]
                counts[replica] += change * times
                assert counts[replica] >= 0, f"{replica} would be in {counts[replica]} groups"
                if not counts[replica]:
                    del counts[replica]
