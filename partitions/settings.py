"""What one broker can be told. Settings of topics and logs are in `raftlog.config`."""

import os
from dataclasses import dataclass, field

from raftlog.config import GIB, KIB, MIB, TopicConfig
from raftlog.errors import InvalidArgument
from raftlog.partitions.partitioner import hash_by_name


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """Sizes in bytes, times in the unit that the name ends with."""

    data_dir: str
    """Where everything is kept; made when it is missing."""
    node_id: int = 1
    """The number of this broker; a data directory belongs to one number."""
    partitioner: str = "murmur2"
    """How a key chooses its partition: `murmur2`, as Kafka's clients do, or `crc32`."""
    topic_config: TopicConfig = field(default_factory=TopicConfig)
    """Settings of topics that do not say otherwise."""
    partitions_per_topic_max: int = 10_000
    """A topic cannot be created with more partitions than this."""
    open_files_max: int = 512
    """Descriptors of segments kept open; more files than these are reopened when they are used."""
    sync_threads: int = 4
    """Syncs of different partitions that can run at once."""
    partition_pending_bytes_max: int = 32 * MIB
    """Bytes of one partition that may wait for their append and sync; past it producers wait, then get 429."""
    broker_pending_bytes_max: int = 64 * MIB
    """The same for all partitions together."""
    accumulate_bytes_max: int = MIB
    """Single records that arrive together are put into batches of at most this size."""
    fetch_bytes_max: int = 16 * MIB
    """A fetch answers at most this much, and at least one batch, whatever it asks for."""
    fetch_wait_ms_max: int = 60_000
    """A fetch waits for new records at most this long, whatever it asks for."""
    opened_bytes_max: int = 64 * MIB
    """A compressed batch that opens to more than this is only given out as it is stored."""
    retention_interval_s: float = 60.0
    """Seconds between two looks for segments that retention deletes."""
    scrub_interval_days: float = 7.0
    """Days in which the background scrub reads everything once; 0 turns it off."""
    scrub_bytes_per_second_max: int = 16 * MIB
    """The scrub reads no faster than this."""
    scrub_slice_bytes: int = 256 * KIB
    """Bytes that the scrub reads at once; between two slices requests are served."""
    catalogue_growth_bytes_max: int = 4 * MIB
    """The catalogue is rewritten when it is this much larger than what is still valid in it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "data_dir", os.path.abspath(self.data_dir))
        hash_by_name(self.partitioner)
        for name, low, high in _BOUNDS:
            value = getattr(self, name)
            if not low <= value <= high:
                raise InvalidArgument(f"{name}={value} is out of range: it must lie in {low} … {high}")


_BOUNDS: tuple[tuple[str, float, float], ...] = (
    ("node_id", 0, (1 << 31) - 1),
    ("partitions_per_topic_max", 1, 10_000),
    ("open_files_max", 16, 1 << 20),
    ("sync_threads", 1, 64),
    ("partition_pending_bytes_max", 64 * KIB, 4 * GIB),
    ("broker_pending_bytes_max", 64 * KIB, 16 * GIB),
    ("accumulate_bytes_max", 4 * KIB, 64 * MIB),
    ("fetch_bytes_max", 4 * KIB, 256 * MIB),
    ("fetch_wait_ms_max", 0, 3_600_000),
    ("opened_bytes_max", 64 * KIB, GIB),
    ("retention_interval_s", 0.01, 86_400),
    ("scrub_interval_days", 0, 3_650),
    ("scrub_bytes_per_second_max", 4 * KIB, 16 * GIB),
    ("scrub_slice_bytes", 4 * KIB, 16 * MIB),
    ("catalogue_growth_bytes_max", 16 * KIB, GIB),
)
