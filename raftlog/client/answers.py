"""What a broker answers, as values."""

from collections.abc import Mapping
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


def _node(value: int | None) -> int | None:
    """Some answers say -1 where nobody leads."""
    return None if value is None or value < 0 else int(value)
