"""A topic that gets more partitions, with producers and consumers of the client and a real broker."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from raftlog.client import BrokerClient, Consumer, Producer, sync
from raftlog.errors import InvalidArgument, UnknownTopic
from raftlog.types import TopicPartition

REFRESH_S = 0.2


@pytest.fixture
async def client(live: str) -> AsyncIterator[BrokerClient]:
    async with BrokerClient([live]) as client:
        await client.create_topic("orders", 2)
        yield client


async def fill(client: BrokerClient, address: str, partitions: int) -> None:
    """Append a record to each partition."""
    async with Producer([address]) as producer:
        for partition in range(partitions):
            await producer.send("orders", b"%d" % partition, partition=partition)


async def read_values(consumer: Consumer, count: int) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            found += [(record.partition, record.value or b"") for record in await consumer.poll(timeout_ms=100)]
    return sorted(found)


async def test_partitions_can_only_be_added(client: BrokerClient) -> None:
    await client.create_partitions("orders", 4)
    assert (await client.describe_topic("orders")).partitions == 4
    with pytest.raises(InvalidArgument, match="topic 'orders' has 4 partitions; partitions can only be added"):
        await client.create_partitions("orders", 4)
    with pytest.raises(UnknownTopic):
        await client.create_partitions("none", 4)


async def test_the_synchronous_client_adds_partitions(live: str, client: BrokerClient) -> None:
    def add() -> None:
        with sync.BrokerClient(live) as there:
            there.create_partitions("orders", 3)

    await asyncio.to_thread(add)
    assert (await client.describe_topic("orders")).partitions == 3


@pytest.mark.parametrize("group", [None, "g"])
async def test_a_running_consumer_reads_new_partitions_from_their_start(
    live: str, client: BrokerClient, group: str | None
) -> None:
    await fill(client, live, 2)
    async with Consumer([live], "orders", group=group, metadata_refresh_s=REFRESH_S) as consumer:
        assert await read_values(consumer, 2) == [(0, b"0"), (1, b"1")]
        await client.create_partitions("orders", 4)
        await fill(client, live, 4)
        assert await read_values(consumer, 4) == [(number, b"%d" % number) for number in range(4)]
        assert consumer.assignment == {TopicPartition("orders", number) for number in range(4)}


async def test_a_running_producer_uses_new_partitions(live: str, client: BrokerClient) -> None:
    async with Producer([live], metadata_refresh_s=REFRESH_S) as producer:
        assert {(await producer.send_and_wait("orders", b"x", key=b"%d" % key)).partition for key in range(20)} == {
            0,
            1,
        }
        await client.create_partitions("orders", 4)
        seen: set[int] = set()
        async with asyncio.timeout(60):
            while seen != {0, 1, 2, 3}:
                seen |= {(await producer.send_and_wait("orders", b"x", key=b"%d" % key)).partition for key in range(20)}
        assert (await producer.send_and_wait("orders", b"x", partition=3)).partition == 3
