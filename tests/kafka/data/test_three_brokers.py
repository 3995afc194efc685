"""Requests for records in a cluster of three: only the leader serves them, and clients find it."""

import asyncio

from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.partitions.deadline import deadline_in
from tests.brokers.conftest import Brokers
from tests.kafka.data.requests import Handlers, decode_values, make_batch, make_sequenced_batch
from tests.kafka.data.session_client import SessionClient

LATEST = -1
LONG_MS = 20_000
SOON_S = 10.0


async def test_only_the_leader_serves(three):
    leader = await three.leader("t")
    for number in three.running:
        handlers = Handlers(three[number])
        expected = 0 if number == leader else ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await handlers.produce(make_batch(b"a"))).error_code == expected
        assert (await handlers.fetch_one(0)).error_code == expected
        assert (await handlers.list_offset(LATEST)).error_code == expected
        assert (await handlers.end_of_epoch(1)).error_code == expected
        assert (await handlers.delete_records(0)).error_code == expected
    assert (await Handlers(three[leader]).list_offset(LATEST)).offset == 1


async def test_every_broker_names_the_leader_with_its_epoch(three):
    leader = await three.leader("t")
    term = three[leader].parts.topics.find("t").partitions[0].replica.group.core.term
    for number in three.running:
        answer = await Handlers(three[number]).metadata(["t"])
        [row] = answer.topics[0].partitions
        assert sorted(row.replica_nodes) == [1, 2, 3]
        assert sorted(row.isr_nodes) == [1, 2, 3]
        assert row.error_code == ErrorCode.LEADER_NOT_AVAILABLE, "no broker here serves Kafka"
        [described] = await three[number].leader.topics.describe(["t"], 0)
        assert (described.partitions[0].leader, described.partitions[0].leader_epoch) == (leader, term)


async def test_a_broker_without_a_replica_names_the_leader(three):
    await three[1].create_topic("one", 3, 1, deadline=deadline_in(10_000))
    leaders = {await three.leader("one", partition) for partition in range(3)}
    assert len(leaders) > 1
    seen = [(await three[number].leader.topics.describe(["one"], 500))[0].partitions for number in three.running]
    assert seen[0] == seen[1] == seen[2]
    assert {row.leader for row in seen[0]} == leaders


async def test_too_few_replicas_in_sync_are_a_definite_refusal(three):
    await three[1].create_topic("strict", 1, 3, {"min.insync.replicas": "3"}, deadline=deadline_in(10_000))
    leader = await three.leader("strict")
    handlers = Handlers(three[leader])
    assert (await handlers.produce(make_batch(b"a"), topic="strict")).error_code == 0
    await three.stop(next(number for number in three.running if number != leader))
    row = await handlers.produce(make_batch(b"b"), topic="strict")
    while row.error_code == ErrorCode.REQUEST_TIMED_OUT or row.error_code == 0:  # until its absence is noticed
        row = await handlers.produce(make_batch(b"b"), topic="strict")
    assert row.error_code == ErrorCode.NOT_ENOUGH_REPLICAS


async def test_the_high_watermark_is_that_of_a_majority(three):
    leader = await three.leader("t")
    handlers = Handlers(three[leader])
    assert (await handlers.produce(make_batch(b"a"))).base_offset == 0
    for number in [number for number in three.running if number != leader]:
        await three.stop(number)
    alone = await handlers.produce(make_batch(b"b"), acks=1)
    assert (alone.error_code, alone.base_offset) == (0, 1), "the leader has it, and no majority"
    row = await handlers.fetch_one(0)
    assert (row.error_code, row.high_watermark, decode_values(row.records)) == (0, 1, [b"a"])


async def test_a_retry_at_the_next_leader_returns_the_offset_of_the_original(three):
    leader = await three.leader("t")
    handlers = Handlers(three[leader])
    producer = await handlers.new_producer()
    first = await handlers.produce(make_sequenced_batch(producer, 0, b"a"))
    term = three[leader].parts.topics.find("t").partitions[0].replica.group.core.term
    await three.stop(leader)
    follower = next(iter(three.running))
    [described] = await three[follower].leader.topics.describe(["t"], 20_000)
    row = described.partitions[0]
    assert row.leader not in (None, leader)
    assert row.leader_epoch > term
    assert leader in row.offline
    assert leader not in row.in_sync
    other = Handlers(three[row.leader])
    again = await other.produce(make_sequenced_batch(producer, 0, b"a"))
    assert (first.base_offset, again.error_code, again.base_offset) == (0, 0, 0)
    assert (await other.list_offset(LATEST)).offset == 1
    old = await other.end_of_epoch(term)
    assert (old.leader_epoch, old.end_offset) == (term, 1)
    assert decode_values((await other.fetch_one(0)).records) == [b"a"]


async def test_a_poll_of_a_session_ends_with_the_leadership_and_follows_it_back(three):
    leader = await three.leader("t")
    client = SessionClient(Handlers(three[leader]), {("t", 0): 0})
    assert (await client.fetch())["t", 0].error_code == 0
    polling = asyncio.create_task(client.fetch(max_wait_ms=LONG_MS))
    await asyncio.sleep(0)
    await transfer_leadership(three, leader, leader % 3 + 1)
    assert (await asyncio.wait_for(polling, SOON_S))["t", 0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    rows = await asyncio.wait_for(client.fetch(max_wait_ms=LONG_MS), SOON_S)
    assert rows["t", 0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    await transfer_leadership(three, leader, leader)
    assert (await client.fetch())["t", 0].error_code == 0
    assert await client.fetch() == {}


async def transfer_leadership(brokers: Brokers, asked: int, target: int) -> None:
    await brokers[asked].operations.leadership.transfer_leadership("t", 0, target, deadline=deadline_in(10_000))
