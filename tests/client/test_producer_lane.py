"""`ProducerLane` alone, with a client whose answers the test controls."""

import asyncio
from typing import Any, NamedTuple

import pytest

from raftlog.client.answers import Produced, ProducerIdentity
from raftlog.client.producers.delivery import Delivery
from raftlog.client.producers.identities import Identities
from raftlog.client.producers.producer_lane import SEQUENCES, ProducerLane
from raftlog.client.producers.producer_settings import SEQUENCE_WINDOW, ProducerSettings
from raftlog.errors import DuplicateSequence, InvalidBatch, OutcomeUnknown, RaftlogError, Unavailable, UnknownProducer
from raftlog.records import BatchHeader, read_header
from raftlog.types import Offset, TopicPartition

PLACE = TopicPartition("orders", 0)
SETTINGS: dict[str, Any] = {
    "acks": "all",
    "idempotent": True,
    "compression": "none",
    "partitioner": "murmur2",
    "linger_ms": 0,
    "batch_records": 100,
    "batch_bytes": 40,
    "buffer_records": 1000,
    "buffer_bytes": 1_000_000,
    "max_in_flight": SEQUENCE_WINDOW,
    "request_timeout_ms": 10_000,
    "delivery_timeout_ms": 60_000,
    "stops_at_failure": False,
    "metadata_refresh_s": 60,
}


class Request(NamedTuple):
    """Batch that the lane sent, with the future of its answer."""

    header: BatchHeader
    answer: "asyncio.Future[Produced]"

    def answer_stored(self) -> None:
        base = Offset(self.header.base_sequence)
        self.answer.set_result(Produced(base, Offset(base + self.header.record_count)))

    def answer_error(self, error: RaftlogError) -> None:
        self.answer.set_exception(error)


class Client:
    """Client that records requests in the order of sending; its producer ids ascend from 1."""

    def __init__(self) -> None:
        self.requests: asyncio.Queue[Request] = asyncio.Queue()
        self._ids_given = 0

    async def produce_batches(self, topic: str, partition: int, body: bytearray, **_: Any) -> Produced:
        request = Request(read_header(body), asyncio.get_running_loop().create_future())
        self.requests.put_nowait(request)
        return await request.answer

    async def new_producer(self, *, is_fresh: bool, timeout_ms: int) -> ProducerIdentity:
        self._ids_given += 1
        return ProducerIdentity(self._ids_given, 0)


class LaneWithClient:
    """Lane with its client."""

    def __init__(self, **settings: Any) -> None:
        self.client: Any = Client()
        self._identities = Identities(self.client, 1_000)
        checked = ProducerSettings(**{**SETTINGS, **settings})
        self.lane = ProducerLane(PLACE, self.client, checked, self._identities, checked.batch_bytes, lambda batch: None)

    async def add(self, count: int) -> list[Delivery]:
        """Send `count` records, each as large as a batch may be by default."""
        await self._identities.wait_for_id()
        return [self.lane.add(b"%d" % number, None, 0, [], SETTINGS["batch_bytes"]) for number in range(count)]

    async def next_requests(self, count: int) -> list[Request]:
        """Return the next `count` requests; check that there are no more."""
        async with asyncio.timeout(10):
            requests = [await self.client.requests.get() for _ in range(count)]
        for _ in range(5):  # turns in which a further one would leave
            await asyncio.sleep(0)
        assert self.client.requests.empty()
        return requests


async def wait_for_results(*deliveries: Delivery) -> list[object]:
    async with asyncio.timeout(10):
        return await asyncio.gather(*deliveries, return_exceptions=True)


async def test_answered_batches_after_an_unanswered_one_stay_in_the_window() -> None:
    """The broker keeps the last five batches of a producer: a sixth would displace the first before its retry."""
    bench = LaneWithClient()
    deliveries = await bench.add(SEQUENCE_WINDOW + 1)
    first, *others = await bench.next_requests(SEQUENCE_WINDOW)
    for request in others:
        request.answer_stored()
    await bench.next_requests(0)
    first.answer_stored()
    (last,) = await bench.next_requests(1)
    last.answer_stored()
    assert [end.offset for end in await wait_for_results(*deliveries)] == list(range(SEQUENCE_WINDOW + 1))  # type: ignore[attr-defined]


async def test_a_duplicate_without_its_offset_is_unknown_and_not_resent() -> None:
    bench = LaneWithClient()
    deliveries = await bench.add(1)
    (request,) = await bench.next_requests(1)
    request.answer_error(DuplicateSequence("stored, and nobody knows where"))
    (end,) = await wait_for_results(*deliveries)
    assert isinstance(end, DuplicateSequence)
    await bench.next_requests(0)


@pytest.mark.parametrize("is_lost", [False, True])
async def test_after_the_producer_expired_only_certainly_unstored_records_are_resent(is_lost: bool) -> None:
    bench = LaneWithClient()
    deliveries = await bench.add(1)
    (request,) = await bench.next_requests(1)
    # An unknown producer may be one whose first batch was overtaken: that much is tried once more.
    request.answer_error(OutcomeUnknown("the answer was lost") if is_lost else UnknownProducer("expired"))
    (request,) = await bench.next_requests(1)
    assert request.header.producer_id == 1
    request.answer_error(UnknownProducer("expired"))
    if not is_lost:
        (again,) = await bench.next_requests(1)
        assert (again.header.producer_id, again.header.base_sequence) == (2, 0)
        again.answer_stored()
    (end,) = await wait_for_results(*deliveries)
    assert isinstance(end, OutcomeUnknown) == is_lost
    await bench.add(1)
    (following,) = await bench.next_requests(1)
    assert (following.header.producer_id, following.header.base_sequence) == (2, 0 if is_lost else 1)


async def test_sequences_wrap_around_after_the_maximum() -> None:
    bench = LaneWithClient(batch_bytes=2 * SETTINGS["batch_bytes"])
    await bench.add(2)
    (request,) = await bench.next_requests(1)
    request.answer_stored()
    bench.lane._next_sequence = SEQUENCES - 1
    deliveries = await bench.add(4)
    requests = await bench.next_requests(2)
    assert [request.header.base_sequence for request in requests] == [SEQUENCES - 1, 1]
    for request in requests:
        request.answer_stored()
    await wait_for_results(*deliveries)


async def test_a_stopping_lane_cancels_its_requests_and_reports_possibly_stored_records() -> None:
    bench = LaneWithClient(stops_at_failure=True)
    deliveries = await bench.add(SEQUENCE_WINDOW + 1)  # the last one waits for the window
    first, second, *others = await bench.next_requests(SEQUENCE_WINDOW)
    second.answer_error(OutcomeUnknown("the answer was lost"))
    for request in others:
        request.answer_error(Unavailable("no leader"))
    error = InvalidBatch("damaged on its way")
    first.answer_error(error)
    failed, lost, *rest = await wait_for_results(*deliveries)
    assert failed is error
    assert isinstance(lost, OutcomeUnknown)
    assert [type(each) for each in rest] == [Unavailable] * 4
    assert bench.lane.failure is error
    assert bench.lane.open_batch is None
    await bench.next_requests(0)
