"""`HandlerLoop` with a real broker: retries, dead letters, order, commits, rebalances."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from raftlog.client import (
    BrokerClient,
    Consumer,
    ConsumerRecord,
    HandlerFailed,
    HandlerLoop,
    Producer,
    RejectRecord,
    deserialize_json,
)
from raftlog.client.consumers.handled_offsets import HandledOffsets
from raftlog.errors import InvalidArgument
from raftlog.types import Offset, TopicPartition
from tests.waiting import until

FIRST = TopicPartition("orders", 0)
HANDLING_S = 0.002
"""Time of a handler, so that handlers run while members join and leave."""


async def store(live: str, *records: tuple[bytes | None, bytes | None], partitions: int = 1) -> None:
    """Create the topic and produce records from pairs of key and value."""
    async with BrokerClient(live) as client:
        await client.create_topic("orders", partitions)
    async with Producer(live) as producer:
        for key, value in records:
            await producer.send("orders", value, key)


@asynccontextmanager
async def run_loop(loop: HandlerLoop[Any, Any]) -> AsyncIterator[asyncio.Task[None]]:
    """Run the loop inside the block."""
    async with loop:
        task = asyncio.create_task(loop.run())
        try:
            yield task
        finally:
            loop.stop()
            await asyncio.gather(task, return_exceptions=True)


async def fetch_committed(live: str) -> int:
    async with BrokerClient(live) as client:
        found = await client.groups.committed("billing")
    return found[FIRST].offset if FIRST in found else 0


async def test_each_record_is_handled_and_committed(live: str) -> None:
    await store(live, *((b"%d" % number, b"%d" % number) for number in range(300)))
    seen: list[bytes | None] = []

    async def handle(record: ConsumerRecord) -> None:
        seen.append(record.value)

    async with run_loop(HandlerLoop(live, "orders", group="billing", handler=handle)):
        await until(lambda: len(seen) == 300)
    assert sorted(seen) == sorted(b"%d" % number for number in range(300))
    assert await fetch_committed(live) == 300


async def test_a_plain_function_runs_in_a_thread_and_records_may_be_filtered(live: str) -> None:
    await store(live, (None, b"1"), (None, b"2"), (None, b"3"))
    seen: list[int | None] = []
    loop: HandlerLoop[bytes, int] = HandlerLoop(
        live,
        "orders",
        group="billing",
        handler=lambda record: seen.append(record.value),
        value_deserializer=int,
        where=lambda record: record.value != 2,
    )
    async with run_loop(loop):
        await until(lambda: len(seen) == 2)
    assert sorted(seen) == [1, 3]
    assert await fetch_committed(live) == 3


async def test_a_failing_record_is_retried_and_its_key_waits(live: str) -> None:
    await store(live, (b"a", b"1"), (b"a", b"2"), (b"b", b"3"))
    seen: list[bytes | None] = []
    attempts = 0

    async def handle(record: ConsumerRecord) -> None:
        nonlocal attempts
        if record.value == b"1":
            attempts += 1
            if attempts < 3:
                raise ValueError("not yet")
        seen.append(record.value)

    async with run_loop(HandlerLoop(live, "orders", group="billing", handler=handle)):
        await until(lambda: len(seen) == 3)
    assert seen == [b"3", b"1", b"2"]
    assert attempts == 3


@pytest.mark.parametrize(("order", "expected"), [("partition", [b"1", b"2", b"3"]), ("none", [b"2", b"3", b"1"])])
async def test_records_are_handled_in_the_configured_order(live: str, order: Any, expected: list[bytes]) -> None:
    await store(live, (b"a", b"1"), (b"a", b"2"), (b"b", b"3"))
    seen: list[bytes | None] = []
    has_failed = False

    async def handle(record: ConsumerRecord) -> None:
        nonlocal has_failed
        if record.value == b"1" and not has_failed:
            has_failed = True
            raise ValueError("not yet")
        seen.append(record.value)

    async with run_loop(HandlerLoop(live, "orders", group="billing", handler=handle, order=order)):
        await until(lambda: len(seen) == 3)
    assert seen == expected


async def test_dead_letters_name_the_place_of_the_record(live: str) -> None:
    await store(live, (b"a", b"{"), (b"a", b"2"), (b"b", b"3"), (b"c", b"4"))
    async with BrokerClient(live) as client:
        await client.create_topic("orders-dead", 1)
    seen: list[int | None] = []

    async def handle(record: ConsumerRecord[bytes, int]) -> None:
        if record.value == 2:
            raise ValueError("never")
        if record.value == 3:
            raise RejectRecord("a duplicate")
        seen.append(record.value)

    loop: HandlerLoop[bytes, int] = HandlerLoop(
        live,
        "orders",
        group="billing",
        handler=handle,
        attempts=2,
        dead_letter_topic="orders-dead",
        value_deserializer=deserialize_json,
    )
    dead: list[ConsumerRecord] = []
    async with run_loop(loop), Consumer(live, "orders-dead") as consumer:
        while len(dead) < 3:
            dead += await consumer.poll()
        await until(lambda: seen == [4])
    by_value = {record.value: dict(record.headers) for record in dead}
    assert set(by_value) == {b"{", b"2", b"3"}
    headers = {name.removeprefix("raftlog.dead-letter."): value for name, value in by_value[b"2"].items()}
    assert headers == {
        "topic": b"orders",
        "partition": b"0",
        "offset": b"1",
        "attempts": b"2",
        "error": b"ValueError: never",
    }
    assert by_value[b"3"]["raftlog.dead-letter.attempts"] == b"1"
    assert b"DeserializationFailed" in (by_value[b"{"]["raftlog.dead-letter.error"] or b"")
    assert [record.key for record in dead if record.value == b"2"] == [b"a"]
    assert await fetch_committed(live) == 4


async def test_without_dead_letters_the_loop_fails_and_commits_nothing_after_the_record(live: str) -> None:
    await store(live, (b"a", b"1"), (b"a", b"2"), (b"a", b"3"))
    is_fixed = False
    seen: list[bytes | None] = []

    async def handle(record: ConsumerRecord) -> None:
        if record.value == b"2" and not is_fixed:
            raise ValueError("never")
        seen.append(record.value)

    async with HandlerLoop(live, "orders", group="billing", handler=handle, attempts=2) as loop:
        with pytest.raises(HandlerFailed, match="offset 1: the handler failed 2 times") as failed:
            await asyncio.wait_for(loop.run(), 20)
        assert isinstance(failed.value.__cause__, ValueError)
        assert failed.value.offset == 1
        assert await fetch_committed(live) == 1
        is_fixed = True
        again = asyncio.create_task(loop.run())
        await until(lambda: len(seen) == 3)
        loop.stop()
        await again
    assert seen == [b"1", b"2", b"3"]
    assert await fetch_committed(live) == 3


async def test_a_slow_handler_limits_buffered_records_and_stays_in_the_group(
    live: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop continues to poll while no record can be taken, which keeps its membership."""
    polls = 0
    poll = Consumer.poll

    async def count_polls(consumer: Consumer, *limits: int) -> list[ConsumerRecord]:
        nonlocal polls
        found = await poll(consumer, *limits)
        polls += 1
        return found

    monkeypatch.setattr(Consumer, "poll", count_polls)
    await store(live, *((b"%d" % number, b"v") for number in range(100)))
    gate = asyncio.Event()
    begun = 0

    async def handle(record: ConsumerRecord) -> None:
        nonlocal begun
        begun += 1
        await gate.wait()

    loop = HandlerLoop(
        live, "orders", group="billing", handler=handle, concurrency=5, pending_records=10, max_poll_interval_ms=1000
    )
    async with run_loop(loop) as task:
        await until(lambda: begun == 5)
        async with BrokerClient(live) as client:
            [member] = await client.groups.consumers("billing")
            enough = polls + 3
            await until(lambda: polls >= enough)
            [same] = await client.groups.consumers("billing")
        assert member.member_id == same.member_id
        assert begun == 5
        assert not task.done()
        gate.set()
        await until(lambda: begun == 100)
    assert await fetch_committed(live) == 100


async def test_joining_and_leaving_members_handle_every_record_in_the_order_of_keys(live: str) -> None:
    keys, count = 8, 400
    await store(live, *((b"%d" % (n % keys), b"%d" % n) for n in range(count)), partitions=4)
    handled: dict[int, list[int]] = {key: [] for key in range(keys)}

    async def handle(record: ConsumerRecord) -> None:
        await asyncio.sleep(HANDLING_S)
        handled[int(record.key or b"")].append(int(record.value or b""))

    def run_loop_of_member() -> HandlerLoop:
        return HandlerLoop(live, "orders", group="billing", handler=handle, session_timeout_ms=6000)

    async with run_loop(run_loop_of_member()):
        await until(lambda: sum(map(len, handled.values())) > 50)
        async with run_loop(run_loop_of_member()):
            await until(lambda: sum(map(len, handled.values())) > 150)
        await until(lambda: len({value for values in handled.values() for value in values}) == count)
    for values in handled.values():
        firsts = list(dict.fromkeys(values))  # some are handled again behind a rebalance
        assert firsts == sorted(firsts)


async def test_invalid_values_are_refused(live: str) -> None:
    for wrong, why in (
        ({"order": "random"}, "key, partition, none"),
        ({"attempts": 0}, "attempts is 0"),
        ({"handler": "handle"}, "handler is str"),
    ):
        arguments: dict[str, Any] = {"group": "billing", "handler": print, **wrong}
        with pytest.raises(InvalidArgument, match=why):
            HandlerLoop(live, "orders", **arguments)


def test_progress_is_the_first_unfinished_record() -> None:
    progress = HandledOffsets()
    assert progress.find_offset_to_commit() is None
    for offset in (3, 4, 7):
        progress.begin(Offset(offset))
    assert progress.find_offset_to_commit() == 3
    progress.finish(Offset(4))
    assert progress.find_offset_to_commit() == progress.find_offset_to_resume() == 3
    progress.finish(Offset(3))
    assert progress.find_offset_to_commit() == 7
    progress.set_committed(Offset(7))
    assert progress.find_offset_to_commit() is None
    progress.finish(Offset(7))
    assert (progress.find_offset_to_commit(), progress.find_offset_to_resume()) == (8, None)
