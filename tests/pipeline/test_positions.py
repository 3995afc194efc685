"""Start and end positions of reads, set by options."""

import pytest

from raftlog.errors import InvalidArgument
from raftlog.pipeline.options import Options
from raftlog.pipeline.positions import (
    EARLIEST,
    LATEST,
    OffsetPosition,
    OffsetPositions,
    PositionKind,
    ending_positions,
    milliseconds,
    option_names,
    starting_positions,
)

KNOWN = (*option_names("starting"), *option_names("ending"))


def start_positions(**given: str) -> OffsetPositions:
    return starting_positions(Options("raftlog", given, KNOWN))


def end_positions(**given: str) -> OffsetPositions:
    return ending_positions(Options("raftlog", given, KNOWN))


def offset_position(number: int) -> OffsetPosition:
    return OffsetPosition(PositionKind.OFFSET, number)


def test_positions_default_to_the_whole_log_and_accept_words() -> None:
    assert start_positions().position_of("t", 0) == EARLIEST
    assert end_positions().position_of("t", 0) == LATEST
    assert start_positions(startingOffsets="LATEST").position_of("t", 0) == LATEST
    assert end_positions(endingOffsets="earliest").position_of("t", 0) == EARLIEST
    assert starting_positions(Options("s", {}, ()), LATEST).position_of("t", 0) == LATEST


def test_partitions_without_an_offset_have_the_default() -> None:
    text = '{"t": {"0": 23, "1": -2, "2": -1}}'
    found = start_positions(startingOffsets=text)
    assert [found.position_of("t", number) for number in range(4)] == [offset_position(23), EARLIEST, LATEST, EARLIEST]
    found = end_positions(endingOffsets=text)
    assert [found.position_of("t", 3), found.position_of("u", 0)] == [LATEST, LATEST]


def test_positions_accept_times_as_milliseconds_and_text() -> None:
    at = OffsetPosition(PositionKind.TIMESTAMP, 1_700_000_000_000)
    assert start_positions(startingTimestamp="1700000000000").position_of("t", 7) == at
    assert end_positions(endingTimestamp="2023-11-14T22:13:20Z").position_of("t", 7) == at
    found = start_positions(startingOffsetsByTimestamp='{"t": {"1": 1700000000000, "2": "2023-11-14T23:13:20+01:00"}}')
    assert [found.position_of("t", number) for number in range(3)] == [EARLIEST, at, at]
    assert milliseconds("1970-01-01T00:00:00.0000001Z", "o") == 0  # below what Python reads
    assert milliseconds("1970-01-01T00:00:00.000001Z", "o") == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "middle",
        "[]",
        '{"t": 1}',
        '{"t": {"x": 1}}',
        '{"t": {"0": -3}}',
        '{"t": {"0": 1.5}}',
        '{"t": {"0": true}}',
        '{"t": {"01": 1}}',
        '{"t": {"²": 1}}',
    ],
)
def test_invalid_offsets_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="startingOffsets"):
        start_positions(startingOffsets=text)


@pytest.mark.parametrize(
    "text", ["yesterday", "-1", "2026-11-22", "2026-11-22T00:00:00", "1969-01-01T00:00:00Z", "9" * 20]
)
def test_invalid_times_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="startingTimestamp has"):
        start_positions(startingTimestamp=text)
    with pytest.raises(InvalidArgument, match="endingOffsetsByTimestamp has"):
        end_positions(endingOffsetsByTimestamp=f'{{"t": {{"0": "{text}"}}}}')


def test_offsets_and_times_exclude_each_other() -> None:
    with pytest.raises(InvalidArgument, match="startingOffsets and startingTimestamp exclude"):
        start_positions(startingOffsets="earliest", startingTimestamp="1")


def test_positions_of_partitions_that_are_not_read_are_refused() -> None:
    found = start_positions(startingOffsets='{"t": {"1": 5}}')
    found.check({"t": 2, "u": 1})
    with pytest.raises(InvalidArgument, match="partition 1 of topic t, which has 1"):
        found.check({"t": 1})
    with pytest.raises(InvalidArgument, match="topic t, which is not read"):
        found.check({"u": 1})
