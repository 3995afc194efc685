"""Options of a write, as Spark hands them over, and what they mean."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from raftlog.errors import InvalidArgument
from raftlog.pipeline.options import Options
from raftlog.records import Compression
from raftlog.records.partitioner import PARTITIONERS

OPTIONS: Final = (
    "acceptMissingRecord",
    "batchBytes",
    "bootstrap",
    "compression",
    "deliveryTimeoutMs",
    "keyPartitioner",
    "recordsPerSecondPerTask",
    "topic",
    "writeId",
)
WRITE_ID_CHARS_MAX: Final = 200
_BATCH_BYTES_MAX: Final = 64 << 20
_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """`topic`: for all rows, None: each row names its own. `write_id`: None where the caller gave none."""

    bootstrap: tuple[str, ...]
    topic: str | None = None
    write_id: str | None = None
    compression: Compression = Compression.NONE
    batch_bytes: int = 1 << 20
    records_per_second: int | None = None
    delivery_timeout_ms: int = 120_000
    key_partitioner: str = "murmur2"
    accepts_missing_record: bool = False


def sink_settings(given: Mapping[str, str], *, is_stream: bool) -> SinkSettings:
    """Raises `InvalidArgument`."""
    options = Options("raftlog", given, OPTIONS)
    if is_stream and options.has("writeId"):
        raise InvalidArgument(
            "the option writeId is for batch writes: a streaming query is known by the id in its checkpoint"
        )
    return SinkSettings(
        bootstrap=options.names("bootstrap"),
        topic=options.text("topic") if options.has("topic") else None,
        write_id=_write_id(options.text("writeId")) if options.has("writeId") else None,
        compression=Compression[options.choice("compression", "none", [name.lower() for name in _codecs()]).upper()],
        batch_bytes=options.size("batchBytes", 1 << 20, 1 << 10, _BATCH_BYTES_MAX),
        records_per_second=options.maybe_number("recordsPerSecondPerTask", 1, 1_000_000_000),
        delivery_timeout_ms=options.number("deliveryTimeoutMs", 120_000, 1, _DAY_MS),
        key_partitioner=options.choice("keyPartitioner", "murmur2", tuple(PARTITIONERS)),
        accepts_missing_record=options.flag("acceptMissingRecord", False),
    )


def _codecs() -> list[str]:
    return [codec.name for codec in Compression]


def _write_id(name: str) -> str:
    if len(name) > WRITE_ID_CHARS_MAX or "/" in name or not name.isprintable():
        raise InvalidArgument(
            f"the option writeId is a name of 1 to {WRITE_ID_CHARS_MAX} printable characters without a slash"
        )
    return name
