"""Rows of the controller's state, one frozen record for each object.

A `version` is the index of the entry that changed the object last, so it only rises, and is not used again when a
topic is deleted and another one created. The fields of a row, in their order, are its form in a snapshot."""

from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from raftlog.errors import RaftlogError
from raftlog.partitions.controller.machine.commands import Addresses, BootEpoch, CreateTopic, PartitionNumber
from raftlog.partitions.controller.machine.errors import MESSAGE_CHARACTERS_MAX, NUMBERS, from_number
from raftlog.partitions.controller.machine.naming import GroupName
from raftlog.partitions.controller.machine.schema import (
    FeatureLevel,
    Flag,
    Id,
    IndexNumber,
    Name,
    NodeNumber,
    Number,
    Replicas,
    SchemaRecord,
    Settings,
    nested,
    text,
    whole,
)
from raftlog.raft import ReplicaId


@dataclass(frozen=True, slots=True)
class RegisteredBroker(SchemaRecord):
    """Broker as it registered last, and whether it is draining."""

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
    """Disk that was removed or replaced at `version`, and is excluded for good."""

    disk_uuid: Id
    node_id: NodeNumber
    version: IndexNumber


@dataclass(frozen=True, slots=True)
class TopicRow(SchemaRecord):
    """Topic: its creation, which never changes, and its own settings now."""

    creation: Annotated[CreateTopic, nested(CreateTopic)]
    created_index: IndexNumber
    configs: Settings
    version: IndexNumber

    @property
    def name(self) -> str:
        return self.creation.name

    @property
    def topic_id(self) -> UUID:
        return self.creation.topic_id

    @property
    def partition_count(self) -> int:
        return len(self.creation.partitions)


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
    """Maintenance mode of a node id's broker, on any disk. From feature level 3 on."""

    node_id: NodeNumber
    is_on: Flag
    version: IndexNumber


@dataclass(frozen=True, slots=True)
class ClusterSettings(SchemaRecord):
    """Settings of the cluster that differ from their defaults: one row. From feature level 3 on."""

    configs: Settings
    version: IndexNumber


@dataclass(frozen=True, slots=True)
class AnsweredRequest(SchemaRecord):
    """Result of a request. `error` is 0 on success, and then `value` is its result."""

    request_id: Id
    version: IndexNumber
    value: Number
    error: Annotated[int, whole("error", 0, max(NUMBERS.values()))]
    message: Annotated[str, text("message", 0, 4 * MESSAGE_CHARACTERS_MAX)]

    def failure(self) -> RaftlogError | None:
        return from_number(self.error, self.message) if self.error else None
