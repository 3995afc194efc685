"""Serializers, deserializers and filters of the clients, and the values that they refuse."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from raftlog.client import (
    BrokerClient,
    Consumer,
    ConsumerRecord,
    DeserializationFailed,
    Producer,
    deserialize_json,
    deserialize_str,
    serialize_json,
    serialize_str,
)
from raftlog.errors import InvalidArgument
from raftlog.records import NewRecord, build_batch
from raftlog.types import TopicPartition
from tests.client.fake_broker import FakeBroker

Served = Callable[[FakeBroker], Awaitable[str]]
FIRST = TopicPartition("orders", 0)


def make_broker_with(*values: bytes | None) -> FakeBroker:
    broker = FakeBroker(orders=1)
    for value in values:
        broker.topics["orders"][0].append(bytes(build_batch([NewRecord(value, b"k", 1000)])))
    return broker


async def test_json_is_serialized_and_deserialized(live: str) -> None:
    async with BrokerClient(live) as client:
        await client.create_topic("orders", 1)
    producer = Producer(live, key_serializer=serialize_str, value_serializer=serialize_json)
    async with producer:
        delivered = await producer.send_and_wait("orders", {"id": 7}, key="alice")
        assert (delivered.topic, delivered.offset) == ("orders", 0)
        await producer.send_and_wait("orders", None, key="alice")
        with pytest.raises(InvalidArgument, match=r"the value .* cannot be serialized"):
            await producer.send("orders", object())
    consumer: Consumer[str, Any] = Consumer(
        live, "orders", key_deserializer=deserialize_str, value_deserializer=deserialize_json
    )
    async with consumer:
        records = []
        async for record in consumer:
            records.append((record.key, record.value))
            if len(records) == 2:
                break
    assert records == [("alice", {"id": 7}), ("alice", None)]
    async with Consumer(live, "orders") as raw:
        assert [(each.key, each.value) for each in await raw.poll()] == [(b"alice", b'{"id":7}'), (b"alice", None)]


async def test_a_serializer_must_return_bytes(served: Served) -> None:
    producer = Producer(await served(make_broker_with()), value_serializer=str)  # type: ignore[arg-type,return-value]
    with pytest.raises(InvalidArgument, match="value_serializer returned str"):
        await producer.send("orders", 5)  # type: ignore[arg-type]
    await producer.close()


async def test_text_without_a_serializer_is_refused_with_a_hint(served: Served) -> None:
    async with Producer(await served(make_broker_with())) as producer:
        with pytest.raises(InvalidArgument, match=r"value is str 'hello'.*value.encode\(\).*value_serializer"):
            await producer.send("orders", "hello")  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match=r"key is int 5.*key_serializer"):
            await producer.send("orders", b"v", key=5)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match="record 0 is str 'hello'"):
            await producer.send_batch("orders", 0, ["hello"])  # type: ignore[list-item]
        with pytest.raises(InvalidArgument, match="timestamp_ms is float"):
            await producer.send("orders", b"v", timestamp_ms=1.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("iterates", [False, True])
async def test_a_record_that_cannot_be_deserialized_is_not_skipped(served: Served, iterates: bool) -> None:
    address = await served(make_broker_with(b"1", b"{", b"3"))
    consumer: Consumer[bytes, Any] = Consumer(address, "orders", value_deserializer=deserialize_json)

    async def next_values() -> list[Any]:
        found = [await anext(consumer)] if iterates else await consumer.poll()
        return [record.value for record in found]

    async with consumer:
        assert await next_values() == [1]
        for _ in range(2):
            with pytest.raises(DeserializationFailed, match=r"offset 1: the value .* seek to offset 2") as raised:
                await next_values()
        assert await consumer.position(FIRST) == 1
        consumer.seek(raised.value.partition, raised.value.next_offset)
        assert await next_values() == [3]


async def test_a_filter_leaves_records_out_but_positions_advance(served: Served) -> None:
    def is_even(record: ConsumerRecord[bytes, int]) -> bool:
        return record.value is not None and record.value % 2 == 0

    address = await served(make_broker_with(*(b"%d" % value for value in range(7))))
    consumer: Consumer[bytes, int] = Consumer(address, "orders", value_deserializer=int, where=is_even)
    async with consumer:
        values: list[int | None] = []
        while len(values) < 4:
            values += [record.value for record in await consumer.poll()]
        assert values == [0, 2, 4, 6]
        assert await consumer.poll(timeout_ms=1) == []
        assert await consumer.position(FIRST) == 7
