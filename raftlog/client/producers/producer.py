"""`Producer`: records to topics, in batches, with back-pressure, each with a definite result.

    async with Producer(["127.0.0.1:8082"]) as producer:
        delivery = await producer.send("orders", b"value", key=b"alice")
        print((await delivery).offset)

`send` puts a record into a buffer and waits only while that is full. Batches go to the partitions' leaders. Batches
refused for now are retried, and with idempotence (the default) also those that may have arrived: the broker recognises
the batch by its sequence, and answers with its first offset. Each record ends as done, failed or unknown within
`delivery_timeout_ms`, in the order of its partition. Nothing is dropped silently: `flush` and `close` raise the errors
of records whose deliveries were not awaited.

Not thread-safe: one event loop, any number of its tasks."""

import asyncio
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Generic, Self, Unpack

from raftlog.client.broker import BrokerClient
from raftlog.client.metadata import Metadata
from raftlog.client.outage import Outage
from raftlog.client.producers.delivery import Batch, Delivered, Delivery, RecordHeaders, size_of
from raftlog.client.producers.identities import Identities
from raftlog.client.producers.partition_chooser import PartitionChooser
from raftlog.client.producers.producer_lane import ProducerLane
from raftlog.client.producers.producer_settings import BATCH_BYTES_MAX, ProducerOptions, ProducerSettings
from raftlog.client.serializers import K, Serializer, V, describe_argument, serialize
from raftlog.client.topic_names import check_name
from raftlog.errors import InvalidArgument, LogClosed, OutcomeUnknown, RaftlogError, RecordTooLarge, Unavailable
from raftlog.records import Compression, NewRecord, build_columns
from raftlog.records.header import HEADER_SIZE
from raftlog.types import TopicPartition

_NO_HEADERS: RecordHeaders = []
_UNSEEN_MAX: Final = 1000
"""Bound on failed batches kept for `flush`; if more fail, `flush` reports at least the records of these."""


class Producer(Generic[K, V]):
    """Producer for asyncio, created inside a running event loop."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        key_serializer: Serializer[K] | None = None,
        value_serializer: Serializer[V] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        """Check the settings; raise `InvalidArgument`. docs/CLIENT.md describes each setting."""
        self.settings = ProducerSettings(**options)
        self._client = BrokerClient(bootstrap)
        self._metadata = Metadata(self._client, self.settings.metadata_refresh_s)
        self._metadata.changed = self._handle_metadata_change
        self._key_serializer, self._value_serializer = key_serializer, value_serializer
        self._identities = (
            Identities(self._client, self.settings.request_timeout_ms) if self.settings.idempotent else None
        )
        self._choosers: dict[str, PartitionChooser] = {}
        self._lanes: dict[TopicPartition, ProducerLane] = {}
        self._records = 0
        self._bytes = 0
        self._room = asyncio.Event()
        self._unseen: list[Batch] = []
        self._is_closed = False
        self._transactional_id: str | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the producer; after a cancellation, without waiting for deliveries."""
        if error is None:
            await self.close()
            return
        try:
            await self.close(0.0 if isinstance(error, asyncio.CancelledError) else None)
        except RaftlogError as failure:  # the error that ended the block takes precedence
            error.add_note(f"besides, the producer could not deliver everything: {failure}")

    async def send(
        self,
        topic: str,
        value: V | None,
        key: K | None = None,
        *,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> Delivery:
        """Accept a record; wait only while the buffer is full, and for the metadata of a topic at its first record.

        Raises errors of the record before anything is sent: `InvalidArgument`, `RecordTooLarge`, `UnknownTopic`,
        `UnknownPartition`; `Unavailable` when no broker returned the metadata of the topic or a producer id.
        """
        record_headers = list(headers) if headers else _NO_HEADERS
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        value_bytes: bytes | None = value  # type: ignore[assignment]  # bytes are checked below
        key_bytes: bytes | None = key  # type: ignore[assignment]
        if self._value_serializer is not None:
            value_bytes = serialize(self._value_serializer, value, "value")
        if self._key_serializer is not None:
            key_bytes = serialize(self._key_serializer, key, "key")
        _check_record(value_bytes, key_bytes, timestamp_ms, record_headers)
        size = size_of(value_bytes, key_bytes, record_headers)
        chooser = self._choosers.get(topic)
        if chooser is None:
            chooser = await self._get_chooser(topic)
        limit = chooser.topic.message_bytes_max
        if size + HEADER_SIZE > limit:
            _check_fits([value_bytes], [key_bytes], [timestamp_ms], [record_headers], self.settings.codec, topic, limit)
        settings, waiting = self.settings, self._records  # most records find room, and then need no call
        is_full = waiting and (waiting >= settings.buffer_records or self._bytes + size > settings.buffer_bytes)
        if is_full or self._is_closed:
            await self._wait_for_room(size)
        lane = chooser.choose(partition, key_bytes)
        if lane.failure is not None:
            raise lane.failure
        delivery = lane.add(value_bytes, key_bytes, timestamp_ms, record_headers, size)
        self._records += 1
        self._bytes += size
        if delivery.number_in_batch + 1 == settings.batch_records:
            await asyncio.sleep(0)  # lets the loop send a full batch, even if the caller never yields
        return delivery

    async def send_and_wait(
        self,
        topic: str,
        value: V | None,
        key: K | None = None,
        *,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> Delivered:
        """Send a record, wait until it is stored, and return its partition and offset.

        Raises as `send`, and the error of the delivery: the record is not stored, or may not be."""
        delivery = await self.send(topic, value, key, headers=headers, timestamp_ms=timestamp_ms, partition=partition)
        return await delivery

    async def send_batch(self, topic: str, partition: int, records: Sequence[NewRecord | bytes]) -> list[Delivery]:
        """Accept many records of one partition as a batch, or as several if they do not fit into one.

        Records are values alone or `NewRecord`s; both hold bytes, since serializers are not called. Returns the
        delivery of the last record of each batch. Raises as `send`."""
        if not records:
            return []
        chooser = self._choosers.get(topic) or await self._get_chooser(topic)
        lane = chooser.choose(partition, None)
        limit = chooser.topic.message_bytes_max
        batches = self._make_batches(TopicPartition(topic, partition), records, limit)
        for batch in batches:
            await self._wait_for_room(batch.size_bytes)
            if lane.failure is not None:
                raise lane.failure
            self._records += batch.count
            self._bytes += batch.size_bytes
            lane.add_batch(batch)
        return [Delivery(batch, batch.count - 1) for batch in batches]

    def _make_batches(
        self, topic_partition: TopicPartition, records: Sequence[NewRecord | bytes], limit: int
    ) -> list[Batch]:
        """Build batches of the records, halved until each fits into the limit. Raises `RecordTooLarge`."""
        loop = asyncio.get_running_loop()
        batch = Batch(topic_partition, loop.time(), loop.create_future())
        batch.fill(records, time.time_ns() // 1_000_000)
        if batch.size_bytes + HEADER_SIZE <= min(limit, BATCH_BYTES_MAX):
            return [batch]
        if batch.count == 1:
            columns = batch.values, batch.keys, batch.timestamps, batch.headers
            _check_fits(*columns, self.settings.codec, topic_partition.topic, limit)
            return [batch]
        half = batch.count // 2
        return self._make_batches(topic_partition, records[:half], limit) + self._make_batches(
            topic_partition, records[half:], limit
        )

    async def _wait_for_room(self, size: int) -> None:
        """Wait until the buffer has room for `size` bytes. Raises `LogClosed`."""
        while self._records and (
            self._records >= self.settings.buffer_records or self._bytes + size > self.settings.buffer_bytes
        ):
            self._room.clear()
            await self._room.wait()
        if self._is_closed:
            raise LogClosed("the producer is closed")

    async def flush(self) -> None:
        """Wait until every record that was sent before has a result.

        Raises the first error among failed records whose delivery was not read; a note on it has their number.
        """
        await self._wait_until_ended(None)
        self._raise_unreported()

    async def close(self, timeout_s: float | None = None) -> None:
        """Flush and close, within `timeout_s`, or else within the delivery timeout.

        Records without a result by then fail if they were not sent, and end as unknown otherwise. Raises as `flush`,
        with the number of records that were not delivered.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._room.set()
        try:
            await self._wait_until_ended(timeout_s)
            for lane in self._lanes.values():
                await lane.abandon()
        finally:
            await self._metadata.close()
            await self._client.close()
        self._raise_unreported()

    # parts of `send`

    async def _get_chooser(self, topic: str) -> PartitionChooser:
        """Return the chooser of a topic's partitions; at first use request its description and a producer id."""
        check_name(topic)
        with Outage(f"metadata of topic {topic}", self.settings.delivery_timeout_ms / 1000) as outage:
            while True:
                try:
                    if self._identities is not None:
                        await self._identities.wait_for_id()
                    described = await self._metadata.topic(topic)
                    break
                except (Unavailable, OutcomeUnknown) as error:  # an unused producer id costs nothing
                    if self._is_closed:
                        raise LogClosed("the producer is closed") from None
                    await outage.pause(error)
        found = self._choosers.get(topic)
        if found is None:
            found = self._choosers[topic] = PartitionChooser(topic, described, self.settings, self._get_lane)
        return found

    def _get_lane(self, topic: str, partition: int) -> ProducerLane:
        """Return the lane of a partition; create it at first use."""
        topic_partition = TopicPartition(topic, partition)
        lane = self._lanes.get(topic_partition)
        if lane is None:
            described = self._metadata.get_cached(topic)
            limit = self.settings.batch_bytes
            if described is not None:
                limit = min(limit, described.message_bytes_max - HEADER_SIZE)
            lane = ProducerLane(
                topic_partition,
                self._client,
                self.settings,
                self._identities,
                limit,
                self._handle_result,
                self._transactional_id,
            )
            self._lanes[topic_partition] = lane
        return lane

    def _handle_metadata_change(self) -> None:
        """Replace the choosers of topics whose number of partitions or size limit changed."""
        for name, chooser in list(self._choosers.items()):
            described = self._metadata.get_cached(name)
            if described is None:
                del self._choosers[name]
            elif described != chooser.topic:
                self._choosers[name] = PartitionChooser(name, described, self.settings, self._get_lane)

    def _handle_result(self, batch: Batch) -> None:
        """Release the room of a batch that ended; keep the error until it is read."""
        self._records -= batch.count
        self._bytes -= batch.size_bytes
        self._room.set()
        if batch.done.exception() is not None:
            self._metadata.refresh_soon()
            self._keep_unreported(batch)

    def _keep_unreported(self, batch: Batch) -> None:
        """Keep a failed batch for `flush` and `close`, up to a bound."""
        if len(self._unseen) >= _UNSEEN_MAX:
            self._unseen = [other for other in self._unseen if not other.is_result_read]
        if len(self._unseen) < _UNSEEN_MAX:
            self._unseen.append(batch)

    async def _wait_until_ended(self, timeout_s: float | None) -> None:
        """Send all waiting batches, and wait until they have a result or the timeout passes."""
        batches = [batch.done for lane in self._lanes.values() for batch in lane.send_now()]
        if batches:
            await asyncio.wait(batches, timeout=timeout_s)

    def _raise_unreported(self) -> None:
        """Raise the first error of batches whose results were not read, with the number of their records."""
        unseen, self._unseen = [batch for batch in self._unseen if not batch.is_result_read], []
        if not unseen:
            return
        errors = [batch.done.exception() for batch in unseen]
        unknown = sum(batch.count for batch, error in zip(unseen, errors, strict=True) if _is_unknown(error))
        count = sum(batch.count for batch in unseen)
        first = errors[0]
        assert first is not None, "only batches that failed are kept"
        first.add_note(
            f"{count} records were not delivered; of {unknown} of them it is not known whether they are stored"
        )
        raise first


def _check_fits(
    values: list[bytes | None],
    keys: list[bytes | None],
    timestamps: list[int],
    headers: list[RecordHeaders],
    compression: Compression,
    topic: str,
    limit: int,
) -> None:
    """Build a record that may be too large on its own, and raise `RecordTooLarge` if it is."""
    size = len(build_columns(values, keys, timestamps, headers, compression))
    if size > limit:
        raise RecordTooLarge(
            f"a record makes a batch of {size} bytes; max.message.bytes of topic {topic} is {limit}, and "
            "`raftlog topic alter` can raise it"
        )


def _is_unknown(error: BaseException | None) -> bool:
    return isinstance(error, OutcomeUnknown)


def _check_record(value: object, key: object, timestamp_ms: object, headers: RecordHeaders) -> None:
    """Raise `InvalidArgument` for values that a record cannot hold, before it is added to a batch."""
    if type(value) is not bytes and value is not None:
        raise InvalidArgument(_describe_not_bytes("value", value))
    if type(key) is not bytes and key is not None:
        raise InvalidArgument(_describe_not_bytes("key", key))
    if type(timestamp_ms) is not int or not 0 <= timestamp_ms < 1 << 62:
        raise InvalidArgument(
            f"timestamp_ms is {describe_argument(timestamp_ms)}; it is in milliseconds since 1970, an int"
        )
    for header in headers:
        if not (
            type(header) is tuple
            and len(header) == 2
            and type(header[0]) is str
            and (type(header[1]) is bytes or header[1] is None)
        ):
            raise InvalidArgument(f"{header!r} is not a header of a record: a pair of str, and bytes or None")


def _describe_not_bytes(argument: str, given: object) -> str:
    """Return an error text that names the argument, and how to pass it."""
    hint = f"encode it ({argument}.encode()), or" if isinstance(given, str) else "serialize it, or"
    return (
        f"{argument} is {describe_argument(given)}; send() takes bytes or None. "
        f"{hint[0].upper()}{hint[1:]} create the producer with {argument}_serializer=…"
    )
