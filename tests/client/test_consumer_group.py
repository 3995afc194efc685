"""`Consumer` in a consumer group with a real coordinator."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import Any

import pytest

from raftlog.client import BrokerClient, Consumer, ConsumerRecord, Membership, Producer, RebalanceListener
from raftlog.errors import FencedInstance, LogClosed, UnknownMember
from raftlog.types import TopicPartition
from tests.waiting import until, until_async

BOTH = {TopicPartition("orders", 0), TopicPartition("orders", 1)}


class Listener(RebalanceListener):
    """Listener that records its calls."""

    def __init__(self) -> None:
        self.told: list[tuple[str, set[TopicPartition]]] = []

    async def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.told.append(("assigned", set(partitions)))

    async def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.told.append(("revoked", set(partitions)))

    async def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.told.append(("lost", set(partitions)))


@pytest.fixture
async def client(live: str) -> AsyncIterator[BrokerClient]:
    async with BrokerClient([live]) as client:
        await client.create_topic("orders", 2)
        yield client


async def produce(address: str, values: range) -> None:
    async with Producer([address], idempotent=False) as producer:
        for value in values:
            await producer.send("orders", b"%d" % value, partition=value % 2)


async def poll_records(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    async with asyncio.timeout(30):
        while len(records) < count:
            records += await consumer.poll(count - len(records), timeout_ms=100)
    return records


async def poll_until(consumers: Sequence[Consumer], holds: Callable[[], bool]) -> list[ConsumerRecord]:
    """Poll all consumers until the condition holds; return the records received meanwhile."""
    records: list[ConsumerRecord] = []
    async with asyncio.timeout(30):
        while not holds():
            for some in await asyncio.gather(*(consumer.poll(timeout_ms=20) for consumer in consumers)):
                records += some
    return records


async def fetch_committed(client: BrokerClient, group: str = "g") -> dict[int, int]:
    return {place.partition: found.offset for place, found in (await client.groups.committed(group)).items()}


async def wait_for_committed(client: BrokerClient, count: int) -> int:
    """Wait until the committed offsets have at least this sum; return it."""

    async def read() -> int:
        found = sum((await fetch_committed(client)).values())
        return found if found >= count else 0

    return await until_async(read)


async def test_a_group_continues_where_it_stopped(live: str, client: BrokerClient) -> None:
    await produce(live, range(100))
    async with Consumer([live], "orders", group="g") as consumer:
        first = await poll_records(consumer, 60)
    assert sum((await fetch_committed(client)).values()) == 60
    async with Consumer([live], "orders", group="g") as consumer:
        second = await poll_records(consumer, 40)
    assert sorted(int(record.value or b"") for record in [*first, *second]) == list(range(100))


async def test_members_share_the_partitions_and_rebalance_when_another_joins(live: str, client: BrokerClient) -> None:
    listener = Listener()
    async with Consumer([live], group="g") as one:
        one.subscribe(["orders"], listener=listener)
        await poll_until([one], lambda: one.assignment == BOTH)
        async with Consumer([live], "orders", group="g") as other:
            await poll_until([one, other], lambda: len(one.assignment) == 1 and len(other.assignment) == 1)
            assert one.assignment | other.assignment == BOTH
            share = set(one.assignment)
        await poll_until([one], lambda: one.assignment == BOTH)
    assert listener.told == [
        ("assigned", BOTH),
        ("revoked", BOTH),
        ("assigned", share),
        ("revoked", share),
        ("assigned", BOTH),
        ("revoked", BOTH),
    ]


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky"])
async def test_no_record_is_read_twice_or_left_out_while_members_join_and_leave(
    live: str, client: BrokerClient, assignor: str
) -> None:
    await produce(live, range(300))
    settings: dict[str, Any] = {"group": "g", "assignors": (assignor,), "max_poll_records": 7}
    async with Consumer([live], "orders", **settings) as one:
        records = await poll_records(one, 50)
        async with Consumer([live], "orders", **settings) as other:
            records += await poll_until([one, other], lambda: len(one.assignment) == len(other.assignment) == 1)
        async with asyncio.timeout(30):
            while len(records) < 300:
                records += await one.poll(timeout_ms=20)
    assert sorted(int(record.value or b"") for record in records) == list(range(300))
    assert sum((await fetch_committed(client)).values()) == 300


async def test_iteration_leaves_out_no_record_of_a_rebalance(live: str, client: BrokerClient) -> None:
    """The first records of partitions assigned during an iteration must be returned, not only committed."""
    seen: list[int] = []

    async def iterate(consumer: Consumer) -> None:
        async for record in consumer:
            seen.append(int(record.value or b""))

    async with Consumer([live], "orders", group="g") as one:
        iteration = asyncio.create_task(iterate(one))
        for first in range(0, 60, 20):
            async with Consumer([live], "orders", group="g") as other:
                await poll_until(
                    [other], lambda one=one, other=other: len(one.assignment) == len(other.assignment) == 1
                )
                await produce(live, range(first, first + 20))
            await until(lambda count=first + 20: len(seen) >= count)
        iteration.cancel()
        await asyncio.gather(iteration, return_exceptions=True)
    assert sorted(seen) == list(range(60))


async def test_processed_records_are_committed_by_count(live: str, client: BrokerClient) -> None:
    await produce(live, range(200))
    settings: dict[str, Any] = {"auto_commit_interval_ms": 3_600_000, "auto_commit_records": 100}
    async with Consumer([live], "orders", group="g", **settings) as consumer:
        await poll_records(consumer, 99)
        await consumer.poll(1)
        await poll_records(consumer, 20)
        assert await wait_for_committed(client, 100) == 100


async def test_processed_records_are_committed_periodically_and_unprocessed_ones_are_not(
    live: str, client: BrokerClient
) -> None:
    await produce(live, range(50))
    async with Consumer([live], "orders", group="g", auto_commit_interval_ms=50) as consumer:
        seen = 0
        async for _ in consumer:
            seen += 1
            if seen == 11:
                break
        assert await wait_for_committed(client, 10) == 10


async def test_a_failed_consumer_commits_only_completely_processed_records(live: str, client: BrokerClient) -> None:
    await produce(live, range(20))

    async def fail_at_the_sixth() -> None:
        async with Consumer([live], "orders", group="g") as consumer:
            seen = 0
            async for _ in consumer:
                seen += 1
                if seen == 6:
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_at_the_sixth()
    assert sum((await fetch_committed(client)).values()) == 5


async def test_offsets_are_committed_on_request(live: str, client: BrokerClient) -> None:
    await produce(live, range(20))
    async with Consumer([live], "orders", group="g", auto_commit=False) as consumer:
        with pytest.raises(UnknownMember):
            await consumer.commit({TopicPartition("orders", 0): 1})
        await poll_records(consumer, 15)
        await consumer.commit()
        assert sum((await fetch_committed(client)).values()) == 15
        await consumer.commit({TopicPartition("orders", 0): 3, TopicPartition("orders", 1): 4})
        assert await fetch_committed(client) == {0: 3, 1: 4}, "a member may go back"
        assert (await consumer.committed())[TopicPartition("orders", 0)].offset == 3
        await poll_records(consumer, 5)
    assert await fetch_committed(client) == {0: 3, 1: 4}


async def test_assigned_partitions_commit_rising_offsets(live: str, client: BrokerClient) -> None:
    await produce(live, range(20))
    for expected in (0, 5):
        async with Consumer([live], group="g") as consumer:
            await consumer.assign([TopicPartition("orders", 0)])
            assert await consumer.position(TopicPartition("orders", 0)) == expected
            await poll_records(consumer, 5)
    assert await fetch_committed(client) == {0: 10}


async def test_a_seek_in_the_listener_takes_effect(live: str, client: BrokerClient) -> None:
    await produce(live, range(20))
    async with Consumer([live], group="g") as consumer:

        class Seeking(RebalanceListener):
            async def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
                for place in partitions:
                    consumer.seek(place, 8)

        consumer.subscribe(["orders"], listener=Seeking())
        assert {record.offset for record in await poll_records(consumer, 4)} == {8, 9}


async def test_a_member_that_does_not_poll_loses_its_partitions_and_rejoins(live: str, client: BrokerClient) -> None:
    listener = Listener()
    settings: dict[str, Any] = {"session_timeout_ms": 6_000, "max_poll_interval_ms": 1}
    async with Consumer([live], group="g", **settings) as consumer:
        consumer.subscribe(["orders"], listener=listener)
        await poll_until([consumer], lambda: consumer.assignment == BOTH)

        async def is_empty() -> bool:
            return (await client.groups.describe("g")).state == "EMPTY"

        await until_async(is_empty)
        await poll_until([consumer], lambda: len(listener.told) >= 3)
    assert listener.told[:3] == [("assigned", BOTH), ("lost", BOTH), ("assigned", BOTH)]


async def test_a_new_static_member_fences_the_former(live: str, client: BrokerClient) -> None:
    settings: dict[str, Any] = {"group": "g", "instance_id": "i", "session_timeout_ms": 6_000}
    async with Consumer([live], "orders", **settings) as old:
        await poll_until([old], lambda: old.assignment == BOTH)
        async with Consumer([live], "orders", **settings) as new:
            await poll_until([new], lambda: new.assignment == BOTH)
            with pytest.raises(FencedInstance):
                await poll_until([old], lambda: False)


async def test_a_static_member_that_closes_keeps_its_assignment(live: str, client: BrokerClient) -> None:
    for _ in range(2):
        async with Consumer([live], "orders", group="g", instance_id="i") as consumer:
            await poll_until([consumer], lambda consumer=consumer: consumer.assignment == BOTH)  # type: ignore[misc]
    assert [member.instance_id for member in await client.groups.consumers("g")] == ["i"]


async def test_new_partitions_are_assigned_to_the_group(live: str, client: BrokerClient) -> None:
    async with Consumer([live], group="g", metadata_refresh_s=0.05) as consumer:
        consumer.subscribe(pattern="orders|bills")
        await poll_until([consumer], lambda: consumer.assignment == BOTH)
        await client.create_topic("bills")
        await poll_until([consumer], lambda: consumer.assignment == BOTH | {TopicPartition("bills", 0)})


async def test_a_topic_created_later_is_read(live: str, client: BrokerClient) -> None:
    async with Consumer([live], "orders", "later", group="g", metadata_refresh_s=0.05) as consumer:
        await poll_until([consumer], lambda: consumer.assignment == BOTH)
        await client.create_topic("later")
        await poll_until([consumer], lambda: consumer.assignment == BOTH | {TopicPartition("later", 0)})
        async with Producer([live], idempotent=False) as producer:
            await producer.send("later", b"x")
        [record] = await poll_records(consumer, 1)
        assert (record.topic, record.value) == ("later", b"x")


async def test_a_commit_of_a_removed_member_is_refused_and_it_rejoins(live: str, client: BrokerClient) -> None:
    await produce(live, range(20))
    listener = Listener()
    async with Consumer([live], group="g", auto_commit=False) as consumer:
        consumer.subscribe(["orders"], listener=listener)
        await poll_records(consumer, 4)
        (member,) = await client.groups.consumers("g")
        await client.groups.leave("g", [(member.member_id, None)])
        with pytest.raises(UnknownMember):
            await consumer.commit()
        await poll_until([consumer], lambda: len(listener.told) >= 3)
    assert [what for what, _ in listener.told] == ["assigned", "lost", "assigned", "revoked"]
    assert await fetch_committed(client) == {}


async def test_members_with_another_protocol_are_refused(live: str, client: BrokerClient) -> None:
    joined = await client.groups.join("g", {"strange": b""}, protocol_type="connect")
    member = Membership(joined.member_id, joined.generation)
    await client.groups.sync("g", member, {joined.member_id: b""})
    async with Consumer([live], "orders", group="g") as consumer:
        with pytest.raises(Exception, match="protocol"):
            await consumer.poll(timeout_ms=20_000)


async def test_a_pending_poll_fails_when_the_consumer_closes(live: str, client: BrokerClient) -> None:
    for group in (None, "g"):
        consumer = Consumer([live], "orders", group=group)
        polling = asyncio.create_task(consumer.poll(timeout_ms=60_000))
        await asyncio.sleep(0)
        await consumer.close()
        with pytest.raises(LogClosed):
            await polling
