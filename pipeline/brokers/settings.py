"""Options of the data source `raftlog` for reads, with their defaults (table: docs/PIPELINE.md)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from raftlog.errors import InvalidArgument
from raftlog.pipeline.options import (
    CONNECTION_OPTIONS,
    FLAG,
    SKIPS,
    Options,
    SourceOption,
    TopicChoice,
    number,
    read_bootstrap,
    size,
    topic_choice,
)
from raftlog.pipeline.positions import (
    EARLIEST,
    LATEST,
    OffsetPositions,
    ending_positions,
    option_names,
    starting_positions,
)
from raftlog.pipeline.sink.settings import WRITING_OPTIONS

FETCH_BYTES_DEFAULT: Final = 8 * 1024 * 1024
FETCH_BYTES_MAX: Final = 32 * 1024 * 1024
"""Maximum of `fetchMaxBytes`; a task has at most two chunks of this size in memory, or a single larger batch."""
REQUEST_MS_DEFAULT: Final = 60_000
PARTITIONS_MAX: Final = 100_000
_OFFSETS_MAX: Final = (1 << 63) - 1
_REQUEST_MS_MAX: Final = 3_600_000

_FIELDS: Final = {
    "minPartitions": SourceOption("min_partitions", number(1, PARTITIONS_MAX)),
    "maxOffsetsPerTrigger": SourceOption("max_offsets_per_trigger", number(1, _OFFSETS_MAX)),
    "failOnDataLoss": SourceOption("fail_on_data_loss", FLAG),
    "onUndecodable": SourceOption("skips_undecodable", SKIPS),
    "fetchMaxBytes": SourceOption("fetch_max_bytes", size(1, FETCH_BYTES_MAX)),
    "requestTimeoutMs": SourceOption("request_timeout_ms", number(1, _REQUEST_MS_MAX)),
}
STREAM_OPTIONS: Final = {
    *_FIELDS,
    "bootstrap",
    *CONNECTION_OPTIONS,
    "topics",
    "topicsPattern",
    *option_names("starting"),
}
BATCH_OPTIONS: Final = STREAM_OPTIONS - {"maxOffsetsPerTrigger"} | {*option_names("ending")}


@dataclass(frozen=True)
class ReadSettings:
    """Settings of a read from a cluster.

    `request_timeout_ms` limits the time without progress while brokers are unavailable."""

    bootstrap: Sequence[str]
    topics: TopicChoice
    starting: OffsetPositions
    ending: OffsetPositions
    min_partitions: int | None = None
    max_offsets_per_trigger: int | None = None
    fail_on_data_loss: bool = True
    fetch_max_bytes: int = FETCH_BYTES_DEFAULT
    request_timeout_ms: int = REQUEST_MS_DEFAULT
    skips_undecodable: bool = False

    @property
    def timeout_s(self) -> float:
        return self.request_timeout_ms / 1000


def batch_settings(given: Mapping[str, str]) -> ReadSettings:
    """Parse the options of a batch (default: `earliest` to `latest`); raises `InvalidArgument`.

    Options of writes and of streams are accepted, so that a program can pass the same options to all of them."""
    options = Options("raftlog", given, BATCH_OPTIONS, {*WRITING_OPTIONS, *STREAM_OPTIONS})
    return _parse_settings(options, starting_positions(options), ending_positions(options))


def stream_settings(given: Mapping[str, str]) -> ReadSettings:
    """Parse the options of a stream (default: from `latest` on); raises `InvalidArgument`."""
    for name in option_names("ending"):
        if name.lower() in map(str.lower, given):
            raise InvalidArgument(f"{name} is for batches; a stream has no end: use trigger(availableNow=True)")
    options = Options("raftlog", given, STREAM_OPTIONS, WRITING_OPTIONS)
    return _parse_settings(options, starting_positions(options, LATEST), OffsetPositions(LATEST))


def _parse_settings(options: Options, starting: OffsetPositions, ending: OffsetPositions) -> ReadSettings:
    """Return the settings of these options. Raises `InvalidArgument`."""
    if ending.unnamed == EARLIEST and not ending.named:
        raise InvalidArgument("endingOffsets is latest, or offsets by partition: nothing lies before the earliest")
    bootstrap, topics = read_bootstrap(options), topic_choice(options)
    return ReadSettings(bootstrap, topics, starting, ending, **options.fields(_FIELDS))
