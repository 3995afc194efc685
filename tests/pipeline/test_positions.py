"""Start and end positions of reads, as given by options."""

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


def starting(**given: str) -> OffsetPositions:
    return starting_positions(Options("raftlog", given, KNOWN))


def ending(**given: str) -> OffsetPositions:
    return ending_positions(Options("raftlog", given, KNOWN))


def offset(number: int) -> OffsetPosition:
    return OffsetPosition(PositionKind.OFFSET, number)


def test_words_and_defaults() -> None:
    assert starting().at("t", 0) == EARLIEST
    assert ending().at("t", 0) == LATEST
    assert starting(startingOffsets="LATEST").at("t", 0) == LATEST
    assert ending(endingOffsets="earliest").at("t", 0) == EARLIEST
    assert starting_positions(Options("s", {}, ()), LATEST).at("t", 0) == LATEST


def test_offsets_by_partition_and_what_is_not_named() -> None:
    text = '{"t": {"0": 23, "1": -2, "2": -1}}'
    found = starting(startingOffsets=text)
    assert [found.at("t", number) for number in range(4)] == [offset(23), EARLIEST, LATEST, EARLIEST]
    found = ending(endingOffsets=text)
    assert [found.at("t", 3), found.at("u", 0)] == [LATEST, LATEST]


def test_times() -> None:
    at = OffsetPosition(PositionKind.TIMESTAMP, 1_700_000_000_000)
    assert starting(startingTimestamp="1700000000000").at("t", 7) == at
    assert ending(endingTimestamp="2023-11-14T22:13:20Z").at("t", 7) == at
    found = starting(startingOffsetsByTimestamp='{"t": {"1": 1700000000000, "2": "2023-11-14T23:13:20+01:00"}}')
    assert [found.at("t", number) for number in range(3)] == [EARLIEST, at, at]
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
def test_offsets_that_are_none(text: str) -> None:
    with pytest.raises(InvalidArgument, match="startingOffsets"):
        starting(startingOffsets=text)


@pytest.mark.parametrize(
    "text", ["yesterday", "-1", "2026-11-22", "2026-11-22T00:00:00", "1969-01-01T00:00:00Z", "9" * 20]
)
def test_times_that_are_none(text: str) -> None:
    with pytest.raises(InvalidArgument, match="startingTimestamp has"):
        starting(startingTimestamp=text)
    with pytest.raises(InvalidArgument, match="endingOffsetsByTimestamp has"):
        ending(endingOffsetsByTimestamp=f'{{"t": {{"0": "{text}"}}}}')


def test_one_form_at_a_time() -> None:
    with pytest.raises(InvalidArgument, match="startingOffsets and startingTimestamp exclude"):
        starting(startingOffsets="earliest", startingTimestamp="1")


def test_named_partitions_are_read() -> None:
    found = starting(startingOffsets='{"t": {"1": 5}}')
    found.check({"t": 2, "u": 1})
    with pytest.raises(InvalidArgument, match="partition 1 of topic t, which has 1"):
        found.check({"t": 1})
    with pytest.raises(InvalidArgument, match="topic t, which is not read"):
        found.check({"u": 1})
