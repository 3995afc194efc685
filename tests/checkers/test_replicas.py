"""Comparison of replicas: prefixes pass, and every difference is reported with its offset."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jepsen.checkers import ReplicaComparison, compare_streams
from jepsen.checkers.replicas import first_difference
from raftlog.errors import InvalidArgument

LOGS = st.lists(st.tuples(st.integers(1, 3), st.binary(min_size=1, max_size=8)), max_size=30)


def number_records(log: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Return (offset, record) pairs."""
    items, offset = [], 0
    for count, data in log:
        items.append((offset, data))
        offset += count
    return items


@given(log=LOGS, seed=st.integers(0, 2**32))
def test_parts_of_one_log_agree(log: list[tuple[int, bytes]], seed: int) -> None:
    items, random = number_records(log), Random(seed)
    streams = {}
    for name in ("n1", "n2", "n3"):
        start, end = sorted((random.randint(0, len(items)), random.randint(0, len(items))))
        streams[name] = items[start:end]
    assert compare_streams(streams) is None


@given(log=LOGS.filter(len), seed=st.integers(0, 2**32))
def test_one_changed_byte_anywhere_is_detected(log: list[tuple[int, bytes]], seed: int) -> None:
    items, random = number_records(log), Random(seed)
    place = random.randrange(len(items))
    number, data = items[place]
    position = random.randrange(len(data))
    changed = data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]
    streams = {"n1": items, "n2": list(items), "n3": [*items[:place], (number, changed), *items[place + 1 :]]}
    anomaly = compare_streams(streams)
    assert anomaly is not None
    assert anomaly.kind == "replicas-differ"
    assert f"at {number}: byte {position} of" in anomaly.what


def test_a_missing_batch_in_the_middle_is_detected() -> None:
    items = [(number, b"x") for number in range(5)]
    anomaly = compare_streams({"n1": items, "n2": items[:2] + items[3:]})
    assert anomaly is not None
    assert anomaly.what == "n1 has 2 where n2 has 3"


def test_a_replica_with_a_hole_where_another_starts_is_detected() -> None:
    anomaly = compare_streams({"n1": [(0, b"a"), (2, b"c")], "n2": [(1, b"b"), (2, b"c")]})
    assert anomaly is not None
    assert anomaly.what == "n1 has 2 where n2 has 1"


def test_a_replica_that_starts_late_with_another_batch_is_detected() -> None:
    anomaly = compare_streams({"n1": [(0, b"a"), (1, b"b")], "n2": [(1, b"B")]})
    assert anomaly is not None
    assert anomaly.what == "n1 and n2 differ at 1: byte 0 of 1 and 1 bytes"


def test_offsets_that_do_not_rise_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="n2: 1 follows 1"):
        compare_streams({"n1": [(0, b"a"), (1, b"b"), (2, b"c")], "n2": [(0, b"a"), (1, b"b"), (1, b"c")]})


def test_streams_are_read_once_and_may_be_generators() -> None:
    streams = {name: ((number, bytes([number])) for number in range(100)) for name in ("n1", "n2")}
    assert compare_streams(streams) is None


def test_the_incremental_comparison_finds_differing_replicas_and_drops_trimmed_offsets() -> None:
    comparison = ReplicaComparison()
    assert comparison.feed("n1", 7, b"seven") is None
    assert comparison.feed("n2", 7, memoryview(b"seven")) is None
    anomaly = comparison.feed("n3", 7, b"sieben")
    assert anomaly is not None
    assert anomaly.what == "n1 had 5 bytes at 7, n3 has other 6 bytes"
    assert comparison.feed("n1", 7, b"changed") is not None, "what is committed never changes"
    comparison.trim(8)
    assert comparison.feed("n3", 7, b"sieben") is None


@given(data=st.binary(max_size=20), other=st.binary(max_size=20))
def test_the_first_difference_is_found_by_bisection(data: bytes, other: bytes) -> None:
    naive = next((i for i, (a, b) in enumerate(zip(data, other, strict=False)) if a != b), min(len(data), len(other)))
    assert first_difference(data, other) == naive
