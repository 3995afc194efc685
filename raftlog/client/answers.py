"""What a broker answers, as values."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from raftlog.types import Offset


class Produced(NamedTuple):
    """Where the records of one request stand: `base_offset ≤ offset < next_offset`."""

    base_offset: Offset
    next_offset: Offset
    is_duplicate: bool = False
    """An idempotent producer's batch of these sequences was stored before, and this is where."""


class ProducerIdentity(NamedTuple):
    """What an idempotent producer calls itself; a newer epoch of the same id fences an older."""

    producer_id: int
    epoch: int


class Fetched(NamedTuple):
    """Stored batches, one after another. The first may begin below the offset that was asked for.

    `topic_id` is the uuid of the topic that had the name."""

    body: bytes
    high_watermark: Offset
    log_start_offset: Offset
    topic_id: str | None = None


class OffsetRange(NamedTuple):
    """`beginning` is the first offset that can be read, `end` the one that the next record will get."""

    beginning: Offset
    end: Offset


class PartitionDescription(NamedTuple):
    """A partition and its replicas, as node ids. `leader` is None when nobody leads; `high_watermark` is None where it
    is not known; `problem` says what is wrong."""

    partition: int
    leader: int | None
    replicas: list[int]
    in_sync: list[int]
    high_watermark: Offset | None
    problem: str | None


class TopicSummary(NamedTuple):
    """A topic, one row of a list."""

    name: str
    partitions: int
    replication_factor: int


class TopicDescription(NamedTuple):
    """A topic as the broker describes it; settings are text under Kafka's names."""

    name: str
    partitions: int
    replication_factor: int
    configs: dict[str, str]
    replicas: list[PartitionDescription]
    """One for each partition, by number."""


class BrokerDescription(NamedTuple):
    """A broker of the cluster; addresses are `HOST:PORT`, None where there is none. `version` is empty while it does
    not answer."""

    node_id: int
    is_alive: bool
    membership_status: str
    version: str
    http: str | None
    rpc: str | None
    host: str | None
    disk_uuid: str | None = None
    in_maintenance: bool = False


class ClusterHealth(NamedTuple):
    """Partitions are `topic/partition`, at most as many as the broker lists; the counts are of all of them."""

    is_healthy: bool
    unhealthy_reasons: list[str]
    controller_id: int | None
    all_nodes: list[int]
    nodes_down: list[int]
    leaderless_partitions: list[str]
    """Without a leader for longer than an election or a hand-over takes."""
    leaderless_count: int
    under_replicated_partitions: list[str]
    under_replicated_count: int
    nodes_in_maintenance: Sequence[int] = ()
    nodes_draining: Sequence[int] = ()
    reconfigurations_count: int = 0
    """Partitions whose replicas are on their way."""
    lagging_partitions: Sequence[str] = ()
    """With a replica that does not hold everything committed at this moment, though it may be in sync."""
    lagging_count: int = 0
    electing_partitions: Sequence[str] = ()
    """Without a leader at this moment."""
    electing_count: int = 0


class TopicView(NamedTuple):
    """A topic in the picture of a cluster. `topic_id` is its uuid, which no other topic ever has.

    `leaders` has a node id for each partition, as far as known."""

    name: str
    topic_id: str
    leaders: tuple[int | None, ...]


class ClusterView(NamedTuple):
    """Topics that are not internal, by name; brokers that have an HTTP address, by node id, as HOST:PORT."""

    cluster_id: str
    topics: dict[str, TopicView]
    http: dict[int, str]


def cluster_view(fields: Mapping[str, Any]) -> ClusterView:
    """From GET /v1/cluster_view."""
    topics = [
        TopicView(
            str(row["name"]), str(row["topic_id"]), tuple(_node(each["leader_hint"]) for each in row["partitions"])
        )
        for row in fields["topics"]
    ]
    http = {int(row["node_id"]): row["http_address"] for row in fields["brokers"] if row["http_address"]}
    return ClusterView(str(fields["cluster_id"]), {topic.name: topic for topic in topics}, http)


def topic_summary(row: Mapping[str, Any]) -> TopicSummary:
    """From one row of GET /v3/clusters/-/topics."""
    return TopicSummary(str(row["topic_name"]), int(row["partitions_count"]), int(row["replication_factor"]))


def topic_description(fields: Mapping[str, Any]) -> TopicDescription:
    """From GET /topics/{topic}."""
    partitions = [_partition_description(row) for row in fields["partitions"]]
    copies = max((len(partition.replicas) for partition in partitions), default=1)
    return TopicDescription(fields["name"], len(partitions), copies, dict(fields["configs"]), partitions)


def _partition_description(row: Mapping[str, Any]) -> PartitionDescription:
    high_watermark = row.get("high_watermark")
    return PartitionDescription(
        int(row["partition"]),
        _node(row.get("leader")),
        [int(replica["broker"]) for replica in row["replicas"]],
        [int(replica["broker"]) for replica in row["replicas"] if replica["in_sync"]],
        None if high_watermark is None else Offset(high_watermark),
        row.get("problem"),
    )


def broker_description(row: Mapping[str, Any]) -> BrokerDescription:
    """From one row of GET /v1/brokers."""
    address, port = row.get("internal_rpc_address"), row.get("internal_rpc_port")
    return BrokerDescription(
        int(row["node_id"]),
        bool(row["is_alive"]),
        str(row["membership_status"]),
        row["version"] or "",
        row.get("http_address"),
        f"{address}:{port}" if address and port else None,
        row.get("host"),
        row.get("disk_uuid"),
        bool((row.get("maintenance_status") or {}).get("draining")),
    )


def cluster_health(fields: Mapping[str, Any]) -> ClusterHealth:
    """From GET /v1/cluster/health_overview."""
    return ClusterHealth(
        bool(fields["is_healthy"]),
        [str(reason) for reason in fields["unhealthy_reasons"]],
        _node(fields["controller_id"]),
        list(fields["all_nodes"]),
        list(fields["nodes_down"]),
        [str(name) for name in fields["leaderless_partitions"]],
        int(fields["leaderless_count"]),
        [str(name) for name in fields["under_replicated_partitions"]],
        int(fields["under_replicated_count"]),
        list(fields["nodes_in_maintenance"]),
        list(fields["nodes_draining"]),
        int(fields["reconfigurations_count"]),
        list(fields["lagging_partitions"]),
        int(fields["lagging_count"]),
        list(fields["electing_partitions"]),
        int(fields["electing_count"]),
    )


def _node(value: int | None) -> int | None:
    """Some answers say -1 where nobody leads."""
    return None if value is None or value < 0 else int(value)
