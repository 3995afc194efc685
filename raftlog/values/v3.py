"""Objects of Confluent's v3 API: the cluster, topics, their settings and partitions; common parts of all objects."""

from collections.abc import Sequence
from typing import Generic, Literal, TypeVar

from msgspec import UNSET, UnsetType, field

from raftlog.values.value import Count, NodeNumber, Value

T = TypeVar("T")


class Related(Value, frozen=True):
    """Link to another resource."""

    related: str


class ResourceMetadata(Value, frozen=True):
    """The field `metadata` of an object in v3 paths: its URL, and its name as a URI (`resource_name`)."""

    url: str = field(name="self")
    resource_name: str


class V3Object(Value, frozen=True, kw_only=True):
    """Base of v3 objects, with their common fields."""

    kind: str = ""
    metadata: ResourceMetadata | None = None
    cluster_id: str = ""


class ListMetadata(Value, frozen=True):
    """URL of a list; there is one page."""

    url: str = field(name="self")
    next: None = None


class ObjectList(Value, Generic[T], frozen=True, kw_only=True):
    """List of objects in the form of the REST Proxy's v3."""

    kind: str = ""
    metadata: ListMetadata | None = None
    data: Sequence[T]


class ClusterLinks(V3Object, frozen=True, kw_only=True):
    """Cluster, with links to its parts; `controller` is None while the controller has no leader."""

    controller: Related | None
    brokers: Related
    topics: Related
    consumer_groups: Related


class TopicSummary(V3Object, frozen=True, kw_only=True):
    """Topic in a list of topics."""

    name: str = field(name="topic_name")
    topic_id: str = ""
    is_internal: bool = False
    replication_factor: Count
    partitions: Count = field(name="partitions_count")
    partitions_link: Related | None = field(name="partitions", default=None)
    configs: Related | None = None
    partition_reassignments: Related | None = None


class TopicSetting(V3Object, frozen=True, kw_only=True):
    """Setting of a topic, and whether it is the default."""

    topic_name: str = ""
    name: str
    value: str = ""
    is_read_only: bool = False
    is_sensitive: bool = False
    is_default: bool
    source: Literal["DYNAMIC_TOPIC_CONFIG", "DEFAULT_CONFIG"] = "DEFAULT_CONFIG"
    synonyms: Sequence[str] = ()


class ClusterPartition(V3Object, frozen=True, kw_only=True):
    """Partition of a topic; `problem` is the reason why it cannot be written or read."""

    topic_name: str
    partition_id: NodeNumber
    leader: Related | None
    replicas: Related
    reassignment: Related
    problem: str | UnsetType = UNSET
