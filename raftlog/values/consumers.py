"""Answers about consumer instances, as the REST Proxy's v2 has them."""

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from raftlog.values.value import Count, NodeNumber, Value


class ConsumerInstance(Value, frozen=True):
    """Name of an instance, and its URL at the broker that was asked."""

    instance_id: str
    base_uri: Annotated[str, Meta(extra_json_schema={"format": "uri"})]


class InstanceSubscription(Value, frozen=True):
    """Topics that an instance is subscribed to, or the pattern of their names."""

    topics: Sequence[str]
    topic_pattern: str | None


class InstancePartition(Value, frozen=True):
    """Partition of an instance."""

    topic: str
    partition: NodeNumber


class InstancePartitions(Value, frozen=True):
    """Partitions that an instance reads."""

    partitions: Sequence[InstancePartition]


class ConsumedCommitted(InstancePartition, frozen=True):
    """Result of one commit: the last record consumed, -1 for none, and the offset behind it that is committed."""

    consumed: Annotated[int, Meta(ge=-1)]
    committed: Count | None
    error_code: Count | UnsetType = UNSET
    error: str | UnsetType = UNSET
    outcome: Literal["failed"] | UnsetType = UNSET


class InstanceOffset(InstancePartition, frozen=True):
    """Offset that the group of an instance committed."""

    offset: Count
    metadata: str


class InstanceOffsets(Value, frozen=True):
    """Offsets that the group committed, of the partitions that were asked for."""

    offsets: Sequence[InstanceOffset]
