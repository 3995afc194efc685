"""Records through a producer of the client library: idempotent, batched, retried until their outcome is known.

Each record is one operation of one process, which ends as its delivery ends; an `ok` records the order in which its
producer accepted the records of the partition. Now and then a producer is closed while records are in flight, and
another one begins, as when a program restarts. If records have keys, some are tombstones."""

import asyncio
from contextlib import suppress
from typing import Final

from jepsen.checkers import Send
from jepsen.checkers.history import SEND, Sequenced
from jepsen.workloads.adapters.port import Adapter, ProducerTimes, RecordProducer
from jepsen.workloads.client.values import make_payload, tombstone_headers
from jepsen.workloads.roles.load_share import LoadShare
from raftlog.errors import RaftlogError
from raftlog.types import TopicPartition

DELIVERY_TIMEOUT_MS: Final = 20_000
REQUEST_TIMEOUT_MS: Final = 2_000
RESTARTS: Final = 0.002
"""Chance, before each record, that the producer is replaced by another one."""
CLOSE_S: Final = 0.05
KEYS: Final = 40
TOMBSTONES: Final = 0.1
SIZES: Final = (10, 100, 100, 300, 1000)


class Deliverer:
    """Role that sends records with the client library's producer, one for each client. Calls of `send` may overlap."""

    def __init__(
        self,
        adapter: Adapter,
        share: LoadShare,
        *,
        is_keyed: bool,
    ) -> None:
        """Create the role; with `is_keyed` records have keys, and some are tombstones."""
        self._adapter = adapter
        self._history, self._partitions, self._values, self._senders, self._random = share
        self._is_keyed = is_keyed
        self._producer: RecordProducer | None = None
        self._name = 0
        """Name of the producer in the history: the first value that it sends."""
        self._taken: dict[TopicPartition, int] = {}
        """Number of records by partition that the producer has accepted."""
        self._closing: set[asyncio.Task[None]] = set()
        self.not_offered = 0
        """Records that were due while no process was free."""

    async def send(self) -> None:
        """Send one record in a free process, or count it as not offered."""
        with self._senders.take(1) as processes:
            if processes:
                await self._send(processes[0])
            else:
                self.not_offered += 1

    async def _send(self, process: int) -> None:
        """Send one record, and record its outcome as an operation of `process`.

        Records that failed because their producer was closed are marked as hasty."""
        value, place = next(self._values), self._random.choice(self._partitions)
        producer, name, taken = self._current_producer(value), self._name, self._taken
        key = f"key-{self._random.randrange(KEYS)}" if self._is_keyed else None
        is_tombstone = self._is_keyed and self._random.random() < TOMBSTONES
        send = Send(place, (value,), (), () if key is None else (key,), (value,) if is_tombstone else ())
        invocation = self._history.invoke(process, SEND, send, acks="all")
        try:
            delivery = await producer.send(
                place.topic,
                None if is_tombstone else make_payload(value, self._random.choice(SIZES)),
                None if key is None else key.encode(),
                headers=tombstone_headers(value) if is_tombstone else (),
                partition=place.partition,
            )
            number = taken[place] = taken.get(place, 0) + 1
            delivered = await delivery
        except RaftlogError as error:
            is_closed = producer is not self._producer  # by us, and soon: that counts in no figure of success
            self._history.record_refusal(invocation, error, acks="all", **({"hasty": True} if is_closed else {}))
        else:
            numbered = send._replace(offsets=(delivered.offset,), sequenced=Sequenced(name, 0, number))
            self._history.ok(invocation, numbered, acks="all")

    def _current_producer(self, value: int) -> RecordProducer:
        """Return the present producer, or sometimes a new one, which begins with this value."""
        if self._producer is not None and self._random.random() < RESTARTS:
            closing = asyncio.create_task(_close(self._producer, CLOSE_S))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
            self._producer = None
        if self._producer is None:
            self._name, self._taken = value, {}
            times = ProducerTimes(self._random.choice((0, 5, 50)), REQUEST_TIMEOUT_MS, DELIVERY_TIMEOUT_MS)
            self._producer = self._adapter.new_producer(self._random, times)
        return self._producer

    async def close(self, timeout_s: float) -> None:
        """Close the producers; each waits up to `timeout_s` for its sent records."""
        await asyncio.gather(*self._closing)
        if self._producer is not None:
            await _close(self._producer, timeout_s)


async def _close(producer: RecordProducer, timeout_s: float) -> None:
    """Close a producer; an error is ignored, because the history has the outcome of each delivery."""
    with suppress(RaftlogError):  # the history has every delivery
        await producer.close(timeout_s)
