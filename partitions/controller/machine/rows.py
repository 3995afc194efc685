"""Rows of the controller's state, one frozen record for each object.

A `version` is the index of the entry that changed the object last, so it only rises, and is not used again when a
topic is deleted and another one created. The fields of a row, in their order, are its form in a snapshot."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, NamedTuple
from uuid import UUID

from raftlog.errors import RaftlogError
from raftlog.partitions.controller.machine.commands import Addresses, BootEpoch, CreateTopic, PartitionNumber
from raftlog.partitions.controller.machine.errors import MESSAGE_CHARACTERS_MAX, NUMBERS, from_number
from raftlog.partitions.controller.machine.naming import GroupName
from raftlog.partitions.controller.machine.schema import (
    PARTITIONS_MAX,
    FeatureLevel,
    Flag,
    Id,
    IndexNumber,
    Name,
    NodeNumber,
    Number,
    Placement,
    Replicas,
    SchemaRecord,
    Settings,
    listing,
    nested,
    text,
    whole,
)
from raftlog.partitions.controller.machine.security_commands import AclEntry, Credentials, Entity, Secret, UserName
from raftlog.raft import ReplicaId
from raftlog.types import Index


@dataclass(frozen=True, slots=True)
class RegisteredBroker(SchemaRecord):
    """Broker by its last registration, and whether it is draining."""

    node_id: NodeNumber
    disk_uuid: Id
    boot_epoch: BootEpoch
    host: Name
    addresses: Annotated[Addresses, nested(Addresses)]
    feature_level_min: FeatureLevel
    feature_level_max: FeatureLevel
    is_draining: Flag
    version: IndexNumber

    @property
    def replica(self) -> ReplicaId:
        return ReplicaId(self.node_id, self.disk_uuid)


@dataclass(frozen=True, slots=True)
class RetiredDisk(SchemaRecord):
    """Disk that was removed or replaced at `version`, and is excluded permanently."""

    disk_uuid: Id
    node_id: NodeNumber
    version: IndexNumber


@dataclass(frozen=True, slots=True)
class AddedPartitions(SchemaRecord):
    """Partitions added to a topic together, and the topic's settings at that time. From feature level 2 on."""

    partitions: Placement
    configs: Settings
    created_ms: Number
    version: IndexNumber


class PartitionOrigin(NamedTuple):
    """Creation of one partition, which never changes; `version` is the index of its entry."""

    replicas: tuple[ReplicaId, ...]
    configs: Settings
    created_ms: int
    version: Index


@dataclass(frozen=True, slots=True)
class TopicRow(SchemaRecord):
    """Topic: its creation and its additions of partitions, which never change, and its present settings."""

    creation: Annotated[CreateTopic, nested(CreateTopic)]
    created_index: IndexNumber
    configs: Settings
    version: IndexNumber
    added: Annotated[
        tuple[AddedPartitions, ...], listing("list of AddedPartitions", nested(AddedPartitions), 0, PARTITIONS_MAX), 2
    ] = ()

    @property
    def name(self) -> str:
        return self.creation.name

    @property
    def topic_id(self) -> UUID:
        return self.creation.topic_id

    @property
    def partition_count(self) -> int:
        return len(self.creation.partitions) + sum(len(each.partitions) for each in self.added)

    @property
    def first_replicas(self) -> tuple[tuple[ReplicaId, ...], ...]:
        """Replicas on which each partition was created, the preferred leader first."""
        return tuple(chain(self.creation.partitions, *(each.partitions for each in self.added)))

    def origins(self) -> Iterator[PartitionOrigin]:
        """Yield the creations of all partitions, in order."""
        creation = self.creation
        for replicas in creation.partitions:
            yield PartitionOrigin(replicas, creation.configs, creation.created_ms, self.created_index)
        for each in self.added:
            for replicas in each.partitions:
                yield PartitionOrigin(replicas, each.configs, each.created_ms, each.version)

    def origin(self, partition: int) -> PartitionOrigin:
        """Return the creation of an existing partition."""
        assert partition >= 0, f"{self.name} has no partition {partition}"
        creation = self.creation
        if partition < len(creation.partitions):
            replicas = creation.partitions[partition]
            return PartitionOrigin(replicas, creation.configs, creation.created_ms, self.created_index)
        at = partition - len(creation.partitions)
        for each in self.added:
            if at < len(each.partitions):
                return PartitionOrigin(each.partitions[at], each.configs, each.created_ms, each.version)
            at -= len(each.partitions)
        raise AssertionError(f"{self.name} has no partition {partition}")


@dataclass(frozen=True, slots=True)
class ReplicaAssignment(SchemaRecord):
    """Assigned replicas of a partition, the preferred leader first."""

    topic_id: Id
    partition: PartitionNumber
    replicas: Replicas
    version: IndexNumber

    @property
    def group(self) -> GroupName:
        return GroupName(self.topic_id, self.partition)


@dataclass(frozen=True, slots=True)
class DeletedTopic(SchemaRecord):
    """Tombstone of the topic of this uuid, which was deleted at `version`."""

    topic_id: Id
    name: Name
    partition_count: Number
    version: IndexNumber


@dataclass(frozen=True, slots=True)
class BrokerMaintenance(SchemaRecord):
    """Maintenance mode of the broker of a node id, on any disk. From feature level 3 on."""

    node_id: NodeNumber
    is_on: Flag
    version: IndexNumber


@dataclass(frozen=True, slots=True)
class ClusterSettings(SchemaRecord):
    """Settings of the cluster that differ from their defaults, in one row. From feature level 3 on."""

    configs: Settings
    version: IndexNumber


@dataclass(frozen=True, slots=True)
class UserRow(SchemaRecord):
    """User with at least one credential. From feature level 3 on."""

    name: UserName
    credentials: Credentials
    is_superuser: Flag
    version: IndexNumber


@dataclass(frozen=True, slots=True)
class AclRow(SchemaRecord):
    """Entry of the access control list. From feature level 3 on."""

    entry: Annotated[AclEntry, nested(AclEntry)]
    version: IndexNumber


@dataclass(frozen=True, slots=True)
class QuotaRow(SchemaRecord):
    """Quotas of an entity, as decimal text by name. From feature level 3 on."""

    entity: Entity
    quotas: Settings
    version: IndexNumber


@dataclass(frozen=True, slots=True)
class SaltSecret(SchemaRecord):
    """Random secret of the cluster, created with the first user.

    Brokers derive the salts of unknown user names from it.

    The row is never removed, so it shows whether the cluster ever had users. From feature level 3 on."""

    secret: Secret
    version: IndexNumber

    def __repr__(self) -> str:
        return f"SaltSecret(version={self.version})"


@dataclass(frozen=True, slots=True)
class AnsweredRequest(SchemaRecord):
    """Result of a request. `error` is 0 on success, and then `value` is its result."""

    request_id: Id
    version: IndexNumber
    value: Number
    error: Annotated[int, whole("error", 0, max(NUMBERS.values()))]
    message: Annotated[str, text("message", 0, 4 * MESSAGE_CHARACTERS_MAX)]

    def failure(self) -> RaftlogError | None:
        """Return the error of the request; None on success."""
        return from_number(self.error, self.message) if self.error else None
