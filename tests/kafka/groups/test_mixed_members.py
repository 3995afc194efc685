"""One group with a member over Kafka's protocol and a `raftlog.client` consumer over HTTP."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from raftlog.api.http.server.server import HttpServer, HttpSettings
from raftlog.assignors import encode_assignment
from raftlog.client import Consumer
from raftlog.records import NewRecord
from raftlog.types import TopicPartition
from tests.brokers.members import soon
from tests.kafka.groups.conftest import GroupHandlers
from tests.kafka.groups.members import G, KafkaMember, fetch_committed
from tests.waiting import until_async


@pytest.fixture
async def http(handlers: GroupHandlers) -> AsyncIterator[str]:
    server = HttpServer(handlers.broker, HttpSettings())
    host, port = await server.start("127.0.0.1", 0)
    yield f"{host}:{port}"
    await server.stop(1.0)


async def wait_for_assignment(consumer: Consumer, numbers: set[int], count: int = 0) -> None:
    """Poll until the consumer reads exactly these partitions of `t` and has returned this number of records."""
    returned = 0

    async def is_assigned() -> bool:
        nonlocal returned
        returned += len(await consumer.poll(timeout_ms=10))
        return {each.partition for each in consumer.assignment} == numbers and returned >= count

    await until_async(is_assigned)


async def test_a_raftlog_consumer_leads_a_kafka_member(handlers, http):
    async with Consumer(http, "t", group=G) as consumer:
        await wait_for_assignment(consumer, {0, 1, 2, 3})
        member = KafkaMember(handlers)
        polling = asyncio.ensure_future(wait_for_assignment(consumer, {0, 1}))
        joined = await member.join()
        assert joined.protocol_name == "range"
        assert joined.leader != joined.member_id
        shares = [[0, 1], [2, 3]]
        mine = await member.sync()
        assert mine in shares
        polling.cancel()
        shares.remove(mine)
        await wait_for_assignment(consumer, set(shares[0]))
        assert await member.commit({mine[0]: 7}) == {mine[0]: 0}
        assert (await consumer.committed())[TopicPartition("t", mine[0])].offset == 7
        assert await member.heartbeat() == 0


async def test_a_kafka_member_leads_a_raftlog_consumer(handlers, http):
    await handlers.broker.produce_records("t", 3, [NewRecord(b"a"), NewRecord(b"b")], deadline=soon())
    member = KafkaMember(handlers)
    await member.join_and_sync_alone()
    async with Consumer(http, "t", group=G) as consumer:
        beating = asyncio.ensure_future(member.wait_for_rebalance())
        polling = asyncio.ensure_future(wait_for_assignment(consumer, {3}, 2))
        await beating
        joined = await member.join()
        assert joined.leader == member.member_id
        (other,) = (each for each in joined.members if each.member_id != member.member_id)
        # The subscription over HTTP is in the bytes that Kafka's clients read.
        assert ConsumerProtocolSubscription.decode(other.metadata).topics == ["t"]
        given = {member.member_id: [0, 1, 2], other.member_id: [3]}
        assert await member.sync(given) == [0, 1, 2]
        await polling
        await consumer.commit()
        assert await fetch_committed(handlers) == {"t": {3: 2}}
        assert await member.heartbeat() == 0


def test_assignments_are_encoded_as_kafkas_clients_decode_them():
    data = encode_assignment([TopicPartition("t", 1), TopicPartition("t", 0)])
    (row,) = ConsumerProtocolAssignment.decode(data).assigned_partitions
    assert (row.topic, sorted(row.partitions)) == ("t", [0, 1])
