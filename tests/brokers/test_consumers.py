"""Consumer instances in a cluster: any broker accepts requests about them, and they survive a change of coordinator."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from raftlog.assignors import ASSIGNORS, Subscription, decode_subscription, encode_assignment, encode_subscription
from raftlog.errors import ConsumerExists, ConsumerState, InvalidArgument, NoLeader, Unavailable, UnknownConsumer
from raftlog.partitions.consumers.results import ChosenPosition, ConsumedRecord
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.groups.records import Protocol
from raftlog.partitions.groups.results import Join, Sync
from raftlog.records import NewRecord, read_records
from raftlog.runtime.rpc.errors import ConnectionLost
from raftlog.types import TopicPartition
from tests.brokers.conftest import Brokers, brokers_in
from tests.waiting import until, until_async

G, C = "readers", "c"
SETTINGS = {"format": "json", "auto.offset.reset": "earliest", "consumer.request.timeout.ms": 2_000}
OFFSETS = "__consumer_offsets"


def soon():
    return deadline_in(20_000)


@pytest.fixture
async def brokers(tmp_path) -> AsyncIterator[Brokers]:
    async with brokers_in(tmp_path, group_initial_rebalance_delay_ms=0, offsets_partitions=1) as three:
        await three.start()
        yield three


async def produce(broker, *values, topic="t", partition=0):
    results = await broker.produce_records(topic, partition, [NewRecord(value) for value in values], deadline=soon())
    assert [result.error for result in results] == [None] * len(values)


async def poll(broker, wait_ms=2_000, name=C):
    """Return values by partition."""
    delivery = await broker.consumers.poll(G, name, wait_ms=wait_ms, max_bytes=1 << 20, formats=["json"])
    found: dict[int, list[bytes]] = {}
    for piece in delivery.pieces:
        for batch in piece.batches:
            records = [each.value for each in read_records(batch) if piece.offset <= each.offset < piece.end]
            found.setdefault(piece.partition, []).extend(records)
    return found


async def poll_values(broker, count, name=C):
    """Poll until `count` values have arrived; a poll without a coordinator is retried."""
    found = []
    async with asyncio.timeout(60):
        while len(found) < count:
            try:
                for some in (await poll(broker, name=name)).values():
                    found += some
            except Unavailable:
                continue
    return sorted(found)


async def fetch_committed(broker):
    return {place: each.offset for place, each in (await broker.groups.committed(G, deadline=soon())).items()}


def count_instances(brokers):
    return {number: len(broker.consumers) for number, broker in brokers.running.items() if len(broker.consumers)}


async def test_an_instance_is_created_polled_and_committed_at_different_brokers(brokers):
    await brokers[1].create_topic("t", 2, deadline=soon())
    await brokers[1].consumers.create(G, C, SETTINGS, deadline=soon())
    with pytest.raises(ConsumerExists):
        await brokers[2].consumers.create(G, C, SETTINGS, deadline=soon())
    await brokers[2].consumers.subscribe(G, C, ["t"], None, deadline=soon())
    await produce(brokers[3], b"a", b"b")
    await produce(brokers[3], b"c", partition=1)
    assert await poll_values(brokers[3], 3) == [b"a", b"b", b"c"]
    outcomes = await brokers[1].consumers.commit(G, C, None, deadline=soon())
    assert [each.committed for each in outcomes] == [2, 1]
    for broker in brokers.running.values():
        assert await fetch_committed(broker) == {("t", 0): 2, ("t", 1): 1}
        assert list((await broker.consumers.subscription(G, C, deadline=soon())).topics) == ["t"]
        assert await broker.consumers.assignment(G, C, deadline=soon()) == [("t", 0), ("t", 1)]
    leader = await brokers.leader(OFFSETS)
    assert count_instances(brokers) == {leader: 1}
    for broker in brokers.running.values():
        assert broker.groups.leader_of(G) == leader
    await brokers[3].consumers.delete(G, C, deadline=soon())
    for broker in brokers.running.values():
        with pytest.raises(UnknownConsumer):
            await broker.consumers.poll(G, C, wait_ms=0, max_bytes=1, formats=["json"])


async def test_forwarded_errors_keep_their_class(brokers):
    await brokers[1].create_topic("t", 1, deadline=soon())
    await brokers[1].consumers.create(G, C, SETTINGS, deadline=soon())
    for broker in brokers.running.values():
        with pytest.raises(ConsumerState):
            await broker.consumers.poll(G, C, wait_ms=0, max_bytes=1, formats=["json"])
        with pytest.raises(InvalidArgument, match="topic_pattern"):
            await broker.consumers.subscribe(G, C, [], "(", deadline=soon())


async def test_instances_continue_after_their_coordinator_stops(brokers):
    """Subscribed and assigned instances continue from the committed offsets, without being created again."""
    await brokers[1].create_topic("t", 2, deadline=soon())
    await brokers[1].consumers.create(G, C, SETTINGS, deadline=soon())
    await brokers[1].consumers.subscribe(G, C, ["t"], None, deadline=soon())
    await produce(brokers[1], b"a", b"b")
    assert await poll_values(brokers[1], 2) == [b"a", b"b"]
    await brokers[1].consumers.commit(G, C, [ConsumedRecord(TopicPartition("t", 0), 0, "seen")], deadline=soon())
    generation = (await brokers[1].groups.describe(G, deadline=soon())).generation
    leader = await brokers.leader(OFFSETS)
    await brokers.stop(leader)
    other = next(iter(brokers.running.values()))
    await produce(other, b"c")
    await produce(other, b"d", partition=1)
    # Delivered and uncommitted records are repeated; none is left out.
    assert await poll_values(other, 3) == [b"b", b"c", b"d"]
    # The group did not even rebalance: the member came back under its id.
    assert (await other.groups.describe(G, deadline=soon())).generation == generation
    (successor,) = count_instances(brokers)
    assert successor != leader


async def test_a_seek_survives_a_change_of_the_coordinator(brokers):
    """`latest` must not skip records that arrived while there was no leader, and a requested replay continues."""
    await brokers[1].create_topic("t", 2, deadline=soon())
    here = [TopicPartition("t", 0), TopicPartition("t", 1)]
    for _, partition in here:
        await produce(brokers[1], b"old", partition=partition)
    await brokers[1].consumers.create(G, C, {**SETTINGS, "auto.offset.reset": "latest"}, deadline=soon())
    await brokers[1].consumers.assign(G, C, here, deadline=soon())
    assert await poll(brokers[1], 0) == {}
    await brokers[2].consumers.seek(G, C, [ChosenPosition(here[0], edge="beginning")], deadline=soon())
    for _, partition in here:
        await produce(brokers[1], b"new", partition=partition)
    await brokers.stop(await brokers.leader(OFFSETS))
    assert await poll_values(next(iter(brokers.running.values())), 3) == [b"new", b"new", b"old"]


async def test_a_waiting_poll_follows_the_coordinator(brokers):
    await brokers[1].create_topic("t", 1, deadline=soon())
    slow = {**SETTINGS, "consumer.request.timeout.ms": 30_000}
    await brokers[1].consumers.create(G, C, slow, deadline=soon())
    await brokers[1].consumers.subscribe(G, C, ["t"], None, deadline=soon())
    await wait_for_assignment(brokers[1])
    leader = await brokers.leader(OFFSETS)
    number = next(number for number in brokers.running if number != leader)
    polling = asyncio.ensure_future(poll(brokers[number], 30_000))
    instance = next(iter(brokers[leader].consumers._registry))
    await until(lambda: instance.users)
    await brokers.stop(leader)
    await produce(brokers[number], b"late")
    found = await asyncio.gather(polling, return_exceptions=True)
    if found != [{0: [b"late"]}]:  # the broker that stopped answered with what there was
        assert found in ([{}],) or isinstance(found[0], Unavailable | NoLeader)
        assert await poll_values(brokers[number], 1) == [b"late"]


async def test_records_of_a_lost_answer_between_brokers_are_resent(brokers, monkeypatch):
    await brokers[1].create_topic("t", 1, deadline=soon())
    await brokers[1].consumers.create(G, C, SETTINGS, deadline=soon())
    await brokers[1].consumers.assign(G, C, [TopicPartition("t", 0)], deadline=soon())
    await produce(brokers[1], b"a", b"b")
    number, _ = await brokers.followers(OFFSETS)
    router, lost = brokers[number].parts.router, []
    read = router.read

    async def lose_first_answer(node, name, *arguments):
        answer = await read(node, name, *arguments)
        if name == "consumers.poll" and not lost:
            lost.append(answer)
            raise ConnectionLost("the answer was lost")
        return answer

    monkeypatch.setattr(router, "read", lose_first_answer)
    assert await poll(brokers[number]) == {0: [b"a", b"b"]}
    assert len(lost[0].payload) == 2
    assert await poll(brokers[number], 0) == {}


async def wait_for_assignment(broker):
    """Wait until the instance has its partition."""

    async def fetch_assignment():
        return await broker.consumers.assignment(G, C, deadline=soon())

    await until_async(fetch_assignment)


async def test_an_instance_that_lost_a_partition_does_not_commit_it(brokers):
    await brokers[1].create_topic("t", 2, deadline=soon())
    await produce(brokers[1], b"a")
    await produce(brokers[1], b"b", partition=1)
    manual = {**SETTINGS, "auto.commit.enable": False}
    await brokers[1].consumers.create(G, C, manual, deadline=soon())
    await brokers[1].consumers.subscribe(G, C, ["t"], None, deadline=soon())
    assert await poll_values(brokers[1], 2) == [b"a", b"b"]
    await brokers[2].consumers.create(G, "d", manual, deadline=soon())
    await brokers[2].consumers.subscribe(G, "d", ["t"], None, deadline=soon())

    async def is_shared():
        mine = await brokers[1].consumers.assignment(G, C, deadline=soon())
        return len(mine) == len(await brokers[1].consumers.assignment(G, "d", deadline=soon())) == 1

    await until_async(is_shared)
    (mine,) = await brokers[1].consumers.assignment(G, C, deadline=soon())
    (lost,) = await brokers[1].consumers.assignment(G, "d", deadline=soon())
    outcomes = await brokers[3].consumers.commit(
        G, C, [ConsumedRecord(each, 0) for each in (mine, lost)], deadline=soon()
    )
    assert {each.partition: each.committed for each in outcomes} == {mine.partition: 1, lost.partition: None}
    assert await fetch_committed(brokers[1]) == {mine: 1}
    with pytest.raises(ConsumerState):
        await brokers[3].consumers.commit(G, C, [ConsumedRecord(lost, 0)], deadline=soon())
    # The owner reads it again, as it was not committed.
    assert await poll_values(brokers[3], 1, name="d") == [b"a" if lost.partition == 0 else b"b"]


async def test_a_group_member_that_is_no_instance_assigns_for_instances_too(brokers):
    await brokers[1].create_topic("t", 2, deadline=soon())
    await brokers[1].consumers.create(G, C, SETTINGS, deadline=soon())
    await brokers[1].consumers.subscribe(G, C, ["t"], None, deadline=soon())
    await wait_for_assignment(brokers[1])
    protocols = (Protocol("range", encode_subscription(Subscription(("t",)))),)
    joined = await brokers[2].groups.join(Join(G, "", protocols), deadline=soon())
    assert joined.leader == joined.member_id
    subscriptions = {each.member_id: decode_subscription(each.metadata) for each in joined.members}
    assert len(subscriptions) == 2
    shares = ASSIGNORS["range"](subscriptions, {"t": 2})
    assignments = tuple((member, encode_assignment(share)) for member, share in shares.items())
    sync = Sync(G, joined.member_id, joined.generation, assignments=assignments)
    await brokers[3].groups.sync(sync, deadline=soon())
    (instance_id,) = subscriptions.keys() - {joined.member_id}

    async def has_its_share():
        return await brokers[1].consumers.assignment(G, C, deadline=soon()) == shares[instance_id]

    await until_async(has_its_share)
    assert len(shares[instance_id]) == 1
