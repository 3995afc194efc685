"""Start and end positions of a read: the options `startingOffsets`, `endingOffsets`, and those by time.

    startingOffsets=earliest                     latest, or by partition: {"orders": {"0": 23, "1": -2}}
    startingTimestamp=2026-11-22T00:00:00Z       or milliseconds; the first record from then on
    startingOffsetsByTimestamp={"orders": {"0": 1700000000000}}      the same for each partition

The options `ending…` have the same forms; an end is exclusive. -2 is the earliest offset and -1 the latest, as in
Spark's Kafka source. Partitions that are not named begin at the earliest offset and end at the latest. A time after the
last record means the end of the log. Pure: the readers convert positions to offsets, by brokers or by segment files."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from raftlog.errors import InvalidArgument
from raftlog.pipeline.options import Options

EARLIEST_NUMBER: Final = -2
LATEST_NUMBER: Final = -1
_OFFSET_MAX: Final = (1 << 63) - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)

_PartitionNumber = Annotated[int, Meta(ge=0, lt=1_000_000_000)]
_OffsetNumber = Annotated[int, Meta(ge=EARLIEST_NUMBER, le=_OFFSET_MAX)]
Side = Literal["starting", "ending"]


class PositionKind(Enum):
    """Kinds of positions in a log."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    TIMESTAMP = "timestamp"


class OffsetPosition(NamedTuple):
    """Position in a log in one of several forms.

    `value` is an offset, or milliseconds since 1970."""

    kind: PositionKind
    value: int = 0


EARLIEST: Final = OffsetPosition(PositionKind.EARLIEST)
LATEST: Final = OffsetPosition(PositionKind.LATEST)


@dataclass(frozen=True)
class OffsetPositions:
    """Start or end positions of a read; `option` is the option's name, for errors."""

    unnamed: OffsetPosition
    named: Mapping[str, Mapping[int, OffsetPosition]] = field(default_factory=dict)
    option: str = "default"

    def position_of(self, topic: str, partition: int) -> OffsetPosition:
        """Return the position of a partition; `unnamed` if the option does not name the partition."""
        return self.named.get(topic, {}).get(partition, self.unnamed)

    def check(self, partitions: Mapping[str, int]) -> None:
        """Raise `InvalidArgument` for a named partition that is not among `partitions`.

        `partitions` has the number of partitions by topic."""
        for topic, named in self.named.items():
            if topic not in partitions:
                raise InvalidArgument(f"{self.option} names the topic {topic}, which is not read")
            for partition in named:
                if partition >= partitions[topic]:
                    raise InvalidArgument(
                        f"{self.option} names partition {partition} of topic {topic}, which has {partitions[topic]}"
                    )


def starting_positions(options: Options, default: OffsetPosition = EARLIEST) -> OffsetPositions:
    """Parse `startingOffsets`, `startingTimestamp` or `startingOffsetsByTimestamp`; raises `InvalidArgument`."""
    return _parse_positions(options, "starting", default, EARLIEST)


def ending_positions(options: Options, default: OffsetPosition = LATEST) -> OffsetPositions:
    """Parse `endingOffsets`, `endingTimestamp` or `endingOffsetsByTimestamp`; raises `InvalidArgument`."""
    return _parse_positions(options, "ending", default, LATEST)


def option_names(side: Side) -> tuple[str, str, str]:
    """Return the names of three options: for offsets, for one timestamp, and for timestamps by partition."""
    return f"{side}Offsets", f"{side}Timestamp", f"{side}OffsetsByTimestamp"


def _parse_positions(options: Options, side: Side, default: OffsetPosition, unnamed: OffsetPosition) -> OffsetPositions:
    """Parse the one of the three options that is given; return `default` for all partitions if none is.

    `unnamed` is the position of partitions that the option does not name."""
    offsets, timestamp, by_timestamp = option_names(side)
    which = options.find_one_of(offsets, timestamp, by_timestamp)
    if which is None:
        return OffsetPositions(default)
    text = options.text(which)
    if which == timestamp:
        return OffsetPositions(OffsetPosition(PositionKind.TIMESTAMP, milliseconds(text, which)), option=which)
    if which == by_timestamp:
        named = _parse_by_partition(
            text,
            which,
            '{"topic": {"0": 1700000000000}}',
            int | str,
            lambda time: OffsetPosition(PositionKind.TIMESTAMP, milliseconds(str(time), which)),
        )
        return OffsetPositions(unnamed, named, which)
    words = {position.kind.value: position for position in (EARLIEST, LATEST)}
    if text.lower() in words:
        return OffsetPositions(words[text.lower()], option=which)
    forms = 'earliest, latest or {"topic": {"0": 23, "1": -2}}, where -2 is the earliest and -1 the latest'
    return OffsetPositions(unnamed, _parse_by_partition(text, which, forms, _OffsetNumber, _to_position), which)


def _parse_by_partition(
    text: str, option: str, forms: str, kind: Any, position: Callable[[Any], OffsetPosition]
) -> dict[str, dict[int, OffsetPosition]]:
    """Parse a JSON object from topics to partitions to values of the type `kind`."""
    try:
        topics = msgspec.json.decode(text, type=dict[str, dict[_PartitionNumber, kind]])
    except ValueError as error:
        raise InvalidArgument(f"{option} is {forms}, not {text!r}: {error}") from None
    return {
        topic: {number: position(value) for number, value in partitions.items()} for topic, partitions in topics.items()
    }


def _to_position(value: int) -> OffsetPosition:
    """Return the position of an offset; -2 is the earliest, and -1 the latest."""
    if value == EARLIEST_NUMBER:
        return EARLIEST
    return LATEST if value == LATEST_NUMBER else OffsetPosition(PositionKind.OFFSET, value)


def milliseconds(text: str, option: str) -> int:
    """Parse milliseconds since 1970, or RFC 3339 with an offset from UTC; fractions are rounded up.

    Raises `InvalidArgument`."""
    if text.isascii() and text.isdecimal() and int(text) <= _OFFSET_MAX:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or moment < _EPOCH:
        raise InvalidArgument(
            f"{option} has {text!r}; a time is milliseconds since 1970, or as 2026-11-22T09:30:00Z or …+01:00"
        )
    return math.ceil((moment - _EPOCH) / _MILLISECOND)
