"""End offsets of a stream's batches and cuts of splits: the pure part."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.pipeline.brokers.micro_batch import UNLIMITED, advance, check_subscribed
from raftlog.pipeline.brokers.plan import PartitionLog
from raftlog.pipeline.brokers.split import BrokerSplit, divide
from raftlog.pipeline.brokers.stream_offsets import StreamOffset, limit_offsets, ranges
from raftlog.pipeline.errors import CheckpointMismatch, DataLost
from raftlog.pipeline.options import TopicChoice
from raftlog.types import TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def log(place: TopicPartition, start: int, end: int, topic_id: str = "") -> PartitionLog:
    return PartitionLog(place.topic, topic_id or f"id-{place.topic}", place.partition, start, end, None)


def offset(offsets: dict[TopicPartition, int], **more: object) -> StreamOffset:
    return StreamOffset({place.topic: f"id-{place.topic}" for place in offsets}, offsets, **more)


def after(start: StreamOffset, *logs: PartitionLog, rows_max: int = UNLIMITED, **more: object) -> StreamOffset:
    more = {"fail_on_data_loss": True} | more
    return advance(start, logs, rows_max, **more)


def split(start: int, end: int, partition: int = 0) -> BrokerSplit:
    return BrokerSplit(("h:1",), "t", "id", partition, start, end)


@given(
    st.dictionaries(st.builds(TopicPartition, st.sampled_from("ab"), st.integers(0, 4)), st.integers(1, 10**6)),
    st.integers(1, 10**6),
)
def test_a_limit_is_kept_and_used_and_shared(waiting: dict[TopicPartition, int], rows_max: int) -> None:
    taken = limit_offsets(waiting, rows_max)
    assert sum(taken.values()) == min(rows_max, sum(waiting.values()))
    assert all(0 < count <= waiting[place] for place, count in taken.items())
    assert len(taken) == min(len(waiting), rows_max)
    total = sum(waiting.values())
    for place, count in taken.items():
        assert abs(count - waiting[place] * rows_max / total) <= len(waiting) + 1 or total <= rows_max


def test_no_reader_starves_under_a_small_limit() -> None:
    waiting = {T0: 5, T1: 3, U0: 4}
    got = dict.fromkeys(waiting, 0)
    for _ in range(12):
        for place, count in limit_offsets({place: count for place, count in waiting.items() if count}, 1).items():
            waiting[place] -= count
            got[place] += count
    assert got == {T0: 5, T1: 3, U0: 4}


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 50)), max_size=5), st.none() | st.integers(1, 60))
def test_splits_cover_what_they_are_cut_from(lengths: list[tuple[int, int]], at_least: int | None) -> None:
    whole = [split(start, start + length, number) for number, (start, length) in enumerate(lengths)]
    pieces = divide(whole, at_least)
    assert all(len(piece) > 0 for piece in pieces)
    covered = {(piece.partition, number) for piece in pieces for number in range(piece.start, piece.end)}
    assert covered == {(each.partition, number) for each in whole for number in range(each.start, each.end)}
    assert len(covered) == sum(map(len, pieces))
    assert len(pieces) >= min(at_least or 0, len(covered))


def test_splits_are_cut_in_proportion() -> None:
    pieces = divide([split(0, 100), split(0, 300, 1), split(5, 5, 2)], 4)
    assert [(piece.partition, piece.start, piece.end) for piece in pieces] == [
        (0, 0, 100),
        (1, 0, 100),
        (1, 100, 200),
        (1, 200, 300),
    ]


def test_an_offset_goes_through_json() -> None:
    for told in (offset({T0: 5, U0: 0}), offset({T0: 5}, is_initial=True), offset({T0: 5, T1: 1}, begins={T0: 2})):
        assert StreamOffset.from_json(json.loads(json.dumps(told.as_json()))) == told
    assert offset({T0: 12, T1: 7}).as_json() == {
        "version": 1,
        "topics": {"t": {"id": "id-t", "partitions": {"0": 12, "1": 7}}},
    }


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"version": 2, "topics": {}},
        {"t": {"0": 5}},
        {"version": 1, "topics": {"t": {"partitions": {}}}},
        {"version": 1, "topics": {"t": {"id": "x", "partitions": {"0": -1}}}},
        {"version": 1, "topics": {"t": {"id": "x", "partitions": {"zero": 1}}}},
        {"version": 1, "topics": []},
    ],
)
def test_a_checkpoint_of_another_source(told: dict[str, object]) -> None:
    with pytest.raises(CheckpointMismatch, match="checkpoint"):
        StreamOffset.from_json(told)


def test_nothing_new_is_the_same_offset() -> None:
    start = offset({T0: 5}, is_initial=True)
    assert after(start, log(T0, 0, 5)) is start


def test_the_first_micro_batch_remembers_where_it_begins() -> None:
    start = offset({T0: 5, U0: 1}, is_initial=True)
    end = after(start, log(T0, 0, 9), log(U0, 0, 1))
    assert end == offset({T0: 9, U0: 1}, begins={T0: 5, U0: 1})
    later = offset({T0: 7, U0: 1}, is_initial=True)  # Spark asks again after a crash, and the log has grown
    assert ranges(later, end) == ranges(start, end) == [(T0, 5, 9)]
    then = after(end, log(T0, 0, 11), log(U0, 0, 1))
    assert then == offset({T0: 11, U0: 1})
    assert ranges(end, then) == [(T0, 9, 11)]


def test_new_partitions_are_taken_in_at_their_beginning_and_then_read() -> None:
    start = offset({T0: 5})
    end = after(start, log(T0, 0, 6), log(T1, 3, 8), log(U0, 0, 2))
    assert end == offset({T0: 6, T1: 3, U0: 0})
    assert ranges(start, end) == [(T0, 5, 6)]
    then = after(end, log(T0, 0, 6), log(T1, 3, 8), log(U0, 0, 2))
    assert ranges(end, then) == [(T1, 3, 8), (U0, 0, 2)]


def test_an_older_view_without_added_partitions_does_not_make_the_stream_forget_them() -> None:
    start = offset({T0: 5, T1: 8})
    assert after(start, log(T0, 0, 5)) is start
    end = after(start, log(T0, 0, 6))
    assert end == offset({T0: 6, T1: 8})
    assert ranges(end, after(end, log(T0, 0, 6), log(T1, 3, 9))) == [(T1, 8, 9)], "nothing is read twice"


def test_a_limit_counts_all_partitions() -> None:
    end = after(offset({T0: 0, T1: 0}), log(T0, 0, 30), log(T1, 0, 10), rows_max=8)
    assert end == offset({T0: 6, T1: 2})


def test_nothing_newer_than_the_targets_is_taken() -> None:
    targets = {T0: log(T0, 0, 4), U0: log(U0, 0, 3)}
    start = offset({T0: 0})
    logs = (log(T0, 0, 9), log(T1, 0, 9), log(U0, 0, 9))
    end = after(start, *logs, targets=targets)
    assert end == offset({T0: 4, U0: 0})
    then = after(end, *logs, targets=targets)
    assert then == offset({T0: 4, U0: 3})
    assert after(then, *logs, targets=targets) is then


@pytest.mark.parametrize(
    ("logs", "words", "left"),
    [
        ([log(T0, 8, 9)], "t/0: records from offset 5 to 8", {T0: 9}),
        ([log(T0, 0, 4)], "t/0: .*up to offset 5, and the log ends at 4", {T0: 4}),
        ([log(U0, 0, 1)], "the topic t, which the stream has read, was deleted", {U0: 0}),
        ([log(T0, 2, 7, "another")], "created anew, or the checkpoint belongs to another cluster", {T0: 2}),
    ],
)
def test_deleted_records_are_lost_data(logs, words, left, caplog) -> None:
    start = offset({T0: 5})
    with pytest.raises(DataLost, match=words):
        after(start, *logs)
    end = after(start, *logs, fail_on_data_loss=False)
    assert end.offsets == left
    assert "reading continues" in caplog.text
    if end.ids.get("t") == "another":
        assert ranges(start, end) == []


def test_a_checkpoint_of_topics_that_are_not_read_any_more() -> None:
    start = offset({T0: 5, U0: 1})
    check_subscribed(start, TopicChoice(names=("t", "u", "v")))
    check_subscribed(start, TopicChoice(pattern="[a-z]"))
    with pytest.raises(CheckpointMismatch, match="has read u, and the query now reads topics t"):
        check_subscribed(start, TopicChoice(names=("t",)))
