"""Options of a write, as Spark passes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from raftlog.client.outage import Outage
from raftlog.errors import InvalidArgument, OutcomeUnknown, Unavailable
from raftlog.pipeline.errors import WriteForgotten
from raftlog.pipeline.options import (
    CONNECTION_OPTIONS,
    FLAG,
    TEXT,
    OptionKind,
    Options,
    SourceOption,
    choice,
    number,
    read_bootstrap,
    size,
)
from raftlog.records import Compression
from raftlog.records.partitioner import PARTITIONERS

PAUSE_S_MAX: Final = 1.0
WRITE_ID_CHARS_MAX: Final = 200
_BATCH_BYTES_MAX: Final = 64 << 20
_RATE_MIN: Final = 0.001
_RATE_MAX: Final = 1e9
_DAY_MS: Final = 86_400_000
_EPOCH_MAX: Final = (1 << 53) - 1


def _parse_rate(text: str) -> float | None:
    """Return records per second; None for a text outside of the limits."""
    try:
        rate = float(text)
    except ValueError:
        return None
    return rate if _RATE_MIN <= rate <= _RATE_MAX else None


def _parse_write_id(name: str) -> str | None:
    """Return the name; None if it is too long or has a character that is not allowed."""
    return name if len(name) <= WRITE_ID_CHARS_MAX and "/" not in name and name.isprintable() else None


OPTIONS: Final = {
    "topic": SourceOption("topic", TEXT),
    "writeId": SourceOption(
        "write_id",
        OptionKind(f"a name of 1 to {WRITE_ID_CHARS_MAX} printable characters without a slash", _parse_write_id),
    ),
    "writeEpoch": SourceOption("write_epoch", number(0, _EPOCH_MAX)),
    "compression": SourceOption("compression", choice({codec.name.lower(): codec for codec in Compression})),
    "batchBytes": SourceOption("batch_bytes", size(1 << 10, _BATCH_BYTES_MAX)),
    "recordsPerSecondPerTask": SourceOption(
        "records_per_second", OptionKind(f"a number from {_RATE_MIN:g} to {_RATE_MAX:g}", _parse_rate)
    ),
    "deliveryTimeoutMs": SourceOption("delivery_timeout_ms", number(1, _DAY_MS)),
    "keyPartitioner": SourceOption("key_partitioner", choice({name: name for name in PARTITIONERS})),
    "acceptMissingRecord": SourceOption("accepts_missing_record", FLAG),
}
WRITING_OPTIONS: Final = {"bootstrap", *CONNECTION_OPTIONS, *OPTIONS}


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """Settings of a write; `topic` is for all rows, None if each row names its topic.

    `write_id`: name of the write, None if the caller gave none; `write_epoch`: step of a write with several steps."""

    bootstrap: Sequence[str]
    topic: str | None = None
    write_id: str | None = None
    write_epoch: int = 0
    compression: Compression = Compression.NONE
    batch_bytes: int = 1 << 20
    records_per_second: float | None = None
    delivery_timeout_ms: int = 120_000
    key_partitioner: str = "murmur2"
    accepts_missing_record: bool = False

    def outage(self, purpose: str) -> Outage:
        """Return the retry limit for one request: `deliveryTimeoutMs` without progress."""
        return Outage(
            f"{purpose} (limited by the option deliveryTimeoutMs)",
            self.delivery_timeout_ms / 1000,
            PAUSE_S_MAX,
            lambda error: isinstance(error, Unavailable | OutcomeUnknown) and not isinstance(error, WriteForgotten),
        )


def sink_settings(given: Mapping[str, str], *, is_stream: bool) -> SinkSettings:
    """Parse the options. Raises `InvalidArgument`."""
    options = Options("raftlog", given, WRITING_OPTIONS)
    if is_stream and (options.has("writeId") or options.has("writeEpoch")):
        raise InvalidArgument(
            "the options writeId and writeEpoch are for batch writes: a streaming query is identified by the id in its "
            "checkpoint, and by its micro-batches"
        )
    if options.has("writeEpoch") and not options.has("writeId"):
        raise InvalidArgument("the option writeEpoch counts the steps of a write that has a name: give writeId, too")
    return SinkSettings(read_bootstrap(options), **options.fields(OPTIONS))
