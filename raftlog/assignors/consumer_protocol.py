"""What members of a consumer group say and are told: ConsumerProtocolSubscription and ConsumerProtocolAssignment.

Versions 0 to 3 of both, as in Kafka's schemas, each with its int16 version in front (KIP-429 owned partitions in v1,
KIP-792 generation in v2, KIP-881 rack in v3; assignments did not change). A version above 3 is read as 3, for fields
are only ever added behind. Every length is checked against what is there before anything is made of it.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from raftlog.types import TopicPartition

VERSION: Final = 3
"""That we write."""


class Subscription(NamedTuple):
    """What a member wants to read, and what it has."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    """What it was assigned last and still has (v1)."""
    generation: int = -1
    """In which it was (v2); −1: unknown. Two claims of one partition are settled by the newer."""
    rack: str | None = None


class Assignment(NamedTuple):
    """What a member shall read."""

    partitions: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None


def encode_subscription(subscription: Subscription, version: int = VERSION) -> bytes:
    """Topics and owned partitions in ascending order, as v3 wants them."""
    raise NotImplementedError


def decode_subscription(data: bytes) -> Subscription:
    """Raises `InvalidArgument` for bytes that are none."""
    raise NotImplementedError


def encode_assignment(partitions: Sequence[TopicPartition], user_data: bytes | None = None) -> bytes:
    """Raises nothing; partitions are grouped by topic and ascend."""
    raise NotImplementedError


def decode_assignment(data: bytes) -> Assignment:
    """Raises `InvalidArgument` for bytes that are none. No bytes at all are the empty assignment, as in Kafka."""
    raise NotImplementedError
