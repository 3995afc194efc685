"""Answers of brokers, as values."""

from typing import NamedTuple

from raftlog.types import Offset


class Produced(NamedTuple):
    """Offsets of the records of one request: `base_offset ≤ offset < next_offset`."""

    base_offset: Offset
    next_offset: Offset
    is_duplicate: bool = False
    """Whether an idempotent producer's batch of these sequences was stored before, at these offsets."""


class ProducerIdentity(NamedTuple):
    """Id and epoch of an idempotent producer; a newer epoch of the same id fences an older one."""

    producer_id: int
    epoch: int


class Fetched(NamedTuple):
    """Stored batches in order. The first may begin below the requested offset.

    `topic_id` is the uuid of the topic that had the name."""

    body: bytes
    high_watermark: Offset
    log_start_offset: Offset
    topic_id: str | None = None
