"""Settings of a `Producer`, checked."""

from typing import Literal, TypeAlias, TypedDict

from msgspec import Struct

from raftlog.client.metadata import REFRESH_S
from raftlog.errors import InvalidArgument
from raftlog.records import Compression
from raftlog.records.partitioner import PARTITIONERS

Acks: TypeAlias = Literal["all", "1", "0"]
ROUND_ROBIN = "round-robin"
SEQUENCE_WINDOW = 5
"""Batches of one producer and partition among which a broker detects duplicates (Kafka's window)."""
BATCH_BYTES_MAX = 16 * 1024 * 1024


class ProducerOptions(TypedDict, total=False):
    """Keyword arguments of `Producer`, except those that depend on the types of keys and values."""

    acks: Acks
    idempotent: bool
    compression: str
    partitioner: str
    linger_ms: float
    batch_records: int
    batch_bytes: int
    buffer_records: int
    buffer_bytes: int
    max_in_flight: int
    request_timeout_ms: int
    delivery_timeout_ms: int
    stops_at_failure: bool
    metadata_refresh_s: float


class ProducerSettings(Struct, frozen=True, kw_only=True):
    """Keyword arguments of `Producer` with their defaults; docs/CLIENT.md describes each."""

    acks: Acks = "all"
    idempotent: bool = True
    compression: str = "none"
    partitioner: str = "murmur2"
    linger_ms: float = 100.0
    batch_records: int = 100
    batch_bytes: int = 512 * 1024
    buffer_records: int = 1000
    buffer_bytes: int = 32 * 1024 * 1024
    max_in_flight: int = SEQUENCE_WINDOW
    request_timeout_ms: int = 10_000
    delivery_timeout_ms: int = 120_000
    stops_at_failure: bool = False
    metadata_refresh_s: float = REFRESH_S

    def __post_init__(self) -> None:
        """Check the settings; raise `InvalidArgument`."""
        Compression.from_name(self.compression)
        if self.acks not in ("all", "1", "0"):
            raise InvalidArgument(f"acks is {self.acks!r}; it can be all, 1 or 0")
        if self.idempotent and self.acks != "all":
            raise InvalidArgument(f"an idempotent producer needs acks all, not {self.acks}; or set idempotent=False")
        if self.partitioner not in (*PARTITIONERS, ROUND_ROBIN):
            known = ", ".join((*PARTITIONERS, ROUND_ROBIN))
            raise InvalidArgument(f"unknown partitioner {self.partitioner!r}; it can be {known}")
        for name in ("batch_records", "buffer_records", "buffer_bytes", "request_timeout_ms", "delivery_timeout_ms"):
            if getattr(self, name) < 1:
                raise InvalidArgument(f"{name} is {getattr(self, name)}; it has to be at least 1")
        if not 1 <= self.batch_bytes <= BATCH_BYTES_MAX:
            raise InvalidArgument(f"batch_bytes is {self.batch_bytes}; it can be 1 to {BATCH_BYTES_MAX}")
        if not 1 <= self.max_in_flight <= SEQUENCE_WINDOW:
            raise InvalidArgument(f"max_in_flight is {self.max_in_flight}; it can be 1 to {SEQUENCE_WINDOW}")
        if self.linger_ms < 0 or self.metadata_refresh_s <= 0:
            raise InvalidArgument("linger_ms cannot be negative, and metadata_refresh_s has to be above 0")

    @property
    def codec(self) -> Compression:
        """Compression of batches."""
        return Compression.from_name(self.compression)

    @property
    def in_flight_max(self) -> int:
        """Bound on the batches of one partition in flight; without sequences 1, which keeps their order."""
        return self.max_in_flight if self.idempotent else 1
