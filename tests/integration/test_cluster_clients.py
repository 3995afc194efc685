"""`Producer` and `Consumer` with real brokers that crash: each record is delivered once, in order, at its offset."""

import asyncio
from collections import defaultdict

from raftlog.client import BrokerClient, Consumer, ConsumerRecord, Delivered, Delivery, Producer
from raftlog.testing import Cluster
from raftlog.types import TopicPartition
from tests.integration.cluster_load import create_topic
from tests.waiting import until

ANSWER_S = 60.0


PACE_S = 0.0005
"""Pause of the producer between two records."""
WATCH_S = 0.02
"""Pause between two looks at the committed offsets."""


class Feed:
    """Producer of consecutive numbers until it is stopped; it keeps the acknowledged records by number."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer, self._topic = producer, topic
        self._is_over = False
        self.sent = 0
        self.delivered: dict[int, Delivered] = {}

    async def run(self) -> None:
        answers = set()
        while not self._is_over:
            number, self.sent = self.sent, self.sent + 1
            delivery = await self._producer.send(self._topic, b"%d" % number, b"%d" % (number % 7))
            answers.add(asyncio.ensure_future(self._note(number, delivery)))
            await asyncio.sleep(PACE_S)
        await asyncio.gather(*answers)

    async def _note(self, number: int, delivery: Delivery) -> None:
        self.delivered[number] = await delivery

    async def wait_for_acknowledged(self, count: int) -> None:
        """Wait until `count` more records are acknowledged."""
        target = len(self.delivered) + count
        await until(lambda: len(self.delivered) >= target, within_s=ANSWER_S)

    def stop(self) -> None:
        self._is_over = True


async def kill_and_restart(cluster: Cluster, topic: str, partition: int) -> None:
    """Kill the leader of a partition, wait for its successor, and restart the killed broker."""
    leader = await asyncio.to_thread(cluster.leader, topic, partition)
    await asyncio.to_thread(cluster.nodes[leader].kill)
    await asyncio.to_thread(cluster.leader, topic, partition, other_than=(leader,))
    await asyncio.to_thread(cluster.nodes[leader].start)


async def read_all(cluster: Cluster, topic: str) -> dict[int, list[ConsumerRecord]]:
    """Return all records by partition."""
    records: dict[int, list[ConsumerRecord]] = defaultdict(list)
    async with BrokerClient(cluster.addresses) as client:
        ends = {number: (await client.offsets(topic, number)).end for number in range(3)}
    async with Consumer(cluster.addresses, topic) as consumer:
        async with asyncio.timeout(ANSWER_S):
            while sum(map(len, records.values())) < sum(ends.values()):
                for record in await consumer.poll():
                    records[record.partition].append(record)
    return records


async def test_no_record_is_lost_doubled_or_out_of_order_when_a_leader_crashes(cluster: Cluster, topic: str) -> None:
    create_topic(cluster.addresses[0], topic, partitions=3)
    async with Producer(cluster.addresses, batch_records=20) as producer:
        feed = Feed(producer, topic)
        sending = asyncio.create_task(feed.run())
        await feed.wait_for_acknowledged(150)
        await kill_and_restart(cluster, topic, 0)
        await feed.wait_for_acknowledged(150)
        feed.stop()
        await sending
    records = await read_all(cluster, topic)
    values = [int(record.value or b"") for some in records.values() for record in some]
    assert sorted(values) == list(range(feed.sent)), "each record is there once"
    for number, delivered in feed.delivered.items():
        stored = records[delivered.partition][delivered.offset]
        assert (stored.offset, stored.value) == (delivered.offset, b"%d" % number)
    for some in records.values():
        assert [int(record.value or b"") for record in some] == sorted(int(record.value or b"") for record in some)


async def test_a_group_reads_everything_when_its_coordinator_and_a_member_crash(cluster: Cluster, topic: str) -> None:
    create_topic(cluster.addresses[0], topic, partitions=3)
    seen: list[int] = []
    positions: dict[TopicPartition, list[int]] = defaultdict(list)
    has_ended = False

    async def consume(consumer: Consumer) -> None:
        async with consumer:
            while not has_ended:
                seen.extend(int(record.value or b"") for record in await consumer.poll(timeout_ms=50))

    async def watch(client: BrokerClient) -> None:
        while not has_ended:
            for place, found in (await client.groups.committed(topic, timeout_ms=60_000)).items():
                positions[place].append(found.offset)
            await asyncio.sleep(WATCH_S)

    async with BrokerClient(cluster.addresses) as client, Producer(cluster.addresses) as producer:
        feed = Feed(producer, topic)
        sending = asyncio.create_task(feed.run())
        members = [asyncio.create_task(consume(Consumer(cluster.addresses, topic, group=topic))) for _ in range(2)]
        await feed.wait_for_acknowledged(100)
        watching = asyncio.create_task(watch(client))
        coordinator = (await client.groups.describe(topic)).coordinator
        assert coordinator is not None
        await asyncio.to_thread(cluster.nodes[coordinator].kill)
        await feed.wait_for_acknowledged(100)
        await asyncio.to_thread(cluster.nodes[coordinator].start)
        members.append(asyncio.create_task(consume(Consumer(cluster.addresses, topic, group=topic))))
        await feed.wait_for_acknowledged(100)
        feed.stop()
        await sending
        await until(lambda: len(set(seen)) == feed.sent, within_s=ANSWER_S)
        has_ended = True
        await asyncio.gather(*members, watching)
        committed = await client.groups.committed(topic)
    assert set(seen) == set(range(feed.sent))
    assert sum(found.offset for found in committed.values()) == feed.sent
    for place, offsets in positions.items():
        assert offsets == sorted(offsets), f"what is committed for {place} went back"
