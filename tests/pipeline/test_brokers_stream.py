"""Reader of a stream, called as Spark calls it, with a real broker of this process."""

import json
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows

from raftlog.errors import InvalidArgument, UnknownTopic
from raftlog.pipeline.brokers.settings import stream_settings
from raftlog.pipeline.brokers.stream import StreamReader
from raftlog.pipeline.errors import CheckpointMismatch, DataLost
from tests.pipeline.brokers_here import LocalBrokers, run_brokers

ALL = ReadAllAvailable()
Json = dict[str, Any]
NewReader = Callable[..., StreamReader]


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBrokers]:
    with run_brokers(tmp_path_factory.mktemp("broker")) as one:
        yield one


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """Return a topic name that no other test uses."""
    return "".join(letter if letter.isalnum() else "-" for letter in request.node.name)


@pytest.fixture
def new_reader(brokers: LocalBrokers) -> Iterator[NewReader]:
    made = []

    def make(**options: str) -> StreamReader:
        given = {"bootstrap": brokers.bootstrap, "requestTimeoutMs": "10000", **options}
        made.append(pickle.loads(pickle.dumps(StreamReader(stream_settings(given)))))
        return made[-1]

    yield make
    for reader in made:
        reader.stop()


def json_round_trip(offset: Json) -> Json:
    told: Json = json.loads(json.dumps(offset))
    return told


def latest_offset(reader: StreamReader, start: Json, limit: ReadLimit = ALL) -> Json:
    return json_round_trip(reader.latestOffset(json_round_trip(start), limit))


def values_between(reader: StreamReader, start: Json, end: Json) -> list[bytes]:
    splits = pickle.loads(pickle.dumps(reader.partitions(start, end)))
    return [value for split in splits for batch in reader.read(split) for value in batch.column("value").to_pylist()]


def numbered_records(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def test_micro_batches_follow_each_other(brokers: LocalBrokers, topic: str, new_reader: NewReader) -> None:
    brokers.create_topic(topic)
    brokers.produce(topic, 0, numbered_records(0, 5))
    reader = new_reader(topics=topic)
    first = json_round_trip(reader.initialOffset())
    assert latest_offset(reader, first) == first
    assert reader.initialOffset() == first
    brokers.produce(topic, 0, numbered_records(5, 12))
    second = latest_offset(reader, first)
    assert values_between(reader, first, second) == numbered_records(5, 12)
    assert values_between(new_reader(topics=topic), first, second) == numbered_records(5, 12)  # after a restart
    assert reader.reportLatestOffset()["topics"][topic]["partitions"] == {"0": 12}
    assert latest_offset(reader, second) == second
    assert reader.partitions(second, second) == []


def test_the_limits_of_options_and_engine_both_apply(brokers: LocalBrokers, topic: str, new_reader: NewReader) -> None:
    brokers.create_topic(topic, 2)
    brokers.produce(topic, 0, numbered_records(0, 30))
    brokers.produce(topic, 1, numbered_records(0, 10))
    reader = new_reader(topics=topic, startingOffsets="earliest", maxOffsetsPerTrigger="8", minPartitions="4")
    assert reader.getDefaultReadLimit() == ReadMaxRows(8)
    assert new_reader(topics=topic).getDefaultReadLimit() == ALL
    start = reader.initialOffset()
    end = latest_offset(reader, start, reader.getDefaultReadLimit())
    assert end["topics"][topic]["partitions"] == {"0": 6, "1": 2}
    assert len(reader.partitions(start, end)) == 4
    assert latest_offset(reader, end)["topics"][topic]["partitions"] == {"0": 30, "1": 10}
    with pytest.raises(InvalidArgument, match="maxOffsetsPerTrigger"):
        reader.latestOffset(start, ReadMaxBytes(5))


def test_available_now_ends_at_the_offsets_of_its_start(
    brokers: LocalBrokers, topic: str, new_reader: NewReader
) -> None:
    brokers.create_topic(topic)
    brokers.produce(topic, 0, numbered_records(0, 5))
    reader = new_reader(topics=topic, startingOffsets="earliest")
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    brokers.produce(topic, 0, numbered_records(5, 9))
    end = latest_offset(reader, start)
    assert values_between(reader, start, end) == numbered_records(0, 5)
    assert latest_offset(reader, end) == end


def test_topics_created_later_are_read_from_their_beginning(
    brokers: LocalBrokers, topic: str, new_reader: NewReader
) -> None:
    reader = new_reader(topicsPattern=f"{topic}.*")
    start = json_round_trip(reader.initialOffset())
    assert latest_offset(reader, start) == start
    brokers.create_topic(topic)
    brokers.produce(topic, 0, numbered_records(0, 5))
    taken_in = latest_offset(reader, start)
    assert values_between(reader, start, taken_in) == []
    end = latest_offset(reader, taken_in)
    assert values_between(reader, taken_in, end) == numbered_records(0, 5)


def test_partitions_added_later_are_read_from_their_beginning(
    brokers: LocalBrokers, topic: str, new_reader: NewReader
) -> None:
    brokers.create_topic(topic)
    brokers.produce(topic, 0, numbered_records(0, 5))
    reader = new_reader(topics=topic, startingOffsets="latest")
    start = json_round_trip(reader.initialOffset())
    brokers.call("create_partitions", topic, 3)
    for partition in range(3):
        brokers.produce(topic, partition, numbered_records(10 * partition, 10 * partition + 5))
    found: list[bytes] = []
    for _ in range(100):
        end = latest_offset(reader, start)
        found += values_between(reader, start, end)
        start = end
        if len(found) == 15:
            break
    assert sorted(found) == sorted([*numbered_records(0, 5), *numbered_records(10, 15), *numbered_records(20, 25)])
    assert latest_offset(reader, start) == start
    again = new_reader(topics=topic)
    assert latest_offset(again, start) == start, "of the checkpoint alone"


def test_start_options_determine_the_initial_offset(brokers: LocalBrokers, topic: str, new_reader: NewReader) -> None:
    brokers.create_topic(topic)
    brokers.produce(topic, 0, numbered_records(0, 5))

    def begins(**options: str) -> int:
        return new_reader(topics=topic, **options).initialOffset()["topics"][topic]["partitions"]["0"]

    assert begins() == 5
    assert begins(startingOffsets="earliest") == 0
    assert begins(startingOffsets=f'{{"{topic}": {{"0": 3}}}}') == 3
    assert begins(startingTimestamp="2100-01-01T00:00:00Z") == 5
    with pytest.raises(InvalidArgument, match="a stream has no end"):
        new_reader(topics=topic, endingOffsets="latest")
    with pytest.raises(UnknownTopic):
        new_reader(topics=f"{topic}-x").initialOffset()


def test_a_recreated_topic_is_data_lost_in_a_stream(brokers: LocalBrokers, topic: str, new_reader: NewReader) -> None:
    brokers.create_topic(topic)
    brokers.produce(topic, 0, numbered_records(0, 5))
    reader = new_reader(topics=topic)
    tolerant = new_reader(topics=topic, failOnDataLoss="false")
    start = json_round_trip(reader.initialOffset())
    brokers.call("delete_topic", topic)
    with pytest.raises(DataLost, match=f"topic {topic}, which the stream has read, was deleted"):
        latest_offset(reader, start)
    without = latest_offset(tolerant, start)
    assert without["topics"] == {}
    brokers.create_topic(topic)
    brokers.produce(topic, 0, numbered_records(0, 7))
    with pytest.raises(
        DataLost, match="created anew"
    ):  # in planning, or, while the picture is that of before, in reading
        values_between(reader, start, latest_offset(reader, start))
    found: list[bytes] = []
    while not found:
        end = latest_offset(tolerant, without)
        found, without = values_between(tolerant, without, end), end
    assert found == numbered_records(0, 7)


def test_a_checkpoint_of_other_topics_is_refused(brokers: LocalBrokers, topic: str, new_reader: NewReader) -> None:
    brokers.create_topic(topic)
    brokers.create_topic(f"{topic}-other")
    start = new_reader(topics=topic).initialOffset()
    with pytest.raises(CheckpointMismatch, match="another checkpointLocation"):
        new_reader(topics=f"{topic}-other").latestOffset(start, ALL)
    with pytest.raises(CheckpointMismatch, match="another checkpointLocation"):
        new_reader(topics=f"{topic}-other").partitions(start, start)
    with pytest.raises(CheckpointMismatch, match="of another source"):
        new_reader(topics=topic).latestOffset({"topic": {"0": 5}}, ALL)
