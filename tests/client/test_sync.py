"""The synchronous clients against a broker in a process of its own."""

import asyncio
import inspect
import threading

import pytest

from raftlog import client as asynchronous
from raftlog.client import DeserializationFailed, deserialize_json, serialize_json
from raftlog.client.sync import BrokerClient, Consumer, Producer
from raftlog.errors import InvalidArgument, LogClosed, Unavailable, UnknownTopic
from raftlog.records import NewRecord


@pytest.fixture
def topic(broker_process: str, request: pytest.FixtureRequest) -> str:
    name = str(request.node.name)
    with BrokerClient(broker_process) as client:
        client.create_topic(name, 1)
        assert name in client.topics()
    return name


def test_records_are_produced_and_consumed(broker_process: str, topic: str) -> None:
    with Producer(broker_process, value_serializer=serialize_json) as producer:
        assert producer.send_and_wait(topic, [0]).offset == 0
        deliveries = [producer.send(topic, [number], b"key") for number in (1, 2)]
        producer.flush()
        assert [delivery.outcome for delivery in deliveries] == ["done", "done"]
        assert [delivery.result().offset for delivery in deliveries] == [1, 2]
        [delivery] = producer.send_batch(topic, 0, [NewRecord(b"[3]"), NewRecord(b"{")])
        assert delivery.result(timeout_s=10).offset == 4
    with Consumer(broker_process, topic, value_deserializer=deserialize_json) as consumer:
        assert [next(consumer).value for _ in range(4)] == [[0], [1], [2], [3]]
        with pytest.raises(DeserializationFailed):
            next(consumer)
        consumer.seek((topic, 0), 1)
        assert [record.value for record in consumer.poll()] == [[1], [2], [3]]
        assert consumer.position((topic, 0)) == 4
        consumer.seek_to_beginning()
        consumer.pause()
        assert consumer.poll(timeout_ms=50) == []
        consumer.resume()
        assert next(iter(consumer)).value == [0]
        assert {place.topic for place in consumer.assignment} == {topic}


def test_a_group_continues_after_the_processed_records(broker_process: str, topic: str) -> None:
    with Producer(broker_process) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number)
    with Consumer(broker_process, topic, group=topic) as consumer:
        assert [next(consumer).offset for _ in range(3)] == [0, 1, 2]

    def fail() -> None:
        with Consumer(broker_process, topic, group=topic) as consumer:
            assert next(consumer).offset == 3
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with Consumer(broker_process, topic, group=topic, auto_commit=False) as consumer:
        assert next(consumer).offset == 3, "the block that failed did not process it"
        consumer.commit({(topic, 0): 7})
        assert [row.offset for row in consumer.committed().values()] == [7]


def test_threads_share_a_producer(broker_process: str, topic: str) -> None:
    with Producer(broker_process) as producer:

        def send() -> None:
            for _ in range(50):
                producer.send_and_wait(topic, b"v")

        threads = [threading.Thread(target=send) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with BrokerClient(broker_process) as client:
        assert client.offsets(topic, 0).end == 200


def test_errors_are_those_of_the_asynchronous_clients(broker_process: str, free_address: str) -> None:
    with pytest.raises(InvalidArgument, match="acks"):
        Producer(broker_process, acks="2")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="HOST:PORT"):
        Consumer(":")
    with BrokerClient(broker_process) as client, pytest.raises(UnknownTopic):
        client.describe_topic("none")
    with Consumer(free_address, "orders", give_up_after_s=0.2) as consumer, pytest.raises(Unavailable):
        consumer.poll(timeout_ms=10_000)
    before = threading.active_count()
    producer = Producer(free_address, delivery_timeout_ms=100)
    with pytest.raises(Unavailable):
        producer.send("orders", b"v")
    producer.close()
    assert threading.active_count() == before, "the thread ends with its client"
    with pytest.raises(LogClosed):
        producer.send("orders", b"v")


def test_synchronous_clients_refuse_to_block_an_event_loop(broker_process: str) -> None:
    async def call() -> None:
        with pytest.raises(InvalidArgument, match="an event loop; use"):
            BrokerClient(broker_process)

    asyncio.run(call())


def test_synchronous_methods_have_the_arguments_and_docstrings_of_the_asynchronous_ones() -> None:
    for kind in (Producer, Consumer, BrokerClient):
        origin = getattr(asynchronous, kind.__name__)
        for name in vars(kind):
            if not name.startswith("_") and name not in ("send_batch", "assignment", "thread"):
                method, wrapped = getattr(kind, name), getattr(origin, name)
                assert inspect.signature(method) == inspect.signature(wrapped), name
                assert method.__doc__ == wrapped.__doc__, name
