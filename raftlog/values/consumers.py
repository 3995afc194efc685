"""Answers about consumer instances, in the form of the REST Proxy's v2."""

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from raftlog.values.value import Count, NodeNumber, Value


class ConsumerInstance(Value, frozen=True):
    """Name of a consumer instance, and its URL at the answering broker."""

    instance_id: str
    base_uri: Annotated[str, Meta(extra_json_schema={"format": "uri"})]


class InstanceSubscription(Value, frozen=True):
    """Topics to which an instance is subscribed, or the pattern of their names."""

    topics: Sequence[str]
    topic_pattern: str | None


class InstancePartition(Value, frozen=True):
    """Partition that an instance reads."""

    topic: str
    partition: NodeNumber


class InstancePartitions(Value, frozen=True):
    """Partitions that an instance reads."""

    partitions: Sequence[InstancePartition]


class CommitResult(InstancePartition, frozen=True):
    """Result of a commit in one partition.

    Offset of the last consumed record, -1 for none, and the committed offset after it."""

    consumed: Annotated[int, Meta(ge=-1)]
    committed: Count | None
    error_code: Count | UnsetType = UNSET
    error: str | UnsetType = UNSET
    outcome: Literal["failed"] | UnsetType = UNSET


class InstanceOffset(InstancePartition, frozen=True):
    """Offset that an instance's group committed in one partition."""

    offset: Count
    metadata: str


class InstanceOffsets(Value, frozen=True):
    """Offsets that an instance's group committed in the requested partitions."""

    offsets: Sequence[InstanceOffset]
