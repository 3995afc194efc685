"""A stream's reader asked as Spark asks it, with a real broker of this process."""

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
from tests.pipeline.brokers_here import BrokersHere, brokers_here

ALL = ReadAllAvailable()
Json = dict[str, Any]
NewReader = Callable[..., StreamReader]


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokersHere]:
    with brokers_here(tmp_path_factory.mktemp("broker")) as one:
        yield one


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """Return a topic name that no other test uses."""
    return "".join(letter if letter.isalnum() else "-" for letter in request.node.name)


@pytest.fixture
def new_reader(brokers: BrokersHere) -> Iterator[NewReader]:
    made = []

    def make(**options: str) -> StreamReader:
        given = {"bootstrap": brokers.bootstrap, "requestTimeoutMs": "10000", **options}
        made.append(pickle.loads(pickle.dumps(StreamReader(stream_settings(given)))))
        return made[-1]

    yield make
    for reader in made:
        reader.stop()


def through_json(offset: Json) -> Json:
    told: Json = json.loads(json.dumps(offset))
    return told


def latest(reader: StreamReader, start: Json, limit: ReadLimit = ALL) -> Json:
    return through_json(reader.latestOffset(through_json(start), limit))


def values(reader: StreamReader, start: Json, end: Json) -> list[bytes]:
    splits = pickle.loads(pickle.dumps(reader.partitions(start, end)))
    return [value for split in splits for batch in reader.read(split) for value in batch.column("value").to_pylist()]


def some(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def test_micro_batches_follow_each_other(brokers: BrokersHere, topic: str, new_reader: NewReader) -> None:
    brokers.topic(topic)
    brokers.produce(topic, 0, some(0, 5))
    reader = new_reader(topics=topic)
    first = through_json(reader.initialOffset())
    assert latest(reader, first) == first
    assert reader.initialOffset() == first
    brokers.produce(topic, 0, some(5, 12))
    second = latest(reader, first)
    assert values(reader, first, second) == some(5, 12)
    assert values(new_reader(topics=topic), first, second) == some(5, 12)  # after a restart
    assert reader.reportLatestOffset()["topics"][topic]["partitions"] == {"0": 12}
    assert latest(reader, second) == second
    assert reader.partitions(second, second) == []


def test_a_limit_of_the_options_and_of_the_engine(brokers: BrokersHere, topic: str, new_reader: NewReader) -> None:
    brokers.topic(topic, 2)
    brokers.produce(topic, 0, some(0, 30))
    brokers.produce(topic, 1, some(0, 10))
    reader = new_reader(topics=topic, startingOffsets="earliest", maxOffsetsPerTrigger="8", minPartitions="4")
    assert reader.getDefaultReadLimit() == ReadMaxRows(8)
    assert new_reader(topics=topic).getDefaultReadLimit() == ALL
    start = reader.initialOffset()
    end = latest(reader, start, reader.getDefaultReadLimit())
    assert end["topics"][topic]["partitions"] == {"0": 6, "1": 2}
    assert len(reader.partitions(start, end)) == 4
    assert latest(reader, end)["topics"][topic]["partitions"] == {"0": 30, "1": 10}
    with pytest.raises(InvalidArgument, match="maxOffsetsPerTrigger"):
        reader.latestOffset(start, ReadMaxBytes(5))


def test_available_now_takes_what_was_there(brokers: BrokersHere, topic: str, new_reader: NewReader) -> None:
    brokers.topic(topic)
    brokers.produce(topic, 0, some(0, 5))
    reader = new_reader(topics=topic, startingOffsets="earliest")
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    brokers.produce(topic, 0, some(5, 9))
    end = latest(reader, start)
    assert values(reader, start, end) == some(0, 5)
    assert latest(reader, end) == end


def test_topics_that_come_later_are_read_from_their_beginning(
    brokers: BrokersHere, topic: str, new_reader: NewReader
) -> None:
    reader = new_reader(topicsPattern=f"{topic}.*")
    start = through_json(reader.initialOffset())
    assert latest(reader, start) == start
    brokers.topic(topic)
    brokers.produce(topic, 0, some(0, 5))
    taken_in = latest(reader, start)
    assert values(reader, start, taken_in) == []
    end = latest(reader, taken_in)
    assert values(reader, taken_in, end) == some(0, 5)


def test_partitions_that_are_added_later_are_read_from_their_beginning(
    brokers: BrokersHere, topic: str, new_reader: NewReader
) -> None:
    brokers.topic(topic)
    brokers.produce(topic, 0, some(0, 5))
    reader = new_reader(topics=topic, startingOffsets="latest")
    start = through_json(reader.initialOffset())
    brokers.call("create_partitions", topic, 3)
    for partition in range(3):
        brokers.produce(topic, partition, some(10 * partition, 10 * partition + 5))
    found: list[bytes] = []
    for _ in range(100):
        end = latest(reader, start)
        found += values(reader, start, end)
        start = end
        if len(found) == 15:
            break
    assert sorted(found) == sorted([*some(0, 5), *some(10, 15), *some(20, 25)])
    assert latest(reader, start) == start
    again = new_reader(topics=topic)
    assert latest(again, start) == start, "of the checkpoint alone"


def test_start_positions_by_option(brokers: BrokersHere, topic: str, new_reader: NewReader) -> None:
    brokers.topic(topic)
    brokers.produce(topic, 0, some(0, 5))

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


def test_a_topic_that_goes_and_comes_back(brokers: BrokersHere, topic: str, new_reader: NewReader) -> None:
    brokers.topic(topic)
    brokers.produce(topic, 0, some(0, 5))
    reader = new_reader(topics=topic)
    tolerant = new_reader(topics=topic, failOnDataLoss="false")
    start = through_json(reader.initialOffset())
    brokers.call("delete_topic", topic)
    with pytest.raises(DataLost, match=f"topic {topic}, which the stream has read, was deleted"):
        latest(reader, start)
    without = latest(tolerant, start)
    assert without["topics"] == {}
    brokers.topic(topic)
    brokers.produce(topic, 0, some(0, 7))
    with pytest.raises(
        DataLost, match="created anew"
    ):  # in planning, or, while the picture is that of before, in reading
        values(reader, start, latest(reader, start))
    found: list[bytes] = []
    while not found:
        end = latest(tolerant, without)
        found, without = values(tolerant, without, end), end
    assert found == some(0, 7)


def test_a_checkpoint_of_other_topics(brokers: BrokersHere, topic: str, new_reader: NewReader) -> None:
    brokers.topic(topic)
    brokers.topic(f"{topic}-other")
    start = new_reader(topics=topic).initialOffset()
    with pytest.raises(CheckpointMismatch, match="another checkpointLocation"):
        new_reader(topics=f"{topic}-other").latestOffset(start, ALL)
    with pytest.raises(CheckpointMismatch, match="another checkpointLocation"):
        new_reader(topics=f"{topic}-other").partitions(start, start)
    with pytest.raises(CheckpointMismatch, match="of another source"):
        new_reader(topics=topic).latestOffset({"topic": {"0": 5}}, ALL)
