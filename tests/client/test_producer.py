"""`Producer` with a fake broker that loses, refuses and reorders requests."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop
from aiohttp import web

from raftlog.client import Delivery, Producer
from raftlog.errors import (
    InvalidArgument,
    LogClosed,
    OutcomeUnknown,
    OutOfOrderSequence,
    RecordTooLarge,
    StorageFull,
    Unavailable,
    UnknownPartition,
    UnknownTopic,
)
from raftlog.records import BatchHeader, NewRecord, build_batch
from raftlog.records.partitioner import murmur2
from tests.client.conftest import Scripted
from tests.client.fake_broker import FakeBroker, Partition
from tests.client.fake_broker import serve_broker as serving_broker
from tests.waiting import until, until_async

Serving = Callable[..., Any]


@pytest.fixture
def serving(scripted: Scripted) -> Serving:
    """Return a context manager that serves a fake broker and opens a producer for it."""

    @asynccontextmanager
    async def start(broker: FakeBroker, **settings: Any) -> AsyncIterator[Producer]:
        broker.address = await scripted(broker.serve)
        async with Producer([broker.address], **settings) as producer:
            yield producer

    return start


class FaultAtBatch:
    """Fault of one batch, counted from 0 with repetitions; later batches have no fault."""

    def __init__(self, number: int, what: str) -> None:
        self._left, self._what = number, what

    async def __call__(self, partition: Partition, header: BatchHeader) -> str | None:
        self._left -= 1
        return self._what if self._left == -1 else None


async def send_values(producer: Producer, topic: str, values: range, **how: Any) -> list[Delivery]:
    return [await producer.send(topic, b"%d" % value, **how) for value in values]


def encode_values(values: range) -> list[bytes]:
    return [b"%d" % value for value in values]


async def test_a_record_is_delivered_with_all_fields(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    async with serving(broker) as producer:
        headers = [("h", b"1"), ("none", None)]
        first = await producer.send("orders", b"value", b"key", headers=headers, timestamp_ms=1234)
        second = await producer.send("orders", None)
        delivered = await first
        assert (delivered.topic, delivered.partition, delivered.offset, delivered.timestamp_ms) == (
            "orders",
            0,
            0,
            1234,
        )
        assert (await second).offset == 1
        assert first.outcome == "done"
    stored = broker.topics["orders"][0].records
    assert [(each.key, each.value, each.headers) for each in stored] == [
        (b"key", b"value", headers),
        (None, None, []),
    ]
    assert stored[0].timestamp == 1234


async def test_batches_are_sent_when_full_and_grow_up_to_the_limit_while_the_window_is_full(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    released, five = asyncio.Event(), asyncio.Event()

    async def hold_until_released(partition: Partition, header: BatchHeader) -> None:
        if len(broker.produces) == 5:
            five.set()
        await released.wait()

    broker.fault = hold_until_released
    async with serving(broker, batch_records=10) as producer:
        deliveries = await send_values(producer, "orders", range(300))
        await five.wait()
        assert [header.record_count for header in broker.produces] == [10] * 5
        released.set()
        assert [(await each).offset for each in deliveries] == list(range(300))
    assert [header.record_count for header in broker.produces] == [10] * 5 + [250]
    assert broker.topics["orders"][0].values == encode_values(range(300))


async def test_a_partial_batch_waits_for_the_one_before_but_at_most_linger(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    two = asyncio.Event()

    async def hold_first_batch(partition: Partition, header: BatchHeader) -> None:
        if len(broker.produces) == 2:
            two.set()
        await two.wait()

    broker.fault = hold_first_batch
    async with serving(broker, linger_ms=10) as producer:
        await producer.send("orders", b"0")
        await until(lambda: broker.produces)
        assert (await (await producer.send("orders", b"1"))).offset == 1


@pytest.mark.parametrize("what", ["refuse", "lose-request", "lose-answer", "504 50401", "429 42901"])
@pytest.mark.parametrize("number", [0, 2])
async def test_single_failures_cause_no_duplicate_and_no_gap(serving: Serving, what: str, number: int) -> None:
    broker = FakeBroker(orders=1)
    broker.fault = FaultAtBatch(number, what)
    async with serving(broker, batch_records=10) as producer:
        deliveries = []
        for first in range(0, 200, 10):
            deliveries += await send_values(producer, "orders", range(first, first + 10))
            await asyncio.sleep(0)
        offsets = [(await each).offset for each in deliveries]
    assert offsets == list(range(200)), "each record has the offset at which it stands"
    assert broker.topics["orders"][0].values == encode_values(range(200))
    assert broker.ids_given == 1


async def test_batches_that_overtake_are_resent_in_order(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    others = asyncio.Event()

    async def hold_first_batch(partition: Partition, header: BatchHeader) -> None:
        if len(broker.produces) == 5:
            others.set()
        if header.base_sequence == 0:
            await others.wait()

    broker.fault = hold_first_batch
    async with serving(broker, batch_records=10) as producer:
        deliveries = []
        for first in range(0, 50, 10):
            deliveries += await send_values(producer, "orders", range(first, first + 10))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert [(await each).offset for each in deliveries] == list(range(50))
    assert broker.topics["orders"][0].values == encode_values(range(50))
    assert len(broker.produces) > 5


async def test_without_idempotence_a_lost_answer_is_unknown_and_later_records_continue(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    broker.fault = FaultAtBatch(0, "lose-answer")
    async with serving(broker, idempotent=False) as producer:
        first = await producer.send("orders", b"0")
        with pytest.raises(OutcomeUnknown):
            await first
        assert first.outcome == "unknown"
        assert (await (await producer.send("orders", b"1"))).offset == 1
    assert [header.producer_id for header in broker.produces] == [-1, -1]


async def test_without_idempotence_one_batch_is_in_flight_and_refusals_keep_the_order(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    broker.fault = FaultAtBatch(1, "refuse")
    async with serving(broker, idempotent=False, batch_records=5) as producer:
        for first in range(0, 100, 5):
            await send_values(producer, "orders", range(first, first + 5))
            await asyncio.sleep(0)
        await producer.flush()
    assert broker.topics["orders"][0].values == encode_values(range(100))


async def test_a_definitely_refused_batch_fails_alone_and_later_ones_use_a_new_id(
    serving: Serving,
) -> None:
    broker = FakeBroker(orders=1)
    broker.fault = FaultAtBatch(1, "413 413")
    async with serving(broker, batch_records=10) as producer:
        deliveries = []
        for first in range(0, 40, 10):
            deliveries += await send_values(producer, "orders", range(first, first + 10))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        ends = await asyncio.gather(*deliveries, return_exceptions=True)
    failed = [number for number, end in enumerate(ends) if isinstance(end, BaseException)]
    assert failed == list(range(10, 20))
    assert isinstance(ends[10], RecordTooLarge)
    assert broker.topics["orders"][0].values == encode_values(range(10)) + encode_values(range(20, 40))
    assert broker.ids_given == 2


async def test_batches_possibly_stored_after_a_failure_are_unknown_and_others_continue(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    three = asyncio.Event()

    async def fail_batches(partition: Partition, header: BatchHeader) -> str | None:
        if len(broker.produces) == 3:
            three.set()
        if header.producer_id != 1 or len(broker.produces) > 3:
            return None
        await three.wait()
        return {0: "413 413", 10: "lose-request"}.get(header.base_sequence)

    broker.fault = fail_batches
    async with serving(broker, batch_records=10) as producer:
        deliveries = []
        for first in range(0, 30, 10):
            deliveries += await send_values(producer, "orders", range(first, first + 10))
            await asyncio.sleep(0)
        await asyncio.gather(*deliveries, return_exceptions=True)
    assert [each.outcome for each in deliveries] == ["failed"] * 10 + ["unknown"] * 10 + ["done"] * 10
    assert broker.topics["orders"][0].values == encode_values(range(20, 30))


async def test_an_out_of_order_sequence_fails_its_records_and_later_ones_continue(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    async with serving(broker) as producer:
        await (await producer.send("orders", b"0"))
        await (await producer.send("orders", b"1"))
        broker.topics["orders"][0].producers[1].pop()  # it forgot what it acknowledged
        lost = await producer.send("orders", b"2")
        with pytest.raises(OutOfOrderSequence):
            await lost
        assert (await (await producer.send("orders", b"3"))).offset == 2
    assert broker.produces[-1].producer_id == 2
    assert broker.produces[-1].base_sequence == 0


async def test_a_producer_id_that_the_partition_dropped_is_replaced(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    async with serving(broker) as producer:
        await (await producer.send("orders", b"0"))
        broker.topics["orders"][0].producers.clear()
        assert (await (await producer.send("orders", b"1"))).offset == 1
    assert broker.topics["orders"][0].values == [b"0", b"1"]


@pytest.mark.parametrize("what", ["lose-answer", "lose-request"])
async def test_a_retry_of_an_expired_producer_is_unknown_and_stored_once(serving: Serving, what: str) -> None:
    """The first batch is no exception: sequence 0 of an expired id does not begin a new producer."""
    broker = FakeBroker(orders=1)
    partition = broker.topics["orders"][0]

    async def expire(_: Partition, header: BatchHeader) -> str | None:
        if len(broker.produces) > 1:
            return None
        partition.expired.add(header.producer_id)
        if what == "lose-request":
            return what
        partition.expired.clear()
        assert partition.append(built) == 0
        partition.expired.add(header.producer_id)
        return "lose-request"

    built = bytes(build_batch([b"0"]))
    broker.fault = expire
    async with serving(broker) as producer:
        first = await producer.send("orders", b"0")
        with pytest.raises(OutcomeUnknown, match="may be stored"):
            await first
        later = await send_values(producer, "orders", range(1, 4))
        assert [(await each).offset for each in later] == list(range(len(partition.values) - 3, len(partition.values)))
    assert partition.values == ([b"0"] if what == "lose-answer" else []) + [b"1", b"2", b"3"]
    assert broker.produces[-1].producer_id == 1_001


async def test_other_partitions_keep_their_producer_id_when_one_gets_a_new_one(serving: Serving) -> None:
    broker = FakeBroker(orders=2)
    async with serving(broker) as producer:
        for partition in (0, 1):
            await (await producer.send("orders", b"a", partition=partition))
        broker.topics["orders"][0].producers.clear()
        for partition in (0, 1):
            await (await producer.send("orders", b"b", partition=partition))
    assert set(broker.topics["orders"][1].producers) == {1}
    assert set(broker.topics["orders"][0].producers) == {1_001}  # a fresh one


@pytest.mark.parametrize(("what", "kind"), [("refuse", Unavailable), ("lose-answer", OutcomeUnknown)])
async def test_a_delivery_fails_after_its_timeout_and_reports_its_state(
    serving: Serving, what: str, kind: type[Exception]
) -> None:
    broker = FakeBroker(orders=1)

    async def always_fail(partition: Partition, header: BatchHeader) -> str:
        return what

    broker.fault = always_fail
    async with serving(broker, delivery_timeout_ms=300) as producer:
        delivery = await producer.send("orders", b"0")
        with pytest.raises(kind, match="not acknowledged within 300 ms"):
            await delivery
        broker.fault = None
        assert (await (await producer.send("orders", b"1"))).topic == "orders"


async def test_send_waits_while_the_buffer_is_full(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    released = asyncio.Event()

    async def hold_until_released(partition: Partition, header: BatchHeader) -> None:
        await released.wait()

    broker.fault = hold_until_released
    async with serving(broker, buffer_records=20) as producer:
        deliveries = await send_values(producer, "orders", range(20))
        await until(lambda: broker.produces)
        waiting = asyncio.create_task(producer.send("orders", b"one more"))
        for _ in range(20):  # a record with room is accepted in the first turn of the loop
            await asyncio.sleep(0)
        assert not waiting.done()
        released.set()
        assert (await (await waiting)).offset == 20
        assert all(each.outcome == "done" for each in deliveries)


async def test_a_record_larger_than_the_buffer_is_accepted_alone(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    async with serving(broker, buffer_bytes=100) as producer:
        for _ in range(3):
            await producer.send("orders", b"x" * 500)
        await producer.flush()
    assert broker.topics["orders"][0].end == 3
    assert [header.record_count for header in broker.produces] == [1, 1, 1]


async def test_flush_raises_unobserved_errors_once(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    broker.fault = FaultAtBatch(0, "413 413")
    async with serving(broker) as producer:
        await send_values(producer, "orders", range(3))
        with pytest.raises(RecordTooLarge) as raised:
            await producer.flush()
        assert "3 records were not delivered" in raised.value.__notes__[0]
        await producer.flush()


async def test_close_reports_the_number_of_undelivered_records(scripted: Scripted) -> None:
    broker = FakeBroker(orders=1)
    arrived = asyncio.Event()

    async def never(partition: Partition, header: BatchHeader) -> None:
        arrived.set()
        await asyncio.Event().wait()

    broker.fault = never
    broker.address = await scripted(broker.serve)
    producer = Producer([broker.address], max_in_flight=1)
    under_way = await producer.send("orders", b"0")
    await arrived.wait()
    waiting = await producer.send("orders", b"1")
    with pytest.raises(OutcomeUnknown) as raised:
        await producer.close(0.0)
    assert "2 records were not delivered; of 1 of them" in raised.value.__notes__[0]
    assert (under_way.outcome, waiting.outcome) == ("unknown", "failed")
    with pytest.raises(LogClosed):
        await producer.send("orders", b"2")


async def test_keys_choose_partitions_like_kafka_and_records_without_keys_stay_together(serving: Serving) -> None:
    broker = FakeBroker(orders=4)
    async with serving(broker, batch_records=10, buffer_records=100) as producer:
        for key in (b"alice", b"bob", b"carol"):
            delivered = await (await producer.send("orders", b"v", key))
            assert delivered.partition == (murmur2(key) & 0x7FFFFFFF) % 4
        deliveries = await send_values(producer, "orders", range(40))
        places = [(await each).partition for each in deliveries]
    assert [places[first : first + 10] for first in range(0, 40, 10)] == [
        [partition] * 10 for partition in (0, 1, 2, 3)
    ]


async def test_new_partitions_are_used_after_a_metadata_refresh(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    async with serving(broker, metadata_refresh_s=0.01) as producer:
        await (await producer.send("orders", b"0"))
        broker.topics["orders"].append(Partition(1))

        async def is_sent() -> bool:
            try:
                await (await producer.send("orders", b"1", partition=1))
            except UnknownPartition:
                return False
            return True

        await until_async(is_sent)
    assert [partition.end for partition in broker.topics["orders"]] == [1, 1]


async def test_unsendable_records_are_refused_before_they_are_queued(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    broker.max_message_bytes = 1000
    async with serving(broker) as producer:
        with pytest.raises(UnknownTopic):
            await producer.send("none", b"0")
        with pytest.raises(UnknownPartition):
            await producer.send("orders", b"0", partition=1)
        with pytest.raises(InvalidArgument, match="partition is str '0'; give an int"):
            await producer.send("orders", b"0", partition="0")  # type: ignore[arg-type]
        with pytest.raises(RecordTooLarge):
            await producer.send("orders", b"0" * 1000)
        for wrong in ({"value": "text"}, {"key": "text"}, {"timestamp_ms": -1}, {"headers": [("h", "text")]}):
            with pytest.raises(InvalidArgument):
                await producer.send("orders", **{"value": b"", **wrong})
    assert broker.produces == []


@pytest.mark.parametrize(
    "settings",
    [
        {"acks": "2"},
        {"acks": "1"},
        {"compression": "rar"},
        {"partitioner": "random"},
        {"max_in_flight": 6},
        {"batch_records": 0},
        {"linger_ms": -1},
    ],
)
async def test_invalid_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        Producer(["127.0.0.1:1"], **settings)


async def test_the_next_address_is_used_when_the_first_is_down(scripted: Scripted, free_address: str) -> None:
    broker = FakeBroker(orders=1)
    broker.address = await scripted(broker.serve)
    async with Producer([free_address, broker.address]) as producer:
        assert (await (await producer.send("orders", b"0"))).offset == 0


async def test_a_full_disk_is_retried(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    broker.fault = FaultAtBatch(0, "507 50701")
    async with serving(broker) as producer:
        assert (await (await producer.send("orders", b"0"))).offset == 0
    assert issubclass(StorageFull, Unavailable)


async def test_a_lane_that_stops_at_failures_stores_nothing_after_one(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    broker.fault = FaultAtBatch(1, "413 413")
    async with serving(broker, batch_records=10, stops_at_failure=True) as producer:
        deliveries = []
        for first in range(0, 40, 10):
            deliveries += await send_values(producer, "orders", range(first, first + 10))
            await asyncio.sleep(0)
        ends = await asyncio.gather(*deliveries, return_exceptions=True)
        with pytest.raises(RecordTooLarge):
            await producer.send("orders", b"more")
    assert [isinstance(end, BaseException) for end in ends] == [False] * 10 + [True] * 30
    assert broker.topics["orders"][0].values == encode_values(range(10))


async def test_batches_are_sent_whole_and_split_if_they_do_not_fit(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    broker.max_message_bytes = 1000
    async with serving(broker) as producer:
        (delivery,) = await producer.send_batch("orders", 0, encode_values(range(10)))
        assert (await delivery).offset == 9
        records = [NewRecord(b"v", b"k", 1234, [("h", None)])] * 30
        deliveries = await producer.send_batch("orders", 0, records)
        assert [(await each).offset for each in deliveries][-1] == 39
        assert len(deliveries) > 1
        with pytest.raises(RecordTooLarge):
            await producer.send_batch("orders", 0, [b"x" * 1000])
    stored = broker.topics["orders"][0].records
    assert [record.value for record in stored[:10]] == encode_values(range(10))
    assert (stored[39].key, stored[39].timestamp, stored[39].headers) == (b"k", 1234, [("h", None)])


async def test_a_record_of_the_maximum_size_is_accepted(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    size = len(build_batch([b"x" * 500]))
    broker.max_message_bytes = size
    async with serving(broker) as producer:
        await (await producer.send("orders", b"x" * 500))
        with pytest.raises(RecordTooLarge, match=f"{size + 1} bytes"):
            await producer.send("orders", b"x" * 501)


async def test_a_wait_for_a_topic_fails_when_the_producer_closes(scripted: Scripted) -> None:
    asked = asyncio.Event()

    async def never(request: web.BaseRequest) -> web.StreamResponse:
        asked.set()
        await asyncio.Event().wait()
        return web.Response()

    producer = Producer([await scripted(never)])
    waiting = asyncio.create_task(producer.send("orders", b"0"))
    await asked.wait()
    await producer.close()
    with pytest.raises(LogClosed):
        await waiting


def test_a_producer_works_on_uvloop_without_linger() -> None:
    async def send() -> list[int]:
        broker = FakeBroker(orders=1)
        async with serving_broker(broker), Producer([broker.address], linger_ms=0) as producer:
            deliveries = await send_values(producer, "orders", range(500))
            return [(await each).offset for each in deliveries]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(send()) == list(range(500))


async def test_cancelling_a_wait_for_a_delivery_does_not_cancel_the_delivery(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    released = asyncio.Event()

    async def hold_until_released(partition: Partition, header: BatchHeader) -> None:
        await released.wait()

    broker.fault = hold_until_released
    async with serving(broker) as producer:
        delivery = await producer.send("orders", b"0")
        waiting = asyncio.ensure_future(asyncio.gather(delivery))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert delivery.outcome == "pending"
        released.set()
        assert (await delivery).offset == 0
