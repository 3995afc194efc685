"""Commands of the controller, one frozen record each.

A command carries everything that is random or read from a clock, so applying it is a pure function. The checks here
never change for one version of a command, because replicas of different releases apply the same commands: names of
topics, bounds, no repeated names. Possible values of topic settings do change from release to release;
`check_configs` is for the proposer, and is never called when a command is applied.

An invalid command cannot be made: the constructors raise `InvalidArgument`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from raftlog.errors import InvalidArgument, InvalidTopic
from raftlog.partitions.controller.machine.naming import (
    INTERNAL_PREFIX,
    TOPIC_NAME_BYTES_MAX,
    GroupName,
    check_topic_name,
)
from raftlog.partitions.controller.machine.schema import (
    NUMBER_MAX,
    PARTITIONS_MAX,
    REPLICAS_MAX,
    FeatureLevel,
    Flag,
    Id,
    IndexNumber,
    KafkaListeners,
    Name,
    Names,
    NodeNumber,
    Number,
    OptionalFlag,
    OptionalId,
    OptionalIndex,
    Placement,
    Replicas,
    SchemaRecord,
    Settings,
    Text,
    nested,
    whole,
)
from raftlog.raft import ReplicaId
from raftlog.topic_config import TopicConfig

PRODUCER_IDS_MAX: Final = 1_000_000
"""Limit of one block of producer ids."""
BootEpoch = Annotated[int, whole("boot epoch", 1, NUMBER_MAX)]
PartitionNumber = Annotated[int, whole("partition", 0, (1 << 31) - 1)]


class Command(SchemaRecord):
    """Base of all commands."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Addresses(SchemaRecord):
    """Addresses of a broker, each as HOST:PORT; empty for a service that it does not offer.

    `kafka`: those for Kafka's clients by the name of the listener, in ascending order of the names."""

    http: Text
    rpc: Text
    gossip: Text
    kafka: KafkaListeners = ()


@dataclass(frozen=True, slots=True)
class Bootstrap(Command):
    """First command of a cluster. `seeds` are its first brokers, by ascending node id."""

    cluster_id: Id
    seeds: Replicas
    feature_level: FeatureLevel
    created_ms: Number

    def check_rules(self) -> None:
        """Raise `InvalidArgument` unless the seeds are sorted, with each node and each disk once."""
        nodes = [seed.node_id for seed in self.seeds]
        if nodes != sorted(set(nodes)) or len({seed.disk_uuid for seed in self.seeds}) != len(nodes):
            raise InvalidArgument(f"the seeds {nodes} must be in ascending order, every node and every disk once")


@dataclass(frozen=True, slots=True)
class RegisterBroker(Command):
    """Registration of a broker, once with each start; `boot_epoch` rises with every start.

    `replaces`: earlier disk uuid of this node id, which is lost permanently: the new disk gets its replicas.
    `is_draining` stays unchanged when it is None."""

    node_id: NodeNumber
    disk_uuid: Id
    boot_epoch: BootEpoch
    host: Name
    addresses: Annotated[Addresses, nested(Addresses)]
    feature_level_min: FeatureLevel
    feature_level_max: FeatureLevel
    is_draining: OptionalFlag = None
    replaces: OptionalId = None

    def check_rules(self) -> None:
        """Raise `InvalidArgument` for an empty range of feature levels, or for a disk that replaces itself."""
        if self.feature_level_min > self.feature_level_max:
            raise InvalidArgument(f"feature levels {self.feature_level_min} to {self.feature_level_max} are no range")
        if self.replaces == self.disk_uuid:
            raise InvalidArgument(f"the disk {self.disk_uuid} cannot replace itself")


@dataclass(frozen=True, slots=True)
class UpdateBroker(Command):
    """Change of a broker by an operator. A draining broker gets no new replicas."""

    node_id: NodeNumber
    disk_uuid: Id
    is_draining: Flag
    expected_version: OptionalIndex = None


@dataclass(frozen=True, slots=True)
class RemoveBroker(Command):
    """Removal of a broker without replicas; its disk is excluded permanently."""

    node_id: NodeNumber
    disk_uuid: Id


@dataclass(frozen=True, slots=True)
class CreateTopic(Command):
    """Creation of a topic. `partitions` has the voters of each partition, the preferred leader first.

    `configs` are its own settings. Only internal topics have names that begin with `__`."""

    name: Name
    topic_id: Id
    partitions: Placement
    configs: Settings
    created_ms: Number
    is_internal: Flag = False

    def check_rules(self) -> None:
        """Raise `InvalidTopic` for an impossible name, and `InvalidArgument` for unequal numbers of replicas."""
        if self.is_internal != self.name.startswith(INTERNAL_PREFIX):
            raise InvalidTopic(
                f"topic name {self.name!r} cannot be used: those of internal topics, and only those, "
                f"begin with {INTERNAL_PREFIX}"
            )
        check_topic_name(self.name.removeprefix(INTERNAL_PREFIX))
        if len(self.name) > TOPIC_NAME_BYTES_MAX:
            raise InvalidTopic(f"topic name {self.name!r} has {len(self.name)} of {TOPIC_NAME_BYTES_MAX} characters")
        _check_factor(self.partitions, 0)

    @property
    def replication_factor(self) -> int:
        return len(self.partitions[0])


@dataclass(frozen=True, slots=True)
class DeleteTopic(Command):
    """Permanent deletion of the topic with this uuid; another topic can have its name later."""

    name: Name
    topic_id: Id


@dataclass(frozen=True, slots=True)
class AlterTopicConfigs(Command):
    """Change of a topic's own settings; those in `unset` get their defaults again."""

    name: Name
    topic_id: Id
    configs: Settings
    unset: Names = ()
    expected_version: OptionalIndex = None

    def check_rules(self) -> None:
        """Raise `InvalidArgument` if nothing changes, or if changes contradict each other or are out of order."""
        _check_changes(self.configs, self.unset)


@dataclass(frozen=True, slots=True)
class SetAssignment(Command):
    """Assignment of the replicas of a partition, the preferred leader first."""

    topic_id: Id
    partition: PartitionNumber
    replicas: Replicas
    expected_version: IndexNumber

    def check_rules(self) -> None:
        """Raise `InvalidArgument` for too many replicas, or two on the same node."""
        nodes = [replica.node_id for replica in self.replicas]
        if len(set(nodes)) != len(nodes) or len(nodes) > REPLICAS_MAX:
            raise InvalidArgument(f"the replicas {nodes} must be at most {REPLICAS_MAX}, and every node once")

    @property
    def group(self) -> GroupName:
        return GroupName(self.topic_id, self.partition)


@dataclass(frozen=True, slots=True)
class AddPartitions(Command):
    """Addition of partitions to a topic that has `partition_count` of them. From feature level 2 on.

    `partitions` has the voters of each new partition, the preferred leader first."""

    name: Name
    topic_id: Id
    partition_count: Annotated[int, whole("partition count", 1, PARTITIONS_MAX)]
    partitions: Placement
    created_ms: Number

    def check_rules(self) -> None:
        """Raise `InvalidArgument` unless all new partitions have the same number of replicas."""
        _check_factor(self.partitions, self.partition_count)

    @property
    def total(self) -> int:
        """Number of partitions after the addition."""
        return self.partition_count + len(self.partitions)


@dataclass(frozen=True, slots=True)
class AllocateProducerIds(Command):
    """Allocation of a block of `count` producer ids to a broker; the result is the first one."""

    node_id: NodeNumber
    disk_uuid: Id
    boot_epoch: BootEpoch
    count: Annotated[int, whole("count", 1, PRODUCER_IDS_MAX)]


@dataclass(frozen=True, slots=True)
class SetFeatureLevel(Command):
    """New feature level of the cluster, which all brokers support: its formats may be written from now on."""

    level: FeatureLevel


@dataclass(frozen=True, slots=True)
class SetMaintenance(Command):
    """Change of the maintenance mode, in which a broker leads nothing and receives no new replicas."""

    node_id: NodeNumber
    disk_uuid: Id
    is_on: Flag
    expected_version: OptionalIndex = None


@dataclass(frozen=True, slots=True)
class AlterClusterConfig(Command):
    """Change of the settings of the cluster; those in `unset` get their defaults again."""

    configs: Settings
    unset: Names = ()
    expected_version: OptionalIndex = None

    def check_rules(self) -> None:
        """Raise `InvalidArgument` if nothing changes, or if changes contradict each other or are out of order."""
        _check_changes(self.configs, self.unset)


def _check_factor(partitions: tuple[tuple[ReplicaId, ...], ...], first: int) -> None:
    """Raise `InvalidArgument` unless all partitions, from number `first` on, have the same number of replicas."""
    factor = len(partitions[0])
    for partition, replicas in enumerate(partitions, first):
        if len(replicas) != factor:
            raise InvalidArgument(
                f"partition {partition} has {len(replicas)} replicas and partition {first} has {factor}: "
                "partitions created together begin with the same number"
            )


def _check_changes(configs: Settings, unset: Names) -> None:
    """Raise `InvalidArgument` for a change of nothing, contradictory changes, or names that do not ascend."""
    names = [name for name, _ in configs]
    both = sorted({*names} & {*unset})
    if both:
        raise InvalidArgument(f"{', '.join(both)} cannot be set and unset at once")
    if not names and not unset:
        raise InvalidArgument("no setting is named that shall change")
    if list(unset) != sorted({*unset}):
        raise InvalidArgument(f"{list(unset)} are not in ascending order, each once")


def check_configs(configs: Mapping[str, str]) -> None:
    """Raise `InvalidArgument` unless this release can serve a topic with these settings."""
    TopicConfig().override(configs)
