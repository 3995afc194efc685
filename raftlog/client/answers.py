"""What a broker answers, as values."""

from typing import NamedTuple

from raftlog.types import Offset


class Produced(NamedTuple):
    """Where the records of one request stand: `base_offset ≤ offset < next_offset`."""

    base_offset: Offset
    next_offset: Offset


class Fetched(NamedTuple):
    """Stored batches, one after another. The first may begin below the offset that was asked for."""

    body: bytes
    high_watermark: Offset
    log_start_offset: Offset


class OffsetRange(NamedTuple):
    """`beginning` is the first offset that can be read, `end` the one that the next record will get."""

    beginning: Offset
    end: Offset


class TopicDescription(NamedTuple):
    """A topic as the broker describes it; settings are text under Kafka's names."""

    name: str
    partitions: int
    replication_factor: int
    configs: dict[str, str]
