"""End offsets of a stream's batches, and division into splits; without brokers."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.pipeline.brokers.micro_batch import UNLIMITED, check_subscribed, choose_batch_end
from raftlog.pipeline.brokers.plan import PartitionLog
from raftlog.pipeline.brokers.split import BrokerSplit, divide
from raftlog.pipeline.brokers.stream_offsets import StreamOffset, limit_offsets, ranges_between
from raftlog.pipeline.errors import CheckpointMismatch, DataLost
from raftlog.pipeline.options import TopicChoice
from raftlog.types import TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def make_log(place: TopicPartition, start: int, end: int, topic_id: str = "") -> PartitionLog:
    return PartitionLog(place.topic, topic_id or f"id-{place.topic}", place.partition, start, end, None)


def make_offset(offsets: dict[TopicPartition, int], **more: object) -> StreamOffset:
    return StreamOffset({place.topic: f"id-{place.topic}" for place in offsets}, offsets, **more)


def next_offset(start: StreamOffset, *logs: PartitionLog, rows_max: int = UNLIMITED, **more: object) -> StreamOffset:
    more = {"fail_on_data_loss": True} | more
    return choose_batch_end(start, logs, rows_max, **more)


def make_split(start: int, end: int, partition: int = 0) -> BrokerSplit:
    return BrokerSplit(("h:1",), "t", "id", partition, start, end)


@given(
    st.dictionaries(st.builds(TopicPartition, st.sampled_from("ab"), st.integers(0, 4)), st.integers(1, 10**6)),
    st.integers(1, 10**6),
)
def test_a_limit_is_used_in_full_and_shared(waiting: dict[TopicPartition, int], rows_max: int) -> None:
    taken = limit_offsets(waiting, rows_max)
    assert sum(taken.values()) == min(rows_max, sum(waiting.values()))
    assert all(0 < count <= waiting[place] for place, count in taken.items())
    assert len(taken) == min(len(waiting), rows_max)
    total = sum(waiting.values())
    for place, count in taken.items():
        assert abs(count - waiting[place] * rows_max / total) <= len(waiting) + 1 or total <= rows_max


def test_a_small_limit_starves_no_partition() -> None:
    waiting = {T0: 5, T1: 3, U0: 4}
    got = dict.fromkeys(waiting, 0)
    for _ in range(12):
        for place, count in limit_offsets({place: count for place, count in waiting.items() if count}, 1).items():
            waiting[place] -= count
            got[place] += count
    assert got == {T0: 5, T1: 3, U0: 4}


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 50)), max_size=5), st.none() | st.integers(1, 60))
def test_split_pieces_cover_the_same_offsets(lengths: list[tuple[int, int]], at_least: int | None) -> None:
    whole = [make_split(start, start + length, number) for number, (start, length) in enumerate(lengths)]
    pieces = divide(whole, at_least)
    assert all(len(piece) > 0 for piece in pieces)
    covered = {(piece.partition, number) for piece in pieces for number in range(piece.start, piece.end)}
    assert covered == {(each.partition, number) for each in whole for number in range(each.start, each.end)}
    assert len(covered) == sum(map(len, pieces))
    assert len(pieces) >= min(at_least or 0, len(covered))


def test_large_splits_are_divided_into_more_pieces() -> None:
    pieces = divide([make_split(0, 100), make_split(0, 300, 1), make_split(5, 5, 2)], 4)
    assert [(piece.partition, piece.start, piece.end) for piece in pieces] == [
        (0, 0, 100),
        (1, 0, 100),
        (1, 100, 200),
        (1, 200, 300),
    ]


def test_an_offset_survives_json() -> None:
    for told in (
        make_offset({T0: 5, U0: 0}),
        make_offset({T0: 5}, is_initial=True),
        make_offset({T0: 5, T1: 1}, begins={T0: 2}),
    ):
        assert StreamOffset.from_json(json.loads(json.dumps(told.as_json()))) == told
    assert make_offset({T0: 12, T1: 7}).as_json() == {
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
def test_a_checkpoint_of_another_source_is_refused(told: dict[str, object]) -> None:
    with pytest.raises(CheckpointMismatch, match="checkpoint"):
        StreamOffset.from_json(told)


def test_the_offset_stays_without_new_records() -> None:
    start = make_offset({T0: 5}, is_initial=True)
    assert next_offset(start, make_log(T0, 0, 5)) is start


def test_the_first_micro_batch_remembers_where_it_begins() -> None:
    start = make_offset({T0: 5, U0: 1}, is_initial=True)
    end = next_offset(start, make_log(T0, 0, 9), make_log(U0, 0, 1))
    assert end == make_offset({T0: 9, U0: 1}, begins={T0: 5, U0: 1})
    later = make_offset({T0: 7, U0: 1}, is_initial=True)  # Spark asks again after a crash, and the log has grown
    assert ranges_between(later, end) == ranges_between(start, end) == [(T0, 5, 9)]
    then = next_offset(end, make_log(T0, 0, 11), make_log(U0, 0, 1))
    assert then == make_offset({T0: 11, U0: 1})
    assert ranges_between(end, then) == [(T0, 9, 11)]


def test_new_partitions_are_added_at_their_beginning_and_then_read() -> None:
    start = make_offset({T0: 5})
    end = next_offset(start, make_log(T0, 0, 6), make_log(T1, 3, 8), make_log(U0, 0, 2))
    assert end == make_offset({T0: 6, T1: 3, U0: 0})
    assert ranges_between(start, end) == [(T0, 5, 6)]
    then = next_offset(end, make_log(T0, 0, 6), make_log(T1, 3, 8), make_log(U0, 0, 2))
    assert ranges_between(end, then) == [(T1, 3, 8), (U0, 0, 2)]


def test_a_stale_view_without_added_partitions_does_not_remove_them() -> None:
    start = make_offset({T0: 5, T1: 8})
    assert next_offset(start, make_log(T0, 0, 5)) is start
    end = next_offset(start, make_log(T0, 0, 6))
    assert end == make_offset({T0: 6, T1: 8})
    assert ranges_between(end, next_offset(end, make_log(T0, 0, 6), make_log(T1, 3, 9))) == [(T1, 8, 9)], (
        "nothing is read twice"
    )


def test_a_limit_counts_all_partitions() -> None:
    end = next_offset(make_offset({T0: 0, T1: 0}), make_log(T0, 0, 30), make_log(T1, 0, 10), rows_max=8)
    assert end == make_offset({T0: 6, T1: 2})


def test_the_stream_ends_at_its_targets() -> None:
    targets = {T0: make_log(T0, 0, 4), U0: make_log(U0, 0, 3)}
    start = make_offset({T0: 0})
    logs = (make_log(T0, 0, 9), make_log(T1, 0, 9), make_log(U0, 0, 9))
    end = next_offset(start, *logs, targets=targets)
    assert end == make_offset({T0: 4, U0: 0})
    then = next_offset(end, *logs, targets=targets)
    assert then == make_offset({T0: 4, U0: 3})
    assert next_offset(then, *logs, targets=targets) is then


@pytest.mark.parametrize(
    ("logs", "words", "left"),
    [
        ([make_log(T0, 8, 9)], "t/0: records from offset 5 to 8", {T0: 9}),
        ([make_log(T0, 0, 4)], "t/0: .*up to offset 5, and the log ends at 4", {T0: 4}),
        ([make_log(U0, 0, 1)], "the topic t, which the stream has read, was deleted", {U0: 0}),
        ([make_log(T0, 2, 7, "another")], "created anew, or the checkpoint belongs to another cluster", {T0: 2}),
    ],
)
def test_deleted_records_are_lost_data(logs, words, left, caplog) -> None:
    start = make_offset({T0: 5})
    with pytest.raises(DataLost, match=words):
        next_offset(start, *logs)
    end = next_offset(start, *logs, fail_on_data_loss=False)
    assert end.offsets == left
    assert "reading continues" in caplog.text
    if end.ids.get("t") == "another":
        assert ranges_between(start, end) == []


def test_a_checkpoint_of_topics_no_longer_read_is_refused() -> None:
    start = make_offset({T0: 5, U0: 1})
    check_subscribed(start, TopicChoice(names=("t", "u", "v")))
    check_subscribed(start, TopicChoice(pattern="[a-z]"))
    with pytest.raises(CheckpointMismatch, match="has read u, and the query now reads topics t"):
        check_subscribed(start, TopicChoice(names=("t",)))
