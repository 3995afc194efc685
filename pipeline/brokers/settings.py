"""The options of the data source `raftlog` for reading, and their defaults. docs/PIPELINE.md has the table."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from raftlog.errors import InvalidArgument
from raftlog.pipeline.options import Options, TopicChoice, topic_choice
from raftlog.pipeline.positions import (
    EARLIEST,
    LATEST,
    OffsetPositions,
    ending_positions,
    option_names,
    starting_positions,
)

FETCH_BYTES_DEFAULT: Final = 8 * 1024 * 1024
FETCH_BYTES_MAX: Final = 32 * 1024 * 1024
"""A task holds two chunks of this size at most, and a larger batch alone."""
REQUEST_MS_DEFAULT: Final = 60_000
PARTITIONS_MAX: Final = 100_000
_OFFSETS_MAX: Final = (1 << 63) - 1
_REQUEST_MS_MAX: Final = 3_600_000

READING_OPTIONS: Final = (
    "bootstrap",
    "topics",
    "topicsPattern",
    *option_names("starting"),
    "minPartitions",
    "failOnDataLoss",
    "onUndecodable",
    "fetchMaxBytes",
    "requestTimeoutMs",
)
BATCH_OPTIONS: Final = (*READING_OPTIONS, *option_names("ending"))
STREAM_OPTIONS: Final = (*READING_OPTIONS, "maxOffsetsPerTrigger")
WRITING_OPTIONS: Final = (
    "topic",
    "writeId",
    "writeEpoch",
    "compression",
    "batchBytes",
    "recordsPerSecondPerTask",
    "deliveryTimeoutMs",
    "keyPartitioner",
    "acceptMissingRecord",
)
"""Not looked at when reading: programs hand one set of options to both sides."""


@dataclass(frozen=True)
class ReadSettings:
    """`request_timeout_ms` is for how long brokers may be out of reach without any progress."""

    bootstrap: tuple[str, ...]
    topics: TopicChoice
    starting: OffsetPositions
    ending: OffsetPositions
    min_partitions: int | None
    max_offsets_per_trigger: int | None
    fail_on_data_loss: bool
    fetch_max_bytes: int
    request_timeout_ms: int
    skips_undecodable: bool

    @property
    def patience_s(self) -> float:
        return self.request_timeout_ms / 1000


def batch_settings(given: Mapping[str, str]) -> ReadSettings:
    """All from `earliest` to `latest`, unless options say otherwise; raises `InvalidArgument`."""
    others = (*WRITING_OPTIONS, "maxOffsetsPerTrigger")
    options = Options("raftlog", given, BATCH_OPTIONS, others)
    return _settings(options, starting_positions(options), ending_positions(options))


def stream_settings(given: Mapping[str, str]) -> ReadSettings:
    """From `latest` on, unless options say otherwise; raises `InvalidArgument`."""
    for name in option_names("ending"):
        if name.lower() in map(str.lower, given):
            raise InvalidArgument(f"{name} is for batches; a stream has no end: use trigger(availableNow=True)")
    options = Options("raftlog", given, STREAM_OPTIONS, WRITING_OPTIONS)
    return _settings(options, starting_positions(options, LATEST), OffsetPositions(LATEST))


def _settings(options: Options, starting: OffsetPositions, ending: OffsetPositions) -> ReadSettings:
    if ending.unnamed == EARLIEST and not ending.named:
        raise InvalidArgument("endingOffsets is latest, or offsets by partition: nothing lies before the earliest")
    return ReadSettings(
        bootstrap=options.names("bootstrap"),
        topics=topic_choice(options),
        starting=starting,
        ending=ending,
        min_partitions=options.maybe_number("minPartitions", 1, PARTITIONS_MAX),
        max_offsets_per_trigger=options.maybe_number("maxOffsetsPerTrigger", 1, _OFFSETS_MAX),
        fail_on_data_loss=options.flag("failOnDataLoss", True),
        fetch_max_bytes=options.size("fetchMaxBytes", FETCH_BYTES_DEFAULT, 1, FETCH_BYTES_MAX),
        request_timeout_ms=options.number("requestTimeoutMs", REQUEST_MS_DEFAULT, 1, _REQUEST_MS_MAX),
        skips_undecodable=options.choice("onUndecodable", "fail", ("fail", "skip")) == "skip",
    )
