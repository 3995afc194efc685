"""Topics read through real brokers of this process, without Spark: the planned splits, and their records."""

import logging
import pickle
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from raftlog.errors import InvalidArgument, Unavailable, UndecodableBatch, UnknownTopic
from raftlog.pipeline.brokers import fetcher as reading
from raftlog.pipeline.brokers.plan import list_partitions
from raftlog.pipeline.brokers.settings import batch_settings
from raftlog.pipeline.brokers.source import BatchReader
from raftlog.pipeline.brokers.split import BrokerSplit
from raftlog.pipeline.errors import DataLost
from raftlog.pipeline.options import TopicChoice
from raftlog.records import NewRecord
from tests.pipeline.brokers_here import DRIVER, LocalBrokers, run_brokers
from tests.undecodable import SMALL


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBrokers]:
    with run_brokers(tmp_path_factory.mktemp("broker")) as one:
        yield one


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """Return a topic name that no other test uses."""
    return "".join(letter if letter.isalnum() else "-" for letter in request.node.name)


def numbered_records(first: int, end: int) -> list[NewRecord]:
    return [NewRecord(b"%d" % number, timestamp=1000 * number) for number in range(first, end)]


def make_reader(brokers: LocalBrokers, topic: str, **options: Any) -> BatchReader:
    given = {"bootstrap": brokers.bootstrap, "topics": topic, "requestTimeoutMs": "10000"}
    return BatchReader(batch_settings(given | {name: str(value) for name, value in options.items()}))


def splits_of(brokers: LocalBrokers, topic: str, **options: Any) -> list[BrokerSplit]:
    planned = make_reader(brokers, topic, **options).partitions()
    splits = [pickle.loads(pickle.dumps(split)) for split in planned]
    assert splits == planned
    return splits


def rows_of(splits: list[BrokerSplit]) -> list[tuple[int, int, bytes]]:
    rows = [row for split in splits for batch in reading.read_split(split) for row in batch.to_pylist()]
    return [(row["partition"], row["offset"], row["value"]) for row in rows]


def offsets_of(splits: list[BrokerSplit]) -> list[tuple[int, int, int]]:
    return [(split.partition, split.start, split.end) for split in splits]


def test_all_records_are_read_once_for_any_chunks_and_splits(brokers: LocalBrokers, topic: str) -> None:
    brokers.create_topic(topic, 2)
    brokers.produce(topic, 0, numbered_records(0, 1000), per_batch=37)
    brokers.produce(topic, 1, numbered_records(0, 10))
    expected = [(0, number, b"%d" % number) for number in range(1000)]
    expected += [(1, number, b"%d" % number) for number in range(10)]
    assert rows_of(splits_of(brokers, topic)) == expected
    splits = splits_of(brokers, topic, minPartitions=7, fetchMaxBytes=700)
    assert 7 <= len(splits) <= 9
    assert rows_of(splits) == expected


def test_records_after_planning_are_not_read(brokers: LocalBrokers, topic: str) -> None:
    brokers.create_topic(topic)
    brokers.produce(topic, 0, numbered_records(0, 10))
    splits = splits_of(brokers, topic)
    brokers.produce(topic, 0, numbered_records(10, 20))
    assert len(rows_of(splits)) == 10


def test_bounds_by_offset_and_by_time(brokers: LocalBrokers, topic: str) -> None:
    brokers.create_topic(topic, 3)
    for partition in (0, 1):
        brokers.produce(topic, partition, numbered_records(0, 100), per_batch=10)

    def plan_splits(**options: Any) -> list[tuple[int, int, int]]:
        return offsets_of(splits_of(brokers, topic, **options))

    assert plan_splits(startingOffsets=f'{{"{topic}": {{"0": 23, "1": -1}}}}') == [(0, 23, 100)]
    assert plan_splits(endingOffsets=f'{{"{topic}": {{"0": 23, "1": -2}}}}') == [(0, 0, 23)]
    assert plan_splits(startingOffsets="latest") == []
    assert plan_splits(startingTimestamp=55_001, endingTimestamp="1970-01-01T00:01:10Z") == [(0, 56, 70), (1, 56, 70)]
    assert plan_splits(startingTimestamp=10**9) == []
    assert plan_splits(endingOffsetsByTimestamp=f'{{"{topic}": {{"1": 5000}}}}') == [(0, 0, 100), (1, 0, 5)]
    assert rows_of(splits_of(brokers, topic, startingTimestamp=98_500)) == [(0, 99, b"99"), (1, 99, b"99")]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffsets": '{"TOPIC": {"1": 0}}'}, "partition 1 of topic TOPIC, which has 1"),
        ({"startingOffsets": '{"other": {"0": 0}}'}, "topic other, which is not read"),
        ({"startingOffsets": '{"TOPIC": {"0": 11}}'}, "TOPIC/0, which ends at 10"),
        ({"endingOffsets": '{"TOPIC": {"0": 11}}'}, "TOPIC/0, which ends at 10"),
        ({"startingOffsets": "latest", "endingOffsets": '{"TOPIC": {"0": 5}}'}, "begin at offset 10 .* end at 5"),
        ({"endingOffsets": "earliest"}, "nothing lies before the earliest"),
        ({"fetchMaxBytes": "1g"}, "fetchMaxBytes is a number of bytes"),
        ({"topicsPattern": "x"}, "exclude each other"),
        ({"startingOfsets": "latest"}, "did you mean startingOffsets"),
    ],
)
def test_invalid_bounds_are_refused(brokers: LocalBrokers, options: dict[str, str], words: str) -> None:
    if "bounds" not in brokers.call("topics"):
        brokers.create_topic("bounds")
        brokers.produce("bounds", 0, numbered_records(0, 10))
    options = {name: value.replace("TOPIC", "bounds") for name, value in options.items()}
    with pytest.raises(InvalidArgument, match=words.replace("TOPIC", "bounds")):
        make_reader(brokers, "bounds", **options).partitions()


def test_missing_topics_are_reported(brokers: LocalBrokers, topic: str) -> None:
    with pytest.raises(UnknownTopic, match=topic):
        make_reader(brokers, topic).partitions()
    with pytest.raises(InvalidArgument, match=r"no topics that match nothing-\.\*; internal"):
        BatchReader(batch_settings({"bootstrap": brokers.bootstrap, "topicsPattern": "nothing-.*"})).partitions()
    with pytest.raises(Unavailable, match="refused"):
        BatchReader(
            batch_settings({"bootstrap": "127.0.0.1:1", "topics": topic, "requestTimeoutMs": "100"})
        ).partitions()


def test_a_pattern_matches_no_internal_topics(brokers: LocalBrokers, topic: str) -> None:
    for name in (f"{topic}-a", f"{topic}-b", f"x{topic}-a"):
        brokers.create_topic(name)
    there = list_partitions(brokers.bootstrap.split(","), TopicChoice(pattern=f"{topic}-.*|__.*"))
    assert [(log.topic, log.partition, log.start, log.end) for log in there.logs] == [
        (f"{topic}-a", 0, 0, 0),
        (f"{topic}-b", 0, 0, 0),
    ]
    assert there.addresses == tuple(brokers.http.values())


def create_trimmed_topic(brokers: LocalBrokers, topic: str) -> None:
    brokers.create_topic(topic)
    brokers.produce(topic, 0, numbered_records(0, 100), per_batch=10)
    brokers.call("delete_records", topic, 0, 40)


def test_a_start_below_the_beginning_is_data_lost(brokers: LocalBrokers, topic: str, caplog) -> None:
    create_trimmed_topic(brokers, topic)
    asked = {"startingOffsets": f'{{"{topic}": {{"0": 7}}}}'}
    with pytest.raises(DataLost, match=f"{topic}/0: records from offset 7 to 40 .* startingOffsets"):
        make_reader(brokers, topic, **asked).partitions()
    with caplog.at_level(logging.WARNING, "raftlog.pipeline"):
        assert offsets_of(splits_of(brokers, topic, failOnDataLoss="false", **asked)) == [(0, 40, 100)]
    assert "offset 7 to 40" in caplog.text
    assert offsets_of(splits_of(brokers, topic)) == [(0, 40, 100)]
    with pytest.raises(DataLost, match="below offset 40 were deleted, and endingOffsets ends at 5"):
        make_reader(brokers, topic, endingOffsets=f'{{"{topic}": {{"0": 5}}}}').partitions()


def test_records_deleted_before_they_are_read_are_data_lost(brokers: LocalBrokers, topic: str, caplog) -> None:
    brokers.create_topic(topic)
    brokers.produce(topic, 0, numbered_records(0, 100), per_batch=10)
    [split] = splits_of(brokers, topic, startingOffsets=f'{{"{topic}": {{"0": 5}}}}', fetchMaxBytes=1)
    brokers.call("delete_records", topic, 0, 40)
    with pytest.raises(DataLost, match=f"{topic}/0: records from offset 5 to 40 .* deleted before they were read"):
        rows_of([split])
    with caplog.at_level(logging.WARNING, "raftlog.pipeline"):
        rows = rows_of([replace(split, fail_on_data_loss=False)])
    assert [offset for _, offset, _ in rows] == list(range(40, 100))
    assert "offset 5 to 40" in caplog.text
    assert rows_of([replace(split, end=30, fail_on_data_loss=False)]) == []
    assert "offset 5 to 30" in caplog.text


@pytest.mark.parametrize("records", [0, 50, 200])
def test_a_recreated_topic_is_data_lost(brokers: LocalBrokers, topic: str, records: int) -> None:
    brokers.create_topic(topic)
    brokers.produce(topic, 0, numbered_records(0, 100), per_batch=10)
    [split] = splits_of(brokers, topic, startingOffsets=f'{{"{topic}": {{"0": 30}}}}')
    brokers.call("delete_topic", topic)
    with pytest.raises(DataLost, match=r"offset 30 to 100 .* the topic was deleted;"):
        rows_of([split])
    brokers.create_topic(topic)
    brokers.produce(topic, 0, numbered_records(0, records))
    with pytest.raises(DataLost, match=r"offset 30 to 100 .*(created anew|log ends at offset 0)"):
        rows_of([split])
    assert rows_of([replace(split, fail_on_data_loss=False)]) == []


def test_a_read_waits_for_its_end_offset_and_then_fails(brokers: LocalBrokers, topic: str) -> None:
    brokers.create_topic(topic)
    brokers.produce(topic, 0, numbered_records(0, 10))
    [split] = splits_of(brokers, topic)
    with pytest.raises(
        Unavailable,
        match=f"(?s){topic}/0: the leader has only offsets below 10, and 20 was read before.*no success within 0.3 s",
    ):
        rows_of([replace(split, end=20, request_timeout_ms=300)])
    brokers.produce(topic, 0, numbered_records(10, 20))
    assert len(rows_of([replace(split, end=20, request_timeout_ms=300)])) == 20


def test_a_wrong_leader_hint_is_harmless(brokers: LocalBrokers, topic: str) -> None:
    brokers.create_topic(topic)
    brokers.produce(topic, 0, numbered_records(0, 10))
    [split] = splits_of(brokers, topic)
    assert len(rows_of([replace(split, leader="127.0.0.1:1", bootstrap=("127.0.0.1:1", *split.bootstrap))])) == 10


def test_a_closed_reader_stops_fetching(brokers: LocalBrokers, topic: str) -> None:
    brokers.create_topic(topic)
    brokers.produce(topic, 0, numbered_records(0, 100_000), per_batch=5000)
    before = threading.active_count()
    rows = reading.read_split(splits_of(brokers, topic, fetchMaxBytes=1000)[0])
    assert next(rows).num_rows > 0
    assert threading.active_count() == before + 1
    rows.close()
    assert threading.active_count() == before


def test_reads_continue_when_leaders_stop(tmp_path: Path) -> None:
    with run_brokers(tmp_path, 3) as three:
        three.create_topic("t")
        three.produce("t", 0, numbered_records(0, 60_000), per_batch=2000)
        [split] = splits_of(three, "t", fetchMaxBytes="64k")
        rows = reading.read_split(split)
        found = next(rows).column("offset").to_pylist()
        leader = three.call("describe_topic", "t").replicas[0].leader
        three.stop(leader)
        found += [offset for batch in rows for offset in batch.column("offset").to_pylist()]
        assert found == list(range(60_000))


def test_gaps_of_compaction_are_skipped(tmp_path: Path) -> None:
    driver = replace(DRIVER, checkpoint_interval_ms=100)  # compaction waits for one
    with run_brokers(tmp_path, retention_interval_s=0.05, driver=driver) as one:
        compacted = {"cleanup_policy": "compact", "segment_bytes": "4096", "min_cleanable_dirty_ratio": "0"}
        one.create_topic("t", max_compaction_lag_ms="100", **compacted)
        one.produce("t", 0, [NewRecord(b"old", b"k", 1)] * 500, per_batch=50)
        one.produce("t", 0, [NewRecord(b"last", b"k", 1)])
        [split] = splits_of(one, "t")
        assert offsets_of([split]) == [(0, 0, 501)]
        while len(rows := rows_of([split])) > 1:
            assert rows[-1] == (0, 500, b"last")
        assert rows == [(0, 500, b"last")]
        assert rows_of([replace(split, end=500)]) == []


def test_an_undecodable_batch_is_skipped_only_if_configured(brokers: LocalBrokers, topic: str) -> None:
    brokers.create_topic(topic)
    brokers.produce(topic, 0, numbered_records(0, 1))
    brokers.call("produce_batches", topic, 0, SMALL[0].batch)
    brokers.produce(topic, 0, numbered_records(2, 3))
    with pytest.raises(UndecodableBatch, match=f"{topic}/0: the records from offset 1 on .* at offset 2"):
        rows_of(splits_of(brokers, topic))
    with pytest.warns(UserWarning, match="left out"):
        assert rows_of(splits_of(brokers, topic, onUndecodable="skip")) == [(0, 0, b"0"), (0, 2, b"2")]
    with pytest.raises(InvalidArgument, match="onUndecodable is one of fail, skip"):
        make_reader(brokers, topic, onUndecodable="ignore")
