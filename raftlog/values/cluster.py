"""Settings of the cluster, and the view of brokers and partitions that clients poll."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import field

from raftlog.values.brokers import GossipState
from raftlog.values.value import Count, NodeNumber, Value, Version

SettingType: TypeAlias = Literal["string", "integer", "boolean"]
SettingValue: TypeAlias = str | int | bool


class SettingDescription(Value, frozen=True, kw_only=True):
    """Setting of the cluster; `allowed` describes its possible values in words."""

    description: str
    type: SettingType
    default: SettingValue
    allowed: str
    nullable: bool = False
    needs_restart: bool = False


class ClusterSettingsSchema(Value, frozen=True):
    """Settings of the cluster by name."""

    properties: Mapping[str, SettingDescription]


class ClusterSettingsStatus(Value, frozen=True):
    """Version of the cluster's settings that a broker applies; None if it does not answer."""

    node_id: NodeNumber
    config_version: Version | None
    restart: bool = False


class ClusterSettingsVersion(Value, frozen=True):
    """Version of the cluster's settings after a change."""

    config_version: Version


class BrokerView(Value, frozen=True):
    """Broker in a `ClusterView`."""

    node_id: NodeNumber
    state: GossipState = "unknown"
    http_address: str | None = None
    rpc_address: str | None = None
    host: str = ""
    is_draining: bool = False


class PartitionView(Value, frozen=True):
    """Partition in a `ClusterView`; the leader is a hint."""

    partition: NodeNumber
    replicas: Sequence[NodeNumber]
    leader_hint: NodeNumber | None


class TopicView(Value, frozen=True):
    """Topic in a `ClusterView`. `topic_id` is its uuid, which no other topic ever has."""

    name: str
    topic_id: str
    partitions: Sequence[PartitionView]

    @property
    def leaders(self) -> tuple[int | None, ...]:
        """Node id of each partition's leader; None if unknown."""
        return tuple(each.leader_hint for each in self.partitions)


class ClusterView(Value, frozen=True):
    """View of brokers and replicas of partitions, from one broker's copy of the controller's state.

    `version` is the version of the copy. Internal topics are not included."""

    cluster_id: str | None
    controller_id: NodeNumber | None
    version: Count
    broker_rows: Sequence[BrokerView] = field(name="brokers")
    topic_rows: Sequence[TopicView] = field(name="topics")

    @property
    def topics(self) -> dict[str, TopicView]:
        """Topics by name."""
        return {topic.name: topic for topic in self.topic_rows}

    @property
    def http(self) -> dict[int, str]:
        """HOST:PORT of brokers with an HTTP address, by node id."""
        return {broker.node_id: broker.http_address for broker in self.broker_rows if broker.http_address}
