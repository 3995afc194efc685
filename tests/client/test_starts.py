"""Seeks and pauses before partitions are assigned, and pairs in place of `TopicPartition`."""

from collections.abc import Awaitable, Callable

import pytest

from raftlog.client import Consumer, TopicPartition
from tests.client.fake_broker import FakeBroker
from tests.client.polling import FIRST, fill, offsets_of, poll_records

Served = Callable[[FakeBroker], Awaitable[str]]


def make_filled_broker(partitions: int = 1) -> FakeBroker:
    broker = FakeBroker(orders=partitions)
    for partition in broker.topics["orders"]:
        fill(partition, range(20))
    return broker


@pytest.mark.parametrize(
    ("seek", "first"),
    [
        (lambda consumer: consumer.seek(FIRST, 7), 7),
        (lambda consumer: consumer.seek(("orders", 0), 8), 8),
        (lambda consumer: consumer.seek_from_end(3), 17),
        (lambda consumer: consumer.seek_to_timestamp(1012), 12),
        (lambda consumer: consumer.seek_to_beginning(), 0),
    ],
)
async def test_a_seek_before_the_first_poll_takes_effect(
    served: Served, seek: Callable[[Consumer], None], first: int
) -> None:
    async with Consumer(await served(make_filled_broker()), "orders", auto_offset_reset="latest") as consumer:
        seek(consumer)
        assert offsets_of(await poll_records(consumer, 1)) == [first]


async def test_a_seek_before_the_assignment_is_applied_once(served: Served) -> None:
    async with Consumer(await served(make_filled_broker())) as consumer:
        consumer.seek(FIRST, 5)
        await consumer.assign([("orders", 0)])
        assert offsets_of(await poll_records(consumer, 1)) == [5]
        await consumer.assign([])
        await consumer.assign([FIRST])
        assert offsets_of(await poll_records(consumer, 1)) == [0]


async def test_a_later_assignment_with_an_offset_takes_precedence(served: Served) -> None:
    async with Consumer(await served(make_filled_broker())) as consumer:
        consumer.seek(FIRST, 5)
        await consumer.assign({FIRST: 9})
        assert offsets_of(await poll_records(consumer, 1)) == [9]


async def test_a_pause_before_the_first_poll_takes_effect(served: Served) -> None:
    async with Consumer(await served(make_filled_broker(2)), "orders") as consumer:
        consumer.pause(TopicPartition("orders", 1))
        assert {record.partition for record in await poll_records(consumer, 20)} == {0}
        assert await consumer.poll(timeout_ms=1) == []
        consumer.resume()
        assert {record.partition for record in await poll_records(consumer, 20)} == {1}


async def test_a_pause_of_all_partitions_before_the_first_poll_takes_effect(served: Served) -> None:
    async with Consumer(await served(make_filled_broker()), "orders") as consumer:
        consumer.pause()
        assert await consumer.poll(timeout_ms=50) == []
        assert consumer.assignment == {FIRST}
        consumer.resume()
        assert len(await poll_records(consumer, 20)) == 20
