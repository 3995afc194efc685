"""`Consumer` without a group: reading, positions, resets, faults."""

import asyncio
import re
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from raftlog.client import BrokerClient, Consumer, ConsumerRecord, Fetched, RebalanceListener
from raftlog.client.consumers.fetched_records import FetchedRecords
from raftlog.errors import (
    InvalidArgument,
    InvalidBatch,
    LogClosed,
    OffsetOutOfRange,
    UndecodableBatch,
    UnknownPartition,
    UnknownTopic,
)
from raftlog.records import ControlKind, NewRecord, build_batch, build_control_batch
from raftlog.types import Offset, TopicPartition
from tests.client.fake_broker import FakeBroker, Partition, error_response
from tests.client.polling import FIRST, fill, offsets_of, poll_records
from tests.undecodable import SMALL, Undecodable
from tests.waiting import until

Served = Callable[[FakeBroker], Awaitable[str]]


async def test_records_are_read_in_order_with_all_fields(served: Served) -> None:
    broker = FakeBroker(orders=1)
    headers = [("h", b"1"), ("none", None)]
    broker.topics["orders"][0].append(bytes(build_batch([NewRecord(b"v", b"k", 1234, headers), NewRecord(None)])))
    async with Consumer([await served(broker)], "orders") as consumer:
        first, second = await poll_records(consumer, 2)
    assert first == ConsumerRecord("orders", 0, Offset(0), 1234, b"k", b"v", headers)
    assert (second.offset, second.key, second.value) == (1, None, None)


async def test_a_consumer_without_an_assignment_raises(served: Served) -> None:
    async with Consumer([await served(FakeBroker(orders=1))]) as consumer:
        with pytest.raises(InvalidArgument, match="subscribe"):
            await consumer.poll(timeout_ms=1)
        await consumer.assign([])
        assert await consumer.poll(timeout_ms=1) == []


async def test_a_negative_offset_is_refused(served: Served) -> None:
    async with Consumer([await served(FakeBroker(orders=1))]) as consumer:
        await consumer.assign({FIRST: 0})
        with pytest.raises(InvalidArgument, match="seek_from_end"):
            consumer.seek(FIRST, -1)


async def test_poll_returns_at_most_the_requested_records_within_its_timeout(served: Served) -> None:
    broker = FakeBroker(orders=1)
    fill(broker.topics["orders"][0], range(250))
    async with Consumer([await served(broker)], "orders") as consumer:
        sizes = []
        while sum(sizes) < 250:
            sizes.append(len(await consumer.poll()))
        assert max(sizes) == 100
        assert len(sizes) <= 5
        assert await consumer.poll(timeout_ms=1) == []
        fill(broker.topics["orders"][0], range(250, 251))
        assert offsets_of(await poll_records(consumer, 1)) == [250]


async def test_iteration_reads_every_partition_in_order(served: Served) -> None:
    broker = FakeBroker(orders=3, bills=1)
    for partition in (*broker.topics["orders"], *broker.topics["bills"]):
        fill(partition, range(130))
    seen: dict[tuple[str, int], list[int]] = {}
    async with Consumer([await served(broker)], "orders", "bills", fetch_bytes=600) as consumer:
        count = 0
        async for record in consumer:
            seen.setdefault((record.topic, record.partition), []).append(record.offset)
            count += 1
            if count == 4 * 130:
                break
    assert seen == {place: list(range(130)) for place in [("orders", 0), ("orders", 1), ("orders", 2), ("bills", 0)]}


async def test_only_assigned_partitions_are_read(served: Served) -> None:
    broker = FakeBroker(orders=2)
    for partition in broker.topics["orders"]:
        fill(partition, range(10))
    async with Consumer([await served(broker)]) as consumer:
        await consumer.assign([TopicPartition("orders", 1)])
        assert {record.partition for record in await poll_records(consumer, 10)} == {1}
        await consumer.assign([FIRST])
        assert consumer.assignment == {FIRST}
        assert {record.partition for record in await poll_records(consumer, 10)} == {0}


async def test_seeks_set_the_position(served: Served) -> None:
    broker = FakeBroker(orders=1)
    partition = broker.topics["orders"][0]
    fill(partition, range(100))
    partition.start = 20
    async with Consumer([await served(broker)], "orders", auto_offset_reset="latest") as consumer:
        await consumer.poll(timeout_ms=1)
        assert await consumer.position(FIRST) == 100
        consumer.seek(FIRST, 33)
        assert offsets_of(await poll_records(consumer, 3)) == [33, 34, 35]
        assert await consumer.position(FIRST) == 36
        consumer.seek_to_beginning()
        assert offsets_of(await poll_records(consumer, 1)) == [20]
        consumer.seek_from_end(7, FIRST)
        assert offsets_of(await poll_records(consumer, 1)) == [93]
        consumer.seek_from_end(10_000)
        assert offsets_of(await poll_records(consumer, 1)) == [20]
        consumer.seek_to_timestamp(1055)
        assert offsets_of(await poll_records(consumer, 1)) == [55]
        consumer.seek_to_timestamp(5000)
        assert await consumer.position(FIRST) == 100
        consumer.seek_to_end()
        assert await consumer.position(FIRST) == 100
        fill(partition, range(100, 101))
        assert offsets_of(await poll_records(consumer, 1)) == [100]


async def test_a_seek_during_an_iteration_takes_effect_at_once(served: Served) -> None:
    broker = FakeBroker(orders=1)
    fill(broker.topics["orders"][0], range(100))
    seen = []
    async with Consumer([await served(broker)], "orders") as consumer:
        async for record in consumer:
            seen.append(record.offset)
            if record.offset == 5:
                assert await consumer.position(FIRST) == 6
                consumer.seek(FIRST, 50)
            if record.offset == 51:
                break
    assert seen == [0, 1, 2, 3, 4, 5, 50, 51]


async def test_a_paused_partition_returns_nothing_and_keeps_its_position(served: Served) -> None:
    broker = FakeBroker(orders=2)
    for partition in broker.topics["orders"]:
        fill(partition, range(20))
    async with Consumer([await served(broker)], "orders") as consumer:
        await poll_records(consumer, 1)
        consumer.pause(FIRST)
        before = await consumer.position(FIRST)
        others = await poll_records(consumer, 20 - (1 - before))
        assert {record.partition for record in others} == {1}
        assert await consumer.poll(timeout_ms=1) == []
        assert await consumer.position(FIRST) == before
        consumer.resume()
        assert offsets_of(await poll_records(consumer, 20 - before)) == list(range(before, 20))


async def test_a_deleted_offset_is_an_error_if_configured(served: Served) -> None:
    broker = FakeBroker(orders=1)
    partition = broker.topics["orders"][0]
    fill(partition, range(50))
    partition.start = 30
    async with Consumer([await served(broker)], "orders", auto_offset_reset="error") as consumer:
        with pytest.raises(OffsetOutOfRange, match="seek to an offset"):
            await consumer.poll()
        with pytest.raises(OffsetOutOfRange, match="seek to an offset"):
            await consumer.position(FIRST)
        consumer.seek(FIRST, 10)
        for _ in range(2):
            with pytest.raises(OffsetOutOfRange, match="orders/0") as raised:
                await consumer.poll()
            assert (raised.value.first, raised.value.end) == (30, 50)
        consumer.seek(FIRST, 30)
        assert offsets_of(await poll_records(consumer, 1)) == [30]


@pytest.mark.parametrize(("policy", "to"), [("earliest", 30), ("latest", 50)])
async def test_a_deleted_offset_is_reset_and_logged(served: Served, policy: str, to: int) -> None:
    broker = FakeBroker(orders=1)
    partition = broker.topics["orders"][0]
    fill(partition, range(50))
    told = []

    class Listener(RebalanceListener):
        async def on_reset(self, partition: TopicPartition, error: OffsetOutOfRange, offset: Offset) -> None:
            told.append((partition, error.first, offset))

    consumer = Consumer([await served(broker)], auto_offset_reset=policy)  # type: ignore[arg-type]
    async with consumer:
        consumer.subscribe(["orders"], listener=Listener())
        await consumer.poll(timeout_ms=1)
        await consumer.position(FIRST)
        partition.start = 30
        consumer.seek(FIRST, 10)
        records: list[ConsumerRecord] = []
        async with asyncio.timeout(20):
            while not told:
                records += await consumer.poll(timeout_ms=1)
        fill(partition, range(50, 51))
        assert offsets_of([*records, *await poll_records(consumer, 1)])[0] == to
    assert told == [(FIRST, 30, to)]


@pytest.mark.parametrize("begin", [50, 3])
def test_buffered_records_are_returned_before_other_reads(begin: int) -> None:
    partition = Partition(0)
    fill(partition, range(60))
    reading = FetchedRecords(FIRST, Offset(0))
    reading.accept(Fetched(b"".join(partition.batches[:2]), Offset(60), Offset(0)))
    assert offsets_of(reading.take(5)) == [0, 1, 2, 3, 4]
    reading.continue_at(Offset(begin))
    assert (reading.position, reading.next_fetch) == (5, begin)
    reading.accept(Fetched(partition.read(begin, 1), Offset(60), Offset(0)))
    assert offsets_of(reading.take(100)) == [*range(5, 20), *range(begin, begin // 10 * 10 + 10)]
    assert reading.position == reading.next_fetch


async def test_offsets_removed_by_compaction_are_skipped(served: Served) -> None:
    broker = FakeBroker(orders=1)
    partition = broker.topics["orders"][0]
    fill(partition, range(10))
    gap = build_control_batch(ControlKind.GAP, b"", 0, next_offset=Offset(10), offsets_spanned=15)
    partition.batches.append(bytes(gap))
    partition.end = 25
    fill(partition, range(25, 30))
    async with Consumer([await served(broker)], "orders") as consumer:
        assert offsets_of(await poll_records(consumer, 15)) == [*range(10), *range(25, 30)]
        consumer.seek(FIRST, 12)
        assert offsets_of(await poll_records(consumer, 1)) == [25]


async def test_a_damaged_batch_is_an_error_after_the_valid_ones(served: Served) -> None:
    broker = FakeBroker(orders=1)
    partition = broker.topics["orders"][0]
    fill(partition, range(20))
    partition.batches[1] = partition.batches[1][:-1] + b"?"
    async with Consumer([await served(broker)], "orders") as consumer:
        assert offsets_of(await poll_records(consumer, 10)) == list(range(10))
        with pytest.raises(InvalidBatch, match="offset 10"):
            await consumer.poll()


async def poll_until_undecodable(
    consumer: Consumer, after_each: Callable[[], None] = lambda: None
) -> tuple[list[int], UndecodableBatch]:
    """Poll until a batch cannot be decoded; return the offsets of the records before it, and the error."""
    found: list[int] = []
    async with asyncio.timeout(20):
        while True:
            try:
                found += offsets_of(await consumer.poll(5))
            except UndecodableBatch as error:
                return found, error
            after_each()


@pytest.mark.parametrize("sent", SMALL, ids=[each.name for each in SMALL])
async def test_an_undecodable_batch_is_an_error_until_the_reader_seeks(served: Served, sent: Undecodable) -> None:
    broker = FakeBroker(orders=1)
    partition = broker.topics["orders"][0]
    fill(partition, range(10))
    partition.append(sent.batch)
    partition.end = end = 10 + sent.span
    fill(partition, range(5))
    async with Consumer([await served(broker)], "orders") as consumer:
        before, error = await poll_until_undecodable(consumer)
        assert before == list(range(error.offset))
        assert (error.place, error.base_offset, error.next_offset) == (FIRST, 10, end)
        for _ in range(2):  # nothing is skipped by asking again
            with pytest.raises(UndecodableBatch):
                await consumer.poll()
        assert await consumer.position(FIRST) == error.offset
        consumer.seek(FIRST, error.next_offset)
        assert offsets_of(await poll_records(consumer, 5)) == list(range(end, end + 5))


async def test_an_undecodable_batch_is_not_hidden_by_a_busy_partition(served: Served) -> None:
    broker = FakeBroker(orders=2)
    busy, broken = broker.topics["orders"]
    broken.append(SMALL[0].batch)
    fill(busy, range(10))
    async with Consumer([await served(broker)], "orders") as consumer:
        _, error = await poll_until_undecodable(consumer, lambda: fill(busy, range(10)))
        assert error.place == ("orders", 1)


async def test_requests_to_failing_brokers_are_retried(served: Served) -> None:
    broker = FakeBroker(orders=1)
    fill(broker.topics["orders"][0], range(10))
    refusals = 3

    async def fail_some_requests(request: web.BaseRequest, parts: list[str], body: bytes) -> web.StreamResponse | None:
        nonlocal refusals
        if parts[-1] != "records" or not refusals:
            return None
        refusals -= 1
        return error_response("503 50302")

    broker.extra = fail_some_requests
    async with Consumer([await served(broker)], "orders") as consumer:
        assert offsets_of(await poll_records(consumer, 10)) == list(range(10))
    assert refusals == 0


async def test_a_topic_whose_description_is_not_available_yet_is_waited_for(served: Served) -> None:
    broker = FakeBroker(orders=1)
    fill(broker.topics["orders"][0], range(10))
    refusals = 2

    async def fail_descriptions(request: web.BaseRequest, parts: list[str], body: bytes) -> web.StreamResponse | None:
        nonlocal refusals
        if parts != ["topics", "orders"] or not refusals:
            return None
        refusals -= 1
        return error_response("503 50302")

    broker.extra = fail_descriptions
    async with Consumer([await served(broker)], "orders") as consumer:
        assert await consumer.poll(timeout_ms=1) == []
        assert offsets_of(await poll_records(consumer, 10)) == list(range(10))
    assert refusals == 0


async def test_another_address_is_used_when_one_is_down(served: Served, free_address: str) -> None:
    broker = FakeBroker(orders=1)
    fill(broker.topics["orders"][0], range(10))
    async with Consumer([free_address, await served(broker)], "orders") as consumer:
        assert offsets_of(await poll_records(consumer, 10)) == list(range(10))


async def test_a_pattern_matches_whole_names_and_finds_new_topics(served: Served) -> None:
    broker = FakeBroker(**{"log-a": 1, "my-log-a": 1})
    for partitions in broker.topics.values():
        fill(partitions[0], range(1))
    async with Consumer([await served(broker)], metadata_refresh_s=0.01) as consumer:
        consumer.subscribe(pattern="log-.*")
        assert {record.topic for record in await poll_records(consumer, 1)} == {"log-a"}
        broker.topics["log-b"] = [Partition(0)]
        fill(broker.topics["log-b"][0], range(5))
        assert {record.topic for record in await poll_records(consumer, 5)} == {"log-b"}


async def test_new_partitions_are_read_from_their_beginning(served: Served) -> None:
    broker = FakeBroker(orders=1)
    address = await served(broker)
    async with Consumer([address], "orders", auto_offset_reset="latest", metadata_refresh_s=0.01) as consumer:
        await consumer.poll(timeout_ms=1)
        await consumer.position(FIRST)
        broker.topics["orders"].append(Partition(1))
        fill(broker.topics["orders"][1], range(5))
        assert {record.partition for record in await poll_records(consumer, 5)} == {1}


async def test_no_more_records_are_buffered_than_prefetch_allows(served: Served) -> None:
    broker = FakeBroker(orders=4)
    for partition in broker.topics["orders"]:
        fill(partition, range(4000), batch=100)
    settings = {"prefetch_bytes": 8 * 16 * 1024, "fetch_bytes": 1 << 20}
    address = await served(broker)
    async with Consumer([address], "orders", **settings) as consumer, BrokerClient([address]) as client:
        await poll_records(consumer, 1)
        readings = consumer._fetcher.readings.values()
        await until(lambda: not any(reading.room.is_set() for reading in readings))
        before = broker.fetches
        for number in range(4):  # a fetch that began meanwhile would arrive before one of these
            await client.fetch_batches("orders", number, 0)
        assert broker.fetches == before + 4
        held = sum(reading.held_bytes for reading in readings)
        assert 0 < held <= 8 * 16 * 1024
        assert len(await poll_records(consumer, 15_999)) == 15_999


async def test_invalid_values_are_refused(served: Served) -> None:
    broker = FakeBroker(orders=1)
    address = await served(broker)
    for wrong in ({"auto_offset_reset": "maybe"}, {"assignors": ("best",)}, {"max_poll_records": 0}):
        with pytest.raises(InvalidArgument):
            Consumer([address], **wrong)  # type: ignore[arg-type]
    async with Consumer([address], "none") as consumer:
        with pytest.raises(UnknownTopic):
            await consumer.poll()
    async with Consumer([address], "orders") as consumer:
        with pytest.raises(InvalidArgument):
            await consumer.commit()
        with pytest.raises(InvalidArgument):
            await consumer.assign([FIRST])
        with pytest.raises(InvalidArgument):
            consumer.subscribe(["orders"], pattern=".*")
        with pytest.raises(InvalidArgument, match=re.escape("'('")):
            consumer.subscribe(pattern="(")
        with pytest.raises(UnknownPartition):
            await consumer.position(TopicPartition("orders", 9))
        with pytest.raises(InvalidArgument, match=re.escape("('orders', 0)")):
            consumer.seek("orders", 0)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match="after it"):
            consumer.seek_from_end(-1)
    with pytest.raises(LogClosed):
        await consumer.poll()
