"""`ProducerLane` alone, with a client that answers under the control of the test."""

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
    """A batch that the lane sent, and its answer."""

    header: BatchHeader
    answer: "asyncio.Future[Produced]"

    def stored(self) -> None:
        base = Offset(self.header.base_sequence)
        self.answer.set_result(Produced(base, Offset(base + self.header.record_count)))

    def failed(self, error: RaftlogError) -> None:
        self.answer.set_exception(error)


class Client:
    """Requests in the order in which the lane sends them; producer ids ascend from 1."""

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


class Bench:
    """A lane and its client."""

    def __init__(self, **settings: Any) -> None:
        self.client: Any = Client()
        self._identities = Identities(self.client, 1_000)
        checked = ProducerSettings(**{**SETTINGS, **settings})
        self.lane = ProducerLane(PLACE, self.client, checked, self._identities, checked.batch_bytes, lambda batch: None)

    async def add(self, count: int) -> list[Delivery]:
        """Send so many records, each as large as a batch may be by default."""
        await self._identities.have()
        return [self.lane.add(b"%d" % number, None, 0, [], SETTINGS["batch_bytes"]) for number in range(count)]

    async def sent(self, count: int) -> list[Request]:
        """Return the next requests; check that there are no more."""
        async with asyncio.timeout(10):
            requests = [await self.client.requests.get() for _ in range(count)]
        for _ in range(5):  # turns in which a further one would leave
            await asyncio.sleep(0)
        assert self.client.requests.empty()
        return requests


async def ended(*deliveries: Delivery) -> list[object]:
    async with asyncio.timeout(10):
        return await asyncio.gather(*deliveries, return_exceptions=True)


async def test_the_window_counts_answered_batches_behind_one_that_is_not() -> None:
    """The broker stores the last five batches of a producer: a sixth would push the first out before its repetition."""
    bench = Bench()
    deliveries = await bench.add(SEQUENCE_WINDOW + 1)
    first, *others = await bench.sent(SEQUENCE_WINDOW)
    for request in others:
        request.stored()
    await bench.sent(0)
    first.stored()
    (last,) = await bench.sent(1)
    last.stored()
    assert [end.offset for end in await ended(*deliveries)] == list(range(SEQUENCE_WINDOW + 1))  # type: ignore[attr-defined]


async def test_a_duplicate_without_its_offset_ends_as_unknown_and_is_not_sent_again() -> None:
    bench = Bench()
    deliveries = await bench.add(1)
    (request,) = await bench.sent(1)
    request.failed(DuplicateSequence("stored, and nobody knows where"))
    (end,) = await ended(*deliveries)
    assert isinstance(end, DuplicateSequence)
    await bench.sent(0)


@pytest.mark.parametrize("is_lost", [False, True])
async def test_of_an_expired_producer_only_what_is_certainly_not_stored_is_sent_again(is_lost: bool) -> None:
    bench = Bench()
    deliveries = await bench.add(1)
    (request,) = await bench.sent(1)
    # An unknown producer may be one whose first batch was overtaken: that much is tried once more.
    request.failed(OutcomeUnknown("the answer was lost") if is_lost else UnknownProducer("expired"))
    (request,) = await bench.sent(1)
    assert request.header.producer_id == 1
    request.failed(UnknownProducer("expired"))
    if not is_lost:
        (again,) = await bench.sent(1)
        assert (again.header.producer_id, again.header.base_sequence) == (2, 0)
        again.stored()
    (end,) = await ended(*deliveries)
    assert isinstance(end, OutcomeUnknown) == is_lost
    await bench.add(1)
    (following,) = await bench.sent(1)
    assert (following.header.producer_id, following.header.base_sequence) == (2, 0 if is_lost else 1)


async def test_sequences_begin_anew_behind_the_greatest() -> None:
    bench = Bench(batch_bytes=2 * SETTINGS["batch_bytes"])
    await bench.add(2)
    (request,) = await bench.sent(1)
    request.stored()
    bench.lane._next_sequence = SEQUENCES - 1
    deliveries = await bench.add(4)
    requests = await bench.sent(2)
    assert [request.header.base_sequence for request in requests] == [SEQUENCES - 1, 1]
    for request in requests:
        request.stored()
    await ended(*deliveries)


async def test_a_stopping_lane_ends_its_requests_and_reports_those_that_may_be_stored() -> None:
    bench = Bench(stops_at_failure=True)
    deliveries = await bench.add(SEQUENCE_WINDOW + 1)  # the last one waits for the window
    first, second, *others = await bench.sent(SEQUENCE_WINDOW)
    second.failed(OutcomeUnknown("the answer was lost"))
    for request in others:
        request.failed(Unavailable("no leader"))
    error = InvalidBatch("damaged on its way")
    first.failed(error)
    failed, lost, *rest = await ended(*deliveries)
    assert failed is error
    assert isinstance(lost, OutcomeUnknown)
    assert [type(each) for each in rest] == [Unavailable] * 4
    assert bench.lane.failure is error
    assert bench.lane.open_batch is None
    await bench.sent(0)
