"""Adapter for Kafka's protocol: the roles with one client library.

Every read goes to a partition's leader, whichever node a role draws, and a list of offsets is linearizable there. A
commit without a member sets the offset, even to a lower one, so histories record it as an operator's commit."""

import asyncio
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from jepsen.checkers.history import OPERATOR
from jepsen.workloads.adapters.library import AssignedConsumer, KafkaLibrary
from jepsen.workloads.adapters.port import ProducerTimes, RecordProducer, SubscribedConsumer
from jepsen.workloads.client.access import ANY_NODE, FoundBatches
from jepsen.workloads.client.values import parse_record
from jepsen.workloads.roles.kafka_member import KafkaMember
from jepsen.workloads.roles.kafka_sender import KafkaSender
from jepsen.workloads.roles.load_share import LoadShare
from raftlog.types import Offset, TopicPartition

_WAIT_MS_MIN: Final = 20
"""Shortest wait of a poll, in milliseconds: without a wait a library may never return records."""


class KafkaAccess:
    """Client for partitions and groups over Kafka's protocol (`LogAccess`). It creates consumers at first use."""

    member_of_commits: Final = OPERATOR

    def __init__(self, library: KafkaLibrary, nodes: Sequence[int], places: Sequence[TopicPartition]) -> None:
        self.nodes = list(nodes)
        self._library, self._places = library, list(places)
        self._groups: dict[str, AssignedConsumer] = {}
        self._made: list[AssignedConsumer] = []

    def draw_node(self, random: Random) -> int:
        """Return `ANY_NODE`: the library chooses the broker."""
        return ANY_NODE

    def fetcher(self) -> "KafkaFetcher":
        """Return a source of records with a consumer of its own."""
        return KafkaFetcher(self._new_consumer(""))

    def _new_consumer(self, group: str) -> AssignedConsumer:
        """Create a consumer of the group (empty: a reader), which `close` closes."""
        consumer = self._library.new_assigned(group, self._places)
        self._made.append(consumer)
        return consumer

    def _consumer_of(self, group: str) -> AssignedConsumer:
        """Return the consumer that all requests of a group share."""
        if group not in self._groups:
            self._groups[group] = self._new_consumer(group)
        return self._groups[group]

    async def offsets(self, node: int, place: TopicPartition, linearizable: bool, timeout_ms: int) -> tuple[int, int]:
        """Return the first and end offset of a partition; `node` and `linearizable` are ignored."""
        return await self._consumer_of("").offsets(place, timeout_ms)

    async def commit(self, node: int, group: str, offsets: Mapping[TopicPartition, int], timeout_ms: int) -> None:
        """Commit offsets of the group without a member; `node` is ignored."""
        await self._consumer_of(group).commit(offsets, timeout_ms)

    async def committed(self, node: int, group: str, timeout_ms: int) -> dict[TopicPartition, Offset]:
        """Return the group's committed offsets of all partitions; `node` is ignored."""
        return await self._consumer_of(group).committed(self._places, timeout_ms)

    async def close(self) -> None:
        """Close all consumers."""
        await asyncio.gather(*(each.close() for each in self._made))


class KafkaFetcher:
    """Source of one reader's records (`Fetcher`), with a consumer of the library."""

    def __init__(self, consumer: AssignedConsumer) -> None:
        self._consumer = consumer

    async def fetch(self, node: int, place: TopicPartition, offset: int, timeout_ms: int) -> FoundBatches:
        """Fetch records from an offset on, and wait for the first ones until the timeout; `node` is ignored."""
        found = FoundBatches(place, offset)
        for record in await self._consumer.fetch(place, offset, max(timeout_ms, _WAIT_MS_MIN)):
            found.offsets.append(Offset(record.offset))
            found.values.append(parse_record(record))
            found.next_offset = record.offset + 1
        return found


class KafkaAdapter:
    """Factory of the roles of a client that uses Kafka's protocol, with the interface `Adapter`."""

    def __init__(self, library: KafkaLibrary, nodes: Sequence[int], share: LoadShare) -> None:
        self._library, self._share = library, share
        self.access = KafkaAccess(library, nodes, share.partitions)
        self._senders: list[KafkaSender] = []

    def new_producer(self, random: Random, times: ProducerTimes) -> RecordProducer:
        """Return the library's producer that retries until the delivery timeout."""
        return self._library.new_producer(times)

    def new_consumer(
        self, random: Random, topics: Sequence[str], group: str, session_timeout_ms: int, wait_ms: int
    ) -> SubscribedConsumer:
        """Return the library's group member with automatic commits."""
        return self._library.new_consumer(topics, group, session_timeout_ms, wait_ms)

    def new_sender(self) -> KafkaSender:
        """Return a sender of plain requests, which `close` closes."""
        sender = KafkaSender(self._library, self._share)
        self._senders.append(sender)
        return sender

    def new_member(self, process: int, joins: int, topics: Mapping[str, int], random: Random) -> KafkaMember:
        """Return a group member; `joins` is the process number of its joins in the history."""
        return KafkaMember(self._library, self._share.history, process, joins, sorted(topics), random)

    async def close(self) -> None:
        """Close all senders and consumers."""
        for sender in self._senders:
            await sender.close()
        await self.access.close()
