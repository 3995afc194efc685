"""Idempotent producers of librdkafka and aiokafka while their leader is killed and brokers restart.

Everything acknowledged is stored at its offset, once and in order."""

import asyncio
from collections.abc import Sequence
from typing import Final

import confluent_kafka as librdkafka
from aiokafka import AIOKafkaProducer

from raftlog.testing import Cluster
from tests.kafka.clients.drivers import Raftlog
from tests.kafka.clients.stored import BEGINNING, WITHIN_S
from tests.waiting import until

IN_FLIGHT: Final = 20
SOME: Final = 200


class Load:
    """Producer of numbered records to partition 0, which runs until `is_ending`."""

    prefix: bytes

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.bootstrap, self.topic = cluster.kafka, topic
        self.is_ending = False
        self.sent = 0
        self.acknowledged: dict[bytes, int] = {}
        """Offset of each acknowledged value."""
        self.errors: list[object] = []

    async def run(self) -> None:
        """Write until `is_ending`, and wait for the outcome of every record."""
        raise NotImplementedError

    def next_value(self) -> bytes:
        """Return the value of the next record."""
        self.sent += 1
        return self.prefix + str(self.sent - 1).encode()

    async def wait_for_progress(self) -> None:
        """Wait until more records are acknowledged than were sent before."""
        enough = self.sent + SOME
        await until(lambda: self.errors or len(self.acknowledged) >= enough, lambda: len(self.acknowledged))
        assert self.errors == []


class LibrdkafkaLoad(Load):
    """Idempotent producer of confluent-kafka with default timeouts."""

    prefix = b"librdkafka-"

    async def run(self) -> None:
        await asyncio.to_thread(self._run)

    def _run(self) -> None:
        producer = librdkafka.Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True})
        while not self.is_ending:
            if len(producer) < IN_FLIGHT:
                producer.produce(self.topic, self.next_value(), partition=0, on_delivery=self._note)
                producer.poll(0)
            else:
                producer.poll(0.1)
        assert producer.flush(WITHIN_S) == 0

    def _note(self, error: librdkafka.KafkaError | None, message: librdkafka.Message) -> None:
        if error is not None:
            self.errors.append(error)
        else:
            self.acknowledged[message.value()] = message.offset()


class AiokafkaLoad(Load):
    """Idempotent producer of aiokafka with default timeouts."""

    prefix = b"aiokafka-"

    async def run(self) -> None:
        room = asyncio.Semaphore(IN_FLIGHT)
        async with AIOKafkaProducer(bootstrap_servers=self.bootstrap, enable_idempotence=True) as producer:
            while not self.is_ending:
                await room.acquire()
                value = self.next_value()
                sending = await producer.send(self.topic, value, partition=0)
                sending.add_done_callback(lambda done, value=value: self._note(done, value, room))

    def _note(self, done: asyncio.Future, value: bytes, room: asyncio.Semaphore) -> None:
        room.release()
        if (error := done.exception()) is not None:
            self.errors.append(error)
        else:
            self.acknowledged[value] = done.result().offset


async def wait_for_progress(loads: Sequence[Load]) -> None:
    await asyncio.gather(*(load.wait_for_progress() for load in loads))


async def test_no_acknowledged_record_is_lost_or_duplicated(cluster, make_topic):
    topic = make_topic()
    loads = [LibrdkafkaLoad(cluster, topic), AiokafkaLoad(cluster, topic)]
    async with asyncio.TaskGroup() as running:
        for load in loads:
            running.create_task(load.run())
        await wait_for_progress(loads)
        leader = await asyncio.to_thread(cluster.leader, topic)
        cluster.nodes[leader].kill()
        await wait_for_progress(loads)
        await asyncio.to_thread(cluster.nodes[leader].start)
        await asyncio.to_thread(cluster.wait_healthy)
        leader = await asyncio.to_thread(cluster.leader, topic)
        await asyncio.to_thread(cluster.nodes[leader].stop)
        await wait_for_progress(loads)
        await asyncio.to_thread(cluster.nodes[leader].start)
        await wait_for_progress(loads)
        for load in loads:
            load.is_ending = True
    sent = sum(load.sent for load in loads)
    stored = await asyncio.to_thread(Raftlog(cluster).read, topic, BEGINNING, sent)
    for load in loads:
        assert load.errors == []
        values = [load.prefix + str(number).encode() for number in range(load.sent)]
        assert [record.value for record in stored if record.value.startswith(load.prefix)] == values
        offsets = {record.value: record.offset for record in stored}
        assert load.acknowledged == {value: offsets[value] for value in values}
