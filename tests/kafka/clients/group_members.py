"""Members of consumer groups, one class for each client; the test's event loop polls all of them.

A member is joined by polls, and closed by the test's end."""

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import confluent_kafka as librdkafka
import kafka
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor

from raftlog.client import Consumer
from raftlog.testing import Cluster
from tests.kafka.clients.drivers import from_librdkafka, from_python
from tests.kafka.clients.stored import WITHIN_S, StoredRecord

POLL_MS: Final = 50
HEARTBEAT_MS: Final = 100
"""Shorter than the default: a member learns of a rebalance by its heartbeat."""


class Member:
    """Member of a group, subscribed to one topic; it begins at the start and commits only by `commit`."""

    def __init__(self, cluster: Cluster, group: str, topic: str, instance: str | None = None) -> None:
        self.cluster, self.group, self.topic, self.instance = cluster, group, topic, instance
        self.read: list[tuple[int, StoredRecord]] = []
        """Records that polls returned, with their partitions."""

    async def start(self) -> None:
        """Create the client; it must not have been closed."""
        raise NotImplementedError

    async def poll(self) -> None:
        """Take part in the group for a short time."""
        raise NotImplementedError

    def partitions(self) -> set[int]:
        """Return the assigned partitions."""
        raise NotImplementedError

    async def commit(self) -> None:
        """Commit the positions."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close the client: a dynamic member leaves."""
        raise NotImplementedError

    def values(self) -> list[bytes | None]:
        """Return the values of all records read, sorted."""
        return sorted(record.value or b"" for _, record in self.read)


class LibrdkafkaMember(Member):
    """Consumer of confluent-kafka."""

    strategy: ClassVar = "range"

    async def start(self) -> None:
        self.assigned: list[list[int]] = []
        self.revoked: list[list[int]] = []
        settings = {
            "bootstrap.servers": self.cluster.kafka,
            "group.id": self.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "partition.assignment.strategy": self.strategy,
        }
        self._consumer = librdkafka.Consumer(
            settings if self.instance is None else settings | {"group.instance.id": self.instance}
        )
        self._consumer.subscribe(
            [self.topic],
            on_assign=lambda _, places: self.assigned.append([place.partition for place in places]),
            on_revoke=lambda _, places: self.revoked.append([place.partition for place in places]),
        )

    async def poll(self) -> None:
        for message in await asyncio.to_thread(self._consumer.consume, 100, POLL_MS / 1_000):
            self.read.append((message.partition(), from_librdkafka(message)))

    def partitions(self) -> set[int]:
        return {place.partition for place in self._consumer.assignment()}

    async def commit(self) -> None:
        await asyncio.to_thread(self._consumer.commit, asynchronous=False)

    async def close(self) -> None:
        await asyncio.to_thread(self._consumer.close)


class CooperativeMember(LibrdkafkaMember):
    """Consumer of confluent-kafka that keeps its partitions in rebalances."""

    strategy = "cooperative-sticky"


class AiokafkaMember(Member):
    """Consumer of aiokafka."""

    async def start(self) -> None:
        self._consumer = AIOKafkaConsumer(
            self.topic,
            bootstrap_servers=self.cluster.kafka,
            group_id=self.group,
            group_instance_id=self.instance,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=HEARTBEAT_MS,
            partition_assignment_strategy=(RangePartitionAssignor,),
        )
        await self._consumer.start()

    async def poll(self) -> None:
        for place, records in (await self._consumer.getmany(timeout_ms=POLL_MS)).items():
            self.read += [(place.partition, from_python(record)) for record in records]

    def partitions(self) -> set[int]:
        return {place.partition for place in self._consumer.assignment()}

    async def commit(self) -> None:
        await self._consumer.commit()

    async def close(self) -> None:
        await self._consumer.stop()


class KafkaPythonMember(Member):
    """Consumer of kafka-python."""

    async def start(self) -> None:
        def create() -> Any:
            return kafka.KafkaConsumer(
                self.topic,
                bootstrap_servers=self.cluster.kafka,
                group_id=self.group,
                group_instance_id=self.instance,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                heartbeat_interval_ms=HEARTBEAT_MS,
            )

        self._consumer = await asyncio.to_thread(create)

    async def poll(self) -> None:
        for place, records in (await asyncio.to_thread(self._consumer.poll, POLL_MS)).items():
            self.read += [(place.partition, from_python(record)) for record in records]

    def partitions(self) -> set[int]:
        return {place.partition for place in self._consumer.assignment()}

    async def commit(self) -> None:
        await asyncio.to_thread(self._consumer.commit)

    async def close(self) -> None:
        await asyncio.to_thread(self._consumer.close)


class RaftlogMember(Member):
    """Consumer of `raftlog.client`, over HTTP."""

    async def start(self) -> None:
        self._consumer = Consumer(
            self.cluster.addresses, self.topic, group=self.group, instance_id=self.instance, auto_commit=False
        )

    async def poll(self) -> None:
        for record in await self._consumer.poll(timeout_ms=POLL_MS):
            self.read.append((record.partition, from_python(record)))

    def partitions(self) -> set[int]:
        return {place.partition for place in self._consumer.assignment}

    async def commit(self) -> None:
        await self._consumer.commit()

    async def close(self) -> None:
        await self._consumer.close()


async def poll_until_shared(members: Sequence[Member], partitions: int, records: int) -> None:
    """Poll until the members share all partitions evenly and have read this number of records."""
    share = partitions // len(members)
    try:
        async with asyncio.timeout(WITHIN_S):
            while True:
                await asyncio.gather(*(member.poll() for member in members))
                owned = [member.partitions() for member in members]
                is_shared = all(len(each) == share for each in owned) and len(set().union(*owned)) == partitions
                if is_shared and sum(len(member.read) for member in members) >= records:
                    return
    except TimeoutError:
        read = [len(member.read) for member in members]
        raise AssertionError(f"partitions {[member.partitions() for member in members]}, records {read}") from None
