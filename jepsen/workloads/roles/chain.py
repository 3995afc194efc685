"""Read-process-write chain: each record of a topic leads to one record of another, exactly once.

A transaction contains the written records and the offset at which the chain continues. After any failure, chain and
producer begin anew at the committed offsets. The history has the offsets that each transaction consumed, so the checker
finds records that were consumed twice or skipped."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import Final

from jepsen.checkers import Append, Consumed, OffsetsRead, Transaction
from jepsen.checkers.history import TXN
from jepsen.workloads.adapters.port import PlacedRecord
from jepsen.workloads.adapters.transactional import (
    ChainConsumer,
    ChainSettings,
    TransactionalLibrary,
    TransactionalProducer,
    TransactionSettings,
)
from jepsen.workloads.client.recording import HistoryWriter
from jepsen.workloads.client.values import make_payload
from jepsen.workloads.roles.transactions import (
    ABORTS,
    LEFT_OPEN,
    MOMENT_S,
    REQUEST_MS,
    STALLS,
    TIMEOUT_MS,
    Aborted,
    Attempt,
)
from raftlog.errors import RaftlogError
from raftlog.types import Offset, TopicPartition

GROUP: Final = "chains"
SESSION_TIMEOUT_MS: Final = 3_000
RECORDS_MAX: Final = 5
"""Largest number of records that a transaction consumes from each partition."""
RESTARTS, OFFSET_READS = 0.01, 0.1
_WAIT_MS: Final = 200
_READ_MS: Final = 3_000
_PAYLOAD_BYTES: Final = 100


class Chain:
    """Role that moves records from input to output topics in transactions; a new chain follows one that fails.

    `partitions` are consumed if the library cannot use a consumer group in transactions."""

    def __init__(
        self,
        library: TransactionalLibrary,
        history: HistoryWriter,
        process: int,
        topic: str,
        partitions: Sequence[int],
        outputs: Sequence[TopicPartition],
        values: Iterator[int],
        random: Random,
    ) -> None:
        """Create a chain from `partitions` of the input topic to the partitions `outputs`."""
        self._library, self._history, self._process = library, history, process
        self._outputs, self._values, self._random = outputs, values, random
        owner = process if library.names_members else "-".join(map(str, partitions))
        self._producer_settings = TransactionSettings(f"chain-{owner}", TIMEOUT_MS, REQUEST_MS)
        self._consumer_settings = ChainSettings(topic, GROUP, tuple(partitions), SESSION_TIMEOUT_MS, RECORDS_MAX)
        self._waiting: list[PlacedRecord] = []
        """Records that were polled and are not in a transaction yet."""

    async def run(self, until_s: float) -> None:
        """Consume, transform and produce in transactions until `until_s` (event-loop time).

        After an error, and at random, begin again with a new producer and consumer."""
        loop = asyncio.get_running_loop()
        while loop.time() < until_s:
            producer = self._library.new_producer(self._producer_settings)
            consumer = self._library.new_consumer(self._consumer_settings)
            self._waiting = []
            try:
                await producer.start()
                await consumer.start()
                while loop.time() < until_s and self._random.random() >= RESTARTS:
                    await self._step(producer, consumer)
            except RaftlogError:
                await asyncio.sleep(MOMENT_S)
            finally:
                await consumer.close()
                await producer.close()

    async def _step(self, producer: TransactionalProducer, consumer: ChainConsumer) -> None:
        """Consume some records, or read the committed offsets. Raises the error that ends this chain."""
        if self._random.random() < OFFSET_READS:
            await self._read_offsets(consumer)
        if not self._waiting:
            self._waiting = list(await consumer.poll(_WAIT_MS))
            self._history.polled += len(self._waiting)
        records, self._waiting = self._waiting[:RECORDS_MAX], self._waiting[RECORDS_MAX:]
        if records:
            await self._transact(producer, consumer, records)

    async def _read_offsets(self, consumer: ChainConsumer) -> None:
        """Read the group's stable committed offsets, as a transaction with only this step."""
        invocation = self._history.invoke(self._process, TXN, Transaction((OffsetsRead(),), GROUP))
        try:
            found = await consumer.stable(_READ_MS)
        except RaftlogError as error:
            self._history.fail(invocation, f"{type(error).__name__}: {error}")
        else:
            self._history.ok(invocation, Transaction((OffsetsRead(tuple(found.items())),), GROUP))

    async def _transact(
        self, producer: TransactionalProducer, consumer: ChainConsumer, records: Sequence[PlacedRecord]
    ) -> None:
        """Process the records in one transaction: append a value for each, and commit their offsets.

        By random choice the transaction is stalled, aborted or left open."""
        consumed: dict[TopicPartition, Consumed] = {}
        for record in records:
            place, at = TopicPartition(record.topic, record.partition), Offset(record.offset)
            first = consumed[place].first if place in consumed else at
            consumed[place] = Consumed(place, first, Offset(at + 1))
        appends = tuple(Append(self._random.choice(self._outputs), next(self._values)) for _ in records)
        await producer.begin(consumer)
        plan = Transaction(appends, GROUP, tuple(consumed.values()))
        attempt = Attempt(self._history, self._process, plan)
        draw = self._random.random()
        try:
            for append in appends:
                assert isinstance(append.value, int), append
                offset = await producer.append(append.partition, make_payload(append.value, _PAYLOAD_BYTES))
                attempt.add(append._replace(offset=offset))
            if self._random.random() < STALLS:
                await asyncio.sleep(1.5 * SESSION_TIMEOUT_MS / 1000)
            await producer.commit_offsets({place: each.end for place, each in consumed.items()}, consumer)
            if draw < LEFT_OPEN + ABORTS:
                raise Aborted("left open" if draw < LEFT_OPEN else "by its client")
            await attempt.commit(producer)
        except RaftlogError as error:
            attempt.end(error)
            if draw >= LEFT_OPEN:
                with suppress(RaftlogError):
                    await producer.abort()
            raise
        except asyncio.CancelledError:
            self._history.crash(self._process)
            raise
