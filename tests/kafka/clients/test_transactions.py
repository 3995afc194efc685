"""Transactions of librdkafka and aiokafka at three brokers: ends, offsets, fencing, and the coordinator's failure."""

import asyncio
from typing import Any, ClassVar, Final

import confluent_kafka as librdkafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AiokafkaPartition
from aiokafka.errors import KafkaError

from raftlog.testing import Cluster
from raftlog.testing.http import ask
from tests.integration.cluster_load import create_topic
from tests.kafka.clients.drivers import Librdkafka, Raftlog
from tests.kafka.clients.stored import BEGINNING, WITHIN_S, UnsentRecord

INPUTS: Final = 12
TIMEOUT_MS: Final = 60_000


class Transactional:
    """Transactional producer, and consumer of partition 0 with offsets of a group."""

    errors: ClassVar[tuple[type[Exception], ...]]
    """Errors of a producer that was fenced."""

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        self.bootstrap, self.id = cluster.kafka, transactional_id

    async def start(self) -> None:
        raise NotImplementedError

    async def begin(self) -> None:
        raise NotImplementedError

    async def write(self, topic: str, *values: bytes) -> None:
        """Write values to partition 0, and wait until they are stored."""
        raise NotImplementedError

    async def read_some(self, topic: str, group: str) -> tuple[list[bytes], int]:
        """Return a third of the inputs from the group's committed offset on, and that offset."""
        raise NotImplementedError

    async def commit_offset(self, topic: str, group: str, offset: int) -> None:
        """Commit the group's offset in the transaction."""
        raise NotImplementedError

    async def commit(self) -> None:
        raise NotImplementedError

    async def abort(self) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError


class LibrdkafkaTransactional(Transactional):
    """Producer of confluent-kafka."""

    errors = (librdkafka.KafkaException,)
    metadata: Any

    async def start(self) -> None:
        self.producer = librdkafka.Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": self.id,
                "transaction.timeout.ms": TIMEOUT_MS,
            }
        )
        await asyncio.to_thread(self.producer.init_transactions, WITHIN_S)

    async def begin(self) -> None:
        self.producer.begin_transaction()

    async def write(self, topic: str, *values: bytes) -> None:
        errors: list[librdkafka.KafkaError | None] = []
        for value in values:
            self.producer.produce(topic, value, partition=0, on_delivery=lambda error, _: errors.append(error))
        assert await asyncio.to_thread(self.producer.flush, WITHIN_S) == 0
        assert errors == [None] * len(values)

    async def read_some(self, topic: str, group: str) -> tuple[list[bytes], int]:
        return await asyncio.to_thread(self._read_some, topic, group)

    def _read_some(self, topic: str, group: str) -> tuple[list[bytes], int]:
        consumer = librdkafka.Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": group, "enable.auto.commit": False}
        )
        try:
            [found] = consumer.committed([librdkafka.TopicPartition(topic, 0)], WITHIN_S)
            begin = max(found.offset, 0)
            consumer.assign([librdkafka.TopicPartition(topic, 0, begin)])
            self.metadata = consumer.consumer_group_metadata()
            messages = consumer.consume(min(INPUTS // 3, INPUTS - begin), WITHIN_S) if begin < INPUTS else []
            return [message.value() for message in messages], begin
        finally:
            consumer.close()

    async def commit_offset(self, topic: str, group: str, offset: int) -> None:
        rows = [librdkafka.TopicPartition(topic, 0, offset)]
        await asyncio.to_thread(self.producer.send_offsets_to_transaction, rows, self.metadata, WITHIN_S)

    async def commit(self) -> None:
        await asyncio.to_thread(self.producer.commit_transaction, WITHIN_S)

    async def abort(self) -> None:
        await asyncio.to_thread(self.producer.abort_transaction, WITHIN_S)

    async def close(self) -> None:
        del self.producer


class AiokafkaTransactional(Transactional):
    """Producer of aiokafka, which names no group member with offsets."""

    errors = (KafkaError,)

    async def start(self) -> None:
        self.producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap, transactional_id=self.id, transaction_timeout_ms=TIMEOUT_MS
        )
        await self.producer.start()

    async def begin(self) -> None:
        await self.producer.begin_transaction()

    async def write(self, topic: str, *values: bytes) -> None:
        await asyncio.gather(*[await self.producer.send(topic, value, partition=0) for value in values])

    async def read_some(self, topic: str, group: str) -> tuple[list[bytes], int]:
        place = AiokafkaPartition(topic, 0)
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=group,
            enable_auto_commit=False,
            isolation_level="read_committed",
        )
        await consumer.start()
        try:
            consumer.assign([place])
            begin = await consumer.committed(place) or 0
            consumer.seek(place, begin)
            count = min(INPUTS // 3, INPUTS - begin)
            return [(await consumer.getone()).value for _ in range(count)], begin
        finally:
            await consumer.stop()

    async def commit_offset(self, topic: str, group: str, offset: int) -> None:
        await self.producer.send_offsets_to_transaction({AiokafkaPartition(topic, 0): offset}, group)

    async def commit(self) -> None:
        await self.producer.commit_transaction()

    async def abort(self) -> None:
        await self.producer.abort_transaction()

    async def close(self) -> None:
        await self.producer.stop()


@pytest.fixture(params=[LibrdkafkaTransactional, AiokafkaTransactional], ids=["librdkafka", "aiokafka"])
async def make_producer(cluster: Cluster, name: str, request: pytest.FixtureRequest) -> Any:
    """Return a function that starts a producer with the transactional id of the test."""
    made: list[Transactional] = []

    async def make() -> Transactional:
        producer = request.param(cluster, name)
        async with asyncio.timeout(WITHIN_S):
            await producer.start()
        made.append(producer)
        return producer

    yield make
    for each in made:
        await each.close()


async def check_committed(cluster: Cluster, topic: str, *values: bytes) -> None:
    """Check that exactly these values are committed, as two clients read them up to a mark that is written now."""
    await asyncio.to_thread(Librdkafka(cluster).write, topic, [UnsentRecord(None, b"mark")])
    for driver in (Librdkafka(cluster), Raftlog(cluster)):
        found = await asyncio.to_thread(driver.read, topic, BEGINNING, len(values) + 1)
        assert [record.value for record in found] == [*values, b"mark"]


async def test_committed_transactions_are_read_and_aborted_ones_are_not(cluster, make_topic, make_producer):
    topic = make_topic()
    producer = await make_producer()
    for number in range(4):
        await producer.begin()
        await producer.write(topic, b"a%d" % number, b"b%d" % number)
        await (producer.abort() if number % 2 else producer.commit())
    await check_committed(cluster, topic, b"a0", b"b0", b"a2", b"b2")


async def test_each_input_is_processed_once(cluster, name, make_topic, make_producer):
    """F53: offsets and records are committed together, or neither."""
    topic = make_topic(1)
    target = f"{topic}-target"
    await asyncio.to_thread(create_topic, cluster.nodes[1].http, target)
    await asyncio.to_thread(cluster.leader, target, 0)
    inputs = [UnsentRecord(None, b"%d" % number) for number in range(INPUTS)]
    await asyncio.to_thread(Librdkafka(cluster).write, topic, inputs)
    producer = await make_producer()
    for attempt in range(7):
        values, begin = await producer.read_some(topic, name)
        if not values:
            break
        await producer.begin()
        await producer.write(target, *(b"<" + value for value in values))
        await producer.commit_offset(topic, name, begin + len(values))
        await (producer.commit() if attempt % 2 else producer.abort())
    await check_committed(cluster, target, *(b"<%d" % number for number in range(INPUTS)))


async def test_a_zombie_is_fenced(cluster, make_topic, make_producer):
    topic = make_topic()
    zombie = await make_producer()
    await zombie.begin()
    await zombie.write(topic, b"of the zombie")
    producer = await make_producer()
    with pytest.raises(zombie.errors):
        await zombie.commit()
    await producer.begin()
    await producer.write(topic, b"of its successor")
    await producer.commit()
    await check_committed(cluster, topic, b"of its successor")


async def test_a_transaction_survives_its_coordinators_broker(cluster, name, make_topic, make_producer):
    topic = make_topic()
    producer = await make_producer()
    await producer.begin()
    await producer.write(topic, b"before")
    _, found = await asyncio.to_thread(ask, cluster.nodes[1].http, f"/transactions/{name}")
    node = cluster.nodes[found["coordinator_id"]]
    await asyncio.to_thread(node.kill)
    try:
        async with asyncio.timeout(WITHIN_S):
            await producer.commit()
        await producer.begin()
        await producer.write(topic, b"after")
        async with asyncio.timeout(WITHIN_S):
            await producer.commit()
    finally:
        await asyncio.to_thread(node.start)
        await asyncio.to_thread(cluster.wait_healthy)
    await check_committed(cluster, topic, b"before", b"after")
