"""Outcomes of the lines that `raftlog produce` sends to a fake broker that loses requests on demand."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from raftlog.cli.outcome import CommandFailed
from raftlog.cli.produce.resume import ResumePoint
from raftlog.cli.produce.sender import LineSender
from raftlog.cli.produce.summary import Summary
from raftlog.client import Producer
from raftlog.errors import InvalidArgument, OutcomeUnknown, RaftlogError, RecordTooLarge, Unavailable
from raftlog.records import BatchHeader, NewRecord, build_batch
from tests.client.fake_broker import FakeBroker, Partition, serve_broker

BATCHES = ([b"a", b"b", b"c"], [b"d"], [b"e", b"f"])
ALL = [value for batch in BATCHES for value in batch]


@asynccontextmanager
async def open_sender(
    broker: FakeBroker, expected: ResumePoint | None = None, **settings: Any
) -> AsyncIterator[LineSender]:
    """Open a sender to topic `t` of a broker inside the block."""
    async with serve_broker(broker):
        producer = Producer([broker.address], **{"stops_at_failure": True, "buffer_records": 1 << 30, **settings})
        try:
            yield LineSender(producer, "t", 4, expected)
        finally:
            await asyncio.gather(producer.close(), return_exceptions=True)


def faults_from_batch(number: int, *what: str) -> Callable[[Partition, BatchHeader], Awaitable[str | None]]:
    """Return a function with these faults for consecutive batches from a number on; repetitions count too."""
    left = [None] * number + list(what)

    async def fault(partition: Partition, header: BatchHeader) -> str | None:
        return left.pop(0) if left else None

    return fault


async def send(to: LineSender, *batches: list[bytes], partition: int = 0) -> None:
    for batch in batches:
        await to.send(partition, batch, sum(map(len, batch)))
    await to.finish()


@pytest.mark.parametrize("what", ["lose-answer", "lose-request", "refuse", "504 50401"])
@pytest.mark.parametrize("expected", [None, ResumePoint([0], [0])])
async def test_temporary_failures_are_retried(what: str, expected: ResumePoint | None) -> None:
    broker = FakeBroker(t=1)
    broker.fault = faults_from_batch(1, what, what)
    async with open_sender(broker, expected) as to:
        await send(to, *BATCHES)
        assert (to.lanes[0].base, to.lanes[0].confirmed, to.lanes[0].sent) == (0, 6, 6)
    assert broker.topics["t"][0].values == ALL


async def test_without_idempotence_a_lost_answer_ends_sending() -> None:
    broker = FakeBroker(t=1)
    broker.fault = faults_from_batch(1, "lose-request")
    async with open_sender(broker, idempotent=False) as to:
        with pytest.raises(OutcomeUnknown):
            await send(to, *BATCHES)
        assert (to.lanes[0].confirmed, to.lanes[0].sent) == (3, 6)
    assert broker.topics["t"][0].values == ALL[:3]


@pytest.mark.parametrize("what", ["400 40002", "413 413"])
@pytest.mark.parametrize("is_idempotent", [True, False])
async def test_nothing_is_stored_after_a_definite_refusal(what: str, is_idempotent: bool) -> None:
    broker = FakeBroker(t=1)
    broker.fault = faults_from_batch(1, what)
    async with open_sender(broker, idempotent=is_idempotent) as to:
        with pytest.raises((InvalidArgument, RecordTooLarge)):
            await send(to, *BATCHES)
        with pytest.raises(RaftlogError):
            await to.send(0, [b"more"], 4)
        assert to.lanes[0].confirmed == 3
    assert broker.topics["t"][0].values == ALL[:3]


async def test_sending_fails_after_the_delivery_timeout() -> None:
    broker = FakeBroker(t=1)
    broker.fault = faults_from_batch(0, *["429 42901"] * 1000)
    async with open_sender(broker, delivery_timeout_ms=50) as to:
        with pytest.raises(Unavailable, match="not acknowledged within 50 ms"):
            await send(to, *BATCHES)
    assert broker.topics["t"][0].values == []


@pytest.mark.parametrize(
    ("fault", "is_idempotent", "text", "unconfirmed"),
    [
        (["507 50701"] * 1000, True, "0 records are confirmed, 6 are not stored.", 0),
        (
            [None, "lose-request"],
            False,
            "3 records are confirmed (partition 0: offsets 0 to 2), 1 more may be stored, 2 are not stored.",
            1,
        ),
        ([None, "413 413"], True, "3 records are confirmed (partition 0: offsets 0 to 2), 3 are not stored.", 0),
    ],
)
async def test_only_records_without_an_outcome_are_reported_as_possibly_stored(
    fault: list[str | None], is_idempotent: bool, text: str, unconfirmed: int
) -> None:
    broker = FakeBroker(t=1)

    async def fail(partition: Partition, header: BatchHeader) -> str | None:
        return fault.pop(0) if fault else None

    broker.fault = fail
    summary = Summary("t")
    async with open_sender(broker, idempotent=is_idempotent, delivery_timeout_ms=200) as to:
        summary.begin(to.lanes, None)
        with pytest.raises(RaftlogError):
            await send(to, *BATCHES)
    assert summary.confirmed_text() == text
    fields = summary.as_json("failed", "full")
    assert (fields["unconfirmed"], fields["refused"]) == (unconfirmed, 6 - fields["records"] - unconfirmed)


async def test_records_of_another_producer_are_detected_at_the_next_answer() -> None:
    broker = FakeBroker(t=1)
    async with open_sender(broker, ResumePoint([0], [0])) as to:
        await send(to, BATCHES[0])
        broker.topics["t"][0].append(bytes(build_batch([NewRecord(b"a stranger's")])))
        with pytest.raises(CommandFailed, match="is at offset 4, not at 3 as expected"):
            await send(to, BATCHES[1])


async def test_records_stored_by_an_earlier_run_count() -> None:
    broker = FakeBroker(t=1)
    broker.topics["t"][0].append(bytes(build_batch([b"before", b"a", b"b", b"c"])))
    async with open_sender(broker, ResumePoint([1], [3])) as to:
        await send(to, *BATCHES[1:])
        assert (to.lanes[0].base, to.lanes[0].confirmed) == (1, 6)


async def test_a_failed_partition_stops_the_others() -> None:
    broker = FakeBroker(t=2)
    broker.fault = faults_from_batch(0, "400 40002")
    async with open_sender(broker) as to:
        with pytest.raises(InvalidArgument):
            await send(to, [b"a"])
        with pytest.raises(InvalidArgument):
            await to.send(1, [b"b"], 1)
        with pytest.raises(InvalidArgument):
            await to.finish()
    assert broker.topics["t"][1].values == []


async def test_batches_are_halved_until_they_fit() -> None:
    broker = FakeBroker(t=1)
    broker.max_message_bytes = 300
    values = [b"%d" % number * 20 for number in range(50)]
    async with open_sender(broker) as to:
        await send(to, values)
        assert to.lanes[0].confirmed == 50
    assert broker.topics["t"][0].values == values
    async with open_sender(broker) as to:
        with pytest.raises(RecordTooLarge, match=r"max\.message\.bytes of topic t is 300"):
            await send(to, [b"x" * 300])
