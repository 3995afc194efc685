"""`Producer` against a broker that loses, refuses and reorders."""

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
from tests.client.fake_broker import serving as serving_broker

Serving = Callable[..., Any]


@pytest.fixture
def serving(scripted: Scripted) -> Serving:
    """Start a broker with these topics, and a producer that sends to it."""

    @asynccontextmanager
    async def start(broker: FakeBroker, **settings: Any) -> AsyncIterator[Producer]:
        broker.address = await scripted(broker.serve)
        async with Producer([broker.address], **settings) as producer:
            yield producer

    return start


class Once:
    """A fault that happens to the batch of a number, counted from 0, and to no repetition."""

    def __init__(self, number: int, what: str) -> None:
        self._left, self._what = number, what

    async def __call__(self, partition: Partition, header: BatchHeader) -> str | None:
        self._left -= 1
        return self._what if self._left == -1 else None


async def sent(producer: Producer, topic: str, values: range, **how: Any) -> list[Delivery]:
    return [await producer.send(topic, b"%d" % value, **how) for value in values]


def expected(values: range) -> list[bytes]:
    return [b"%d" % value for value in values]


async def test_a_record_is_delivered_with_all_that_it_has(serving: Serving) -> None:
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


async def test_batches_leave_when_full_grow_while_the_window_is_full_and_never_exceed_it(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    released, five = asyncio.Event(), asyncio.Event()

    async def hold(partition: Partition, header: BatchHeader) -> None:
        if len(broker.produces) == 5:
            five.set()
        await released.wait()

    broker.fault = hold
    async with serving(broker, batch_records=10) as producer:
        deliveries = await sent(producer, "orders", range(300))
        await five.wait()
        assert [header.record_count for header in broker.produces] == [10] * 5
        released.set()
        assert [(await each).offset for each in deliveries] == list(range(300))
    assert [header.record_count for header in broker.produces] == [10] * 5 + [250]
    assert broker.topics["orders"][0].values == expected(range(300))


async def test_a_batch_that_is_not_full_waits_for_the_one_before_and_no_longer_than_it_may(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    two = asyncio.Event()

    async def hold_the_first(partition: Partition, header: BatchHeader) -> None:
        if len(broker.produces) == 2:
            two.set()
        await two.wait()

    broker.fault = hold_the_first
    async with serving(broker, linger_ms=10) as producer:
        await producer.send("orders", b"0")
        while not broker.produces:
            await asyncio.sleep(0.001)
        assert (await (await producer.send("orders", b"1"))).offset == 1


@pytest.mark.parametrize("what", ["refuse", "lose-request", "lose-answer", "504 50401", "429 42901"])
@pytest.mark.parametrize("number", [0, 2])
async def test_single_failures_are_repaired_without_a_duplicate_or_a_gap(
    serving: Serving, what: str, number: int
) -> None:
    broker = FakeBroker(orders=1)
    broker.fault = Once(number, what)
    async with serving(broker, batch_records=10) as producer:
        deliveries = []
        for first in range(0, 200, 10):
            deliveries += await sent(producer, "orders", range(first, first + 10))
            await asyncio.sleep(0)
        offsets = [(await each).offset for each in deliveries]
    assert offsets == list(range(200)), "each record has the offset at which it stands"
    assert broker.topics["orders"][0].values == expected(range(200))
    assert broker.ids_given == 1


async def test_batches_that_overtake_are_sent_again_behind_the_one_before(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    others = asyncio.Event()

    async def hold_the_first(partition: Partition, header: BatchHeader) -> None:
        if len(broker.produces) == 5:
            others.set()
        if header.base_sequence == 0:
            await others.wait()

    broker.fault = hold_the_first
    async with serving(broker, batch_records=10) as producer:
        deliveries = []
        for first in range(0, 50, 10):
            deliveries += await sent(producer, "orders", range(first, first + 10))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert [(await each).offset for each in deliveries] == list(range(50))
    assert broker.topics["orders"][0].values == expected(range(50))
    assert len(broker.produces) > 5


async def test_without_idempotence_a_lost_answer_is_unknown_and_what_follows_goes_on(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    broker.fault = Once(0, "lose-answer")
    async with serving(broker, idempotent=False) as producer:
        first = await producer.send("orders", b"0")
        with pytest.raises(OutcomeUnknown):
            await first
        assert first.outcome == "unknown"
        assert (await (await producer.send("orders", b"1"))).offset == 1
    assert [header.producer_id for header in broker.produces] == [-1, -1]


async def test_without_idempotence_one_batch_is_under_way_and_refusals_keep_the_order(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    broker.fault = Once(1, "refuse")
    async with serving(broker, idempotent=False, batch_records=5) as producer:
        for first in range(0, 100, 5):
            await sent(producer, "orders", range(first, first + 5))
            await asyncio.sleep(0)
        await producer.flush()
    assert broker.topics["orders"][0].values == expected(range(100))


async def test_a_batch_that_is_refused_for_good_fails_alone_and_the_next_go_on_under_a_new_id(
    serving: Serving,
) -> None:
    broker = FakeBroker(orders=1)
    broker.fault = Once(1, "413 413")
    async with serving(broker, batch_records=10) as producer:
        deliveries = []
        for first in range(0, 40, 10):
            deliveries += await sent(producer, "orders", range(first, first + 10))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        ends = await asyncio.gather(*deliveries, return_exceptions=True)
    failed = [number for number, end in enumerate(ends) if isinstance(end, BaseException)]
    assert failed == list(range(10, 20))
    assert isinstance(ends[10], RecordTooLarge)
    assert broker.topics["orders"][0].values == expected(range(10)) + expected(range(20, 40))
    assert broker.ids_given == 2


async def test_batches_possibly_stored_behind_a_failure_are_unknown_and_others_continue(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    three = asyncio.Event()

    async def trouble(partition: Partition, header: BatchHeader) -> str | None:
        if len(broker.produces) == 3:
            three.set()
        if header.producer_id != 1 or len(broker.produces) > 3:
            return None
        await three.wait()
        return {0: "413 413", 10: "lose-request"}.get(header.base_sequence)

    broker.fault = trouble
    async with serving(broker, batch_records=10) as producer:
        deliveries = []
        for first in range(0, 30, 10):
            deliveries += await sent(producer, "orders", range(first, first + 10))
            await asyncio.sleep(0)
        await asyncio.gather(*deliveries, return_exceptions=True)
    assert [each.outcome for each in deliveries] == ["failed"] * 10 + ["unknown"] * 10 + ["done"] * 10
    assert broker.topics["orders"][0].values == expected(range(20, 30))


async def test_a_sequence_that_jumps_fails_what_is_affected_and_later_records_go_on(serving: Serving) -> None:
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


async def test_a_producer_that_the_partition_forgot_goes_on_under_a_new_id(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    async with serving(broker) as producer:
        await (await producer.send("orders", b"0"))
        broker.topics["orders"][0].producers.clear()
        assert (await (await producer.send("orders", b"1"))).offset == 1
    assert broker.topics["orders"][0].values == [b"0", b"1"]


@pytest.mark.parametrize("what", ["lose-answer", "lose-request"])
async def test_a_retry_of_an_expired_producer_is_unknown_and_stored_once(serving: Serving, what: str) -> None:
    """Also its first batch: sequence 0 of an expired id is no new producer's."""
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
        later = await sent(producer, "orders", range(1, 4))
        assert [(await each).offset for each in later] == list(range(len(partition.values) - 3, len(partition.values)))
    assert partition.values == ([b"0"] if what == "lose-answer" else []) + [b"1", b"2", b"3"]
    assert broker.produces[-1].producer_id == 1_001


async def test_other_partitions_keep_their_id_when_one_takes_a_new_one(serving: Serving) -> None:
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
async def test_delivery_ends_in_time_and_reports_its_state(serving: Serving, what: str, kind: type[Exception]) -> None:
    broker = FakeBroker(orders=1)

    async def always(partition: Partition, header: BatchHeader) -> str:
        return what

    broker.fault = always
    async with serving(broker, delivery_timeout_ms=300) as producer:
        delivery = await producer.send("orders", b"0")
        with pytest.raises(kind, match="not acknowledged within 300 ms"):
            await delivery
        broker.fault = None
        assert (await (await producer.send("orders", b"1"))).topic == "orders"


async def test_send_waits_while_the_buffer_is_full(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    released = asyncio.Event()

    async def hold(partition: Partition, header: BatchHeader) -> None:
        await released.wait()

    broker.fault = hold
    async with serving(broker, buffer_records=20) as producer:
        deliveries = await sent(producer, "orders", range(20))
        waiting = asyncio.create_task(producer.send("orders", b"one more"))
        done, _ = await asyncio.wait([waiting], timeout=0.05)
        assert not done
        released.set()
        assert (await (await waiting)).offset == 20
        assert all(each.outcome == "done" for each in deliveries)


async def test_bytes_bound_the_buffer_too_but_never_lock_a_single_record_out(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    async with serving(broker, buffer_bytes=100) as producer:
        for _ in range(3):
            await producer.send("orders", b"x" * 500)
        await producer.flush()
    assert broker.topics["orders"][0].end == 3
    assert [header.record_count for header in broker.produces] == [1, 1, 1]


async def test_flush_raises_unobserved_errors_once(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    broker.fault = Once(0, "413 413")
    async with serving(broker) as producer:
        await sent(producer, "orders", range(3))
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


async def test_keys_choose_as_kafka_does_and_records_without_stay_together(serving: Serving) -> None:
    broker = FakeBroker(orders=4)
    async with serving(broker, batch_records=10, buffer_records=100) as producer:
        for key in (b"alice", b"bob", b"carol"):
            delivered = await (await producer.send("orders", b"v", key))
            assert delivered.partition == (murmur2(key) & 0x7FFFFFFF) % 4
        deliveries = await sent(producer, "orders", range(40))
        places = [(await each).partition for each in deliveries]
    assert [places[first : first + 10] for first in range(0, 40, 10)] == [
        [partition] * 10 for partition in (0, 1, 2, 3)
    ]


async def test_new_partitions_are_used_after_a_refresh(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    async with serving(broker, metadata_refresh_s=0.01) as producer:
        await (await producer.send("orders", b"0"))
        broker.topics["orders"].append(Partition(1))
        async with asyncio.timeout(10):
            while True:
                try:
                    await (await producer.send("orders", b"1", partition=1))
                except UnknownPartition:
                    await asyncio.sleep(0.01)
                else:
                    break


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
async def test_settings_that_cannot_be_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        Producer(["127.0.0.1:1"], **settings)


async def test_the_next_address_is_asked_when_the_first_is_away(scripted: Scripted, free_address: str) -> None:
    broker = FakeBroker(orders=1)
    broker.address = await scripted(broker.serve)
    async with Producer([free_address, broker.address]) as producer:
        assert (await (await producer.send("orders", b"0"))).offset == 0


async def test_a_full_disk_is_waited_out(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    broker.fault = Once(0, "507 50701")
    async with serving(broker) as producer:
        assert (await (await producer.send("orders", b"0"))).offset == 0
    assert issubclass(StorageFull, Unavailable)


async def test_a_lane_that_stops_at_failures_stores_nothing_behind_one(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    broker.fault = Once(1, "413 413")
    async with serving(broker, batch_records=10, stops_at_failure=True) as producer:
        deliveries = []
        for first in range(0, 40, 10):
            deliveries += await sent(producer, "orders", range(first, first + 10))
            await asyncio.sleep(0)
        ends = await asyncio.gather(*deliveries, return_exceptions=True)
        with pytest.raises(RecordTooLarge):
            await producer.send("orders", b"more")
    assert [isinstance(end, BaseException) for end in ends] == [False] * 10 + [True] * 30
    assert broker.topics["orders"][0].values == expected(range(10))


async def test_batches_are_taken_whole_and_split_where_they_do_not_fit(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    broker.max_message_bytes = 1000
    async with serving(broker) as producer:
        (delivery,) = await producer.send_batch("orders", 0, expected(range(10)))
        assert (await delivery).offset == 9
        records = [NewRecord(b"v", b"k", 1234, [("h", None)])] * 30
        deliveries = await producer.send_batch("orders", 0, records)
        assert [(await each).offset for each in deliveries][-1] == 39
        assert len(deliveries) > 1
        with pytest.raises(RecordTooLarge):
            await producer.send_batch("orders", 0, [b"x" * 1000])
    stored = broker.topics["orders"][0].records
    assert [record.value for record in stored[:10]] == expected(range(10))
    assert (stored[39].key, stored[39].timestamp, stored[39].headers) == (b"k", 1234, [("h", None)])


async def test_a_record_that_just_fits_is_taken(serving: Serving) -> None:
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


def test_a_producer_works_on_uvloop_without_any_linger() -> None:
    async def send() -> list[int]:
        broker = FakeBroker(orders=1)
        async with serving_broker(broker), Producer([broker.address], linger_ms=0) as producer:
            deliveries = await sent(producer, "orders", range(500))
            return [(await each).offset for each in deliveries]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(send()) == list(range(500))


async def test_a_cancelled_wait_for_a_delivery_does_not_end_it(serving: Serving) -> None:
    broker = FakeBroker(orders=1)
    released = asyncio.Event()

    async def hold(partition: Partition, header: BatchHeader) -> None:
        await released.wait()

    broker.fault = hold
    async with serving(broker) as producer:
        delivery = await producer.send("orders", b"0")
        waiting = asyncio.ensure_future(asyncio.gather(delivery))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert delivery.outcome == "pending"
        released.set()
        assert (await delivery).offset == 0
