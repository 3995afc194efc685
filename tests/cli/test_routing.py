"""From lines to records and partitions; resuming needs the same result however lines are read."""

import random

import pytest

from raftlog.cli.json_lines import parse_time_ms
from raftlog.cli.outcome import CommandFailed
from raftlog.cli.produce.routing import RecordLayout, make_router
from raftlog.records import NewRecord
from raftlog.records.partitioner import find_hash


def route_lines(
    layout: RecordLayout, lines: list[bytes], pieces: random.Random | None = None
) -> dict[int, list[NewRecord]]:
    """Return all records by partition; with `pieces`, lines are routed in pieces of random size."""
    router = make_router(layout)
    result: dict[int, list[NewRecord]] = {}
    at = 0
    while at < len(lines):
        size = len(lines) if pieces is None else pieces.randint(0, 7)
        for partition, records in router.route(lines[at : at + size]):
            result.setdefault(partition, []).extend(
                NewRecord(one) if isinstance(one, bytes) else one for one in records
            )
        at += size
    return {partition: records for partition, records in result.items() if records}


LAYOUTS = [
    RecordLayout(1),
    RecordLayout(3),
    RecordLayout(3, partition=2),
    RecordLayout(5, key_separator=b": "),
    RecordLayout(5, key_separator=b":", partitioner="crc32"),
    RecordLayout(1, key_separator=b":"),
    RecordLayout(4, number_keys=True),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_the_pieces_of_the_input_do_not_matter(layout: RecordLayout) -> None:
    lines = [b"%d: value %d" % (n % 11, n) if n % 3 else b"no key %d" % n for n in range(200)]
    whole = route_lines(layout, lines)
    assert sum(map(len, whole.values())) == len(lines)
    for seed in range(20):
        assert route_lines(layout, lines, random.Random(seed)) == whole


def test_values_without_keys_rotate_over_the_partitions() -> None:
    assert route_lines(RecordLayout(2), [b"a", b"b", b"c"]) == {
        0: [NewRecord(b"a"), NewRecord(b"c")],
        1: [NewRecord(b"b")],
    }


def test_keys_end_at_the_first_separator() -> None:
    lines = [b"k=v=w", b"=v", b"k=", b"", b"nothing"]
    assert route_lines(RecordLayout(1, key_separator=b"="), lines)[0] == [
        NewRecord(b"v=w", b"k"),
        NewRecord(b"v", b""),
        NewRecord(b"", b"k"),
        NewRecord(b"", None),
        NewRecord(b"nothing", None),
    ]


@pytest.mark.parametrize("partitioner", ["murmur2", "crc32"])
def test_keys_choose_the_same_partition_as_at_the_broker(partitioner: str) -> None:
    layout = RecordLayout(7, key_separator=b"=", partitioner=partitioner)
    for partition, records in route_lines(layout, [b"key%d=v" % n for n in range(50)]).items():
        for record in records:
            assert record.key is not None
            assert find_hash(partitioner)(record.key) % 7 == partition


def test_the_number_of_a_record_without_a_key_chooses_its_partition() -> None:
    lines = [b"k=1", b"x", b"y", b"k=2", b"z"]
    result = route_lines(RecordLayout(3, key_separator=b"="), lines)
    places = {record.value: partition for partition, records in result.items() for record in records}
    assert (places[b"x"], places[b"y"], places[b"z"]) == (1, 2, 1)


def test_json_lines_with_all_fields_are_parsed() -> None:
    line = (
        b'{"key": "k", "value": {"a": [1, null]}, "timestamp": "1970-01-01T00:00:01Z", "partition": 2,'
        b' "headers": [{"name": "h", "value": "AQI="}, {"name": "n", "value": null}], "topic": "t", "offset": 3}'
    )
    expected = NewRecord(b'{"a":[1,null]}', b"k", 1000, [("h", b"\x01\x02"), ("n", None)])
    assert route_lines(RecordLayout(4, json_lines=True), [line]) == {2: [expected]}


def test_missing_fields_of_json_lines_have_defaults() -> None:
    lines = [b"{}", b'{"value": "x"}', b'{"value": "/w==", "encoding": {"value": "base64"}}']
    result = route_lines(RecordLayout(3, json_lines=True), lines)
    assert {partition: records[0].value for partition, records in result.items()} == {0: None, 1: b"x", 2: b"\xff"}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", "line 2"),
        (b"[]", "not a JSON object"),
        (b'{"Key": 1}', "unknown field 'Key'"),
        (b'{"partition": -1}', "partition"),
        (b'{"partition": true}', "partition"),
        (b'{"timestamp": "soon"}', "soon"),
        (b'{"headers": [1]}', "a header must be"),
        (b'{"headers": [{"name": "a", "value": "?"}]}', "not base64"),
        (b'{"headers": 5}', "headers"),
        (b'{"value": 7, "encoding": {"value": "base64"}}', "7 is not a base64 string"),
        (b'{"encoding": 7}', "encoding"),
    ],
)
def test_invalid_lines_are_refused(line: bytes, why: str) -> None:
    with pytest.raises(CommandFailed, match=r"line 2 ") as raised:
        route_lines(RecordLayout(1, json_lines=True), [b"{}", line])
    assert why in str(raised.value)


def test_times_are_parsed_as_milliseconds_or_iso_8601() -> None:
    assert parse_time_ms("1500") == 1500
    assert parse_time_ms("1970-01-01T01:00:00+01:00") == 0
    with pytest.raises(ValueError, match="tomorrow"):
        parse_time_ms("tomorrow")
