"""What a broker answers, as values."""

from typing import NamedTuple

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
