"""Transactions of `raftlog.client`, over HTTP."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from jepsen.workloads.adapters.http import BATCH_RECORDS
from jepsen.workloads.adapters.transactional import ChainConsumer, ChainSettings, TransactionSettings
from raftlog.client import BrokerClient, Consumer, ConsumerRecord, Producer, TransactionalProducer
from raftlog.errors import RaftlogError
from raftlog.types import Offset, TopicPartition


class _Aborted(RaftlogError):
    """Cause of an abort that the client's program wants."""


class HttpTransactional:
    """Transactional producer of `raftlog.client` behind the interface `TransactionalProducer`."""

    def __init__(self, addresses: Sequence[str], settings: TransactionSettings) -> None:
        """Create a producer of the brokers at `addresses`."""
        self._producer = TransactionalProducer(
            addresses,
            settings.transactional_id,
            transaction_timeout_ms=settings.timeout_ms,
            delivery_timeout_ms=settings.timeout_ms,
            request_timeout_ms=settings.request_ms,
            linger_ms=0,
            batch_records=BATCH_RECORDS,
        )
        self._open: AbstractAsyncContextManager[None] | None = None

    async def start(self) -> None:
        """Fence earlier producers of the transactional id: the first transaction does that, and sends nothing else."""
        async with self._producer.transaction():
            pass

    async def begin(self, consumer: ChainConsumer | None = None) -> None:
        """Begin a transaction, which commits the offsets of the records that the consumer returned last."""
        assert consumer is None or isinstance(consumer, HttpChainConsumer), consumer
        self._open = self._producer.transaction(None if consumer is None else consumer.consumer)
        await self._open.__aenter__()

    async def append(self, place: TopicPartition, value: bytes) -> Offset:
        """Append a record in the transaction and return its offset."""
        delivery = await self._producer.send(place.topic, value, partition=place.partition)
        return (await delivery).offset

    async def commit_offsets(self, offsets: Mapping[TopicPartition, int], consumer: ChainConsumer) -> None:
        """Check that the consumer's last records end at these offsets, which the commit of the transaction includes."""
        assert isinstance(consumer, HttpChainConsumer), consumer
        assert consumer.ends == offsets, f"records up to {consumer.ends} were polled, not up to {offsets}"

    async def commit(self) -> None:
        """Commit the transaction. Raises `Unavailable` if it was aborted instead, and `OutcomeUnknown`."""
        await self._end(None)

    async def abort(self) -> None:
        """Abort the transaction."""
        await self._end(_Aborted("by its client"))

    async def _end(self, error: RaftlogError | None) -> None:
        """Leave the block of the transaction, with an error or without."""
        ended, self._open = self._open, None
        if ended is not None:
            await ended.__aexit__(None if error is None else type(error), error, None)

    async def close(self) -> None:
        """Close without ending the open transaction, unlike the producer's own `close`, which aborts it."""
        await Producer.close(self._producer, 0.0)


class HttpChainConsumer:
    """Group member of `raftlog.client` behind the interface `ChainConsumer`."""

    def __init__(self, addresses: Sequence[str], settings: ChainSettings) -> None:
        """Create a group member of the brokers at `addresses`, which polls the records of one transaction at a time."""
        self.consumer: Consumer[Any, Any] = Consumer(
            addresses,
            settings.topic,
            group=settings.group,
            auto_commit=False,
            auto_offset_reset="earliest",
            max_poll_records=settings.records_max,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=3 * settings.session_timeout_ms,
        )
        self._client = BrokerClient(addresses)
        self._group = settings.group
        self.ends: dict[TopicPartition, int] = {}
        """End offsets of the records of the last poll."""

    async def start(self) -> None:
        """Do nothing: the first poll joins the group."""

    async def poll(self, timeout_ms: int) -> list[ConsumerRecord[Any, Any]]:
        """Return the next committed records; empty if none arrives within the timeout."""
        records = await self.consumer.poll(timeout_ms=timeout_ms)
        self.ends = {TopicPartition(each.topic, each.partition): each.offset + 1 for each in records}
        return records

    async def stable(self, timeout_ms: int) -> dict[TopicPartition, Offset | None]:
        """Return the committed offsets of all owned partitions, without pending ones.

        Raises `Unavailable` while there are pending ones."""
        places = self.consumer.assignment
        found = await self._client.groups.committed(self._group, stable=places, timeout_ms=timeout_ms)
        return {place: found[place].offset if place in found else None for place in places}

    async def close(self) -> None:
        """Leave the group, and close."""
        try:
            await self.consumer.close()
        finally:
            await self._client.close()


class HttpTransactions:
    """Factory of transactional clients of `raftlog.client`, with the interface `TransactionalLibrary`."""

    names_members: Final = True

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = list(addresses)

    def new_producer(self, settings: TransactionSettings) -> HttpTransactional:
        return HttpTransactional(self._addresses, settings)

    def new_consumer(self, settings: ChainSettings) -> HttpChainConsumer:
        return HttpChainConsumer(self._addresses, settings)

    async def close(self) -> None:
        """Do nothing: producers and consumers share nothing."""
