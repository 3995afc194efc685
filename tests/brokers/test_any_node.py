"""Requests to any of three brokers: it forwards those for partitions of other leaders, and names the leader."""

import asyncio

import pytest
from click.testing import CliRunner

from raftlog.cli.log.verbs import log
from raftlog.cli.outcome import CommandFailed
from raftlog.errors import (
    InvalidArgument,
    NoLeader,
    OffsetOutOfRange,
    PlacementImpossible,
    TopicExists,
    Unavailable,
    UnknownPartition,
    UnknownTopic,
)
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.groups.coordinator import GroupCoordinator
from raftlog.partitions.groups.results import OffsetCommit
from raftlog.partitions.groups.service import OFFSETS_TOPIC
from raftlog.partitions.placement.assignments import assignments
from raftlog.records import NewRecord, build_batch, read_records
from raftlog.types import Isolation, Offset, TopicPartition
from tests.waiting import until


def soon():
    return deadline_in(10_000)


SPREAD_S_MAX = 20.0
"""Time in which preferred leaders take over; an election may have chosen others on a busy machine."""


async def fetch_values(broker, topic, partition=0, offset=0):
    fetched = await broker.fetch(topic, partition, offset, max_bytes=1 << 20, min_bytes=0, deadline=soon())
    return [record.value for batch in fetched.batches for record in read_records(batch)]


async def commit(broker, group, offsets):
    wanted = {TopicPartition(*place): OffsetCommit(Offset(offset)) for place, offset in offsets.items()}
    return offsets_by_place(await broker.groups.commit(group, wanted, deadline=soon()))


async def fetch_committed(broker, group):
    return offsets_by_place(await broker.groups.committed(group, deadline=soon()))


def offsets_by_place(found):
    return {tuple(place): int(committed.offset) for place, committed in found.items()}


async def produce(broker, topic, *values, partition=0, ms=10_000):
    results = await broker.produce_records(
        topic, partition, [NewRecord(value) for value in values], deadline=deadline_in(ms)
    )
    for result in results:
        if result.error is not None:
            raise result.error
    return [result.offset for result in results]


async def test_every_broker_accepts_produce_and_fetch_for_every_partition(brokers):
    await brokers[2].create_topic("t", 3, deadline=soon())
    for number in (1, 2, 3):
        for partition in range(3):
            assert await produce(brokers[number], "t", b"%d" % number, partition=partition) == [number - 1]
    for number in (1, 2, 3):
        for partition in range(3):
            assert await fetch_values(brokers[number], "t", partition) == [b"1", b"2", b"3"]


async def test_a_call_for_several_partitions_is_split_and_its_results_keep_their_order(brokers):
    await brokers[1].create_topic("t", 3, deadline=soon())
    choice = [2, 0, 1, 0, 2, 1, 1, 0, 2]
    records = [NewRecord(b"%d" % place) for place in range(len(choice))]
    results = await brokers[3].produce_records("t", choice, records, deadline=soon())
    assert [result.partition for result in results] == choice
    for place, result in enumerate(results):
        assert (await fetch_values(brokers[2], "t", result.partition))[result.offset] == b"%d" % place


async def test_stored_batches_are_forwarded_unchanged(brokers):
    await brokers[1].create_topic("t", 1, deadline=soon())
    for number in await brokers.followers("t"):
        body = build_batch([NewRecord(b"a"), NewRecord(b"b")])
        produced = await brokers[number].produce_batches("t", 0, bytes(body), deadline=soon())
        assert produced.next_offset - produced.base_offset == 2
        assert produced.leader_epoch >= 1
    assert await fetch_values(brokers[1], "t") == [b"a", b"b", b"a", b"b"]


@pytest.mark.parametrize("acks", [1, 0])
async def test_weaker_acknowledgements_are_forwarded_too(brokers, acks):
    await brokers[1].create_topic("t", 1, deadline=soon())
    (number, _) = await brokers.followers("t")
    (result,) = await brokers[number].produce_records("t", 0, [NewRecord(b"x")], acks=acks, deadline=soon())
    assert result == (0, 0 if acks else None, None, False)
    fetched = await brokers[number].fetch("t", 0, 0, max_bytes=1000, min_bytes=1, deadline=soon())
    assert len(fetched.batches) == 1


async def test_other_brokers_name_the_leader(brokers):
    await brokers[1].create_topic("t", 1, deadline=soon())
    leader = await brokers.leader("t")
    assert brokers[leader].leader_of("t", 0) == leader
    for number in await brokers.followers("t"):
        assert brokers[number].leader_of("t", 0) == leader
    assert brokers[1].leader_of("unknown", 0) is None
    assert brokers[1].leader_of("t", 9) is None


async def test_a_forwarded_fetch_waits_for_the_next_record(brokers):
    await brokers[1].create_topic("t", 1, deadline=soon())
    leader = await brokers.leader("t")
    (number, _) = await brokers.followers("t")
    waiting = asyncio.ensure_future(
        brokers[number].fetch("t", 0, 0, max_bytes=1000, min_bytes=1, deadline=deadline_in(20_000))
    )
    await asyncio.sleep(0)
    await produce(brokers[leader], "t", b"late")
    fetched = await waiting
    assert [record.value for record in read_records(fetched.batches[0])] == [b"late"]


async def test_forwarded_errors_keep_their_class(brokers):
    await brokers[1].create_topic("t", 1, deadline=soon())
    (number, _) = await brokers.followers("t")
    await produce(brokers[number], "t", b"x")
    with pytest.raises(OffsetOutOfRange) as raised:
        await brokers[number].fetch("t", 0, 7, max_bytes=100, deadline=soon())
    assert (raised.value.first, raised.value.end) == (0, 1)
    with pytest.raises(UnknownPartition):
        await brokers[number].fetch("t", 1, 0, max_bytes=100, deadline=soon())
    with pytest.raises(UnknownTopic):
        await brokers[number].fetch("nowhere", 0, 0, max_bytes=100, deadline=soon())


async def test_offsets_and_timestamps_come_from_the_leader(brokers):
    await brokers[1].create_topic("t", 1, deadline=soon())
    for stamp in (1_000, 2_000, 3_000):
        await brokers[1].produce_records("t", 0, [NewRecord(b"x", timestamp=stamp)], deadline=soon())
    for number in (1, 2, 3):
        assert await brokers[number].offsets("t", 0, linearizable=True, deadline=soon()) == (0, 3)
        assert await brokers[number].offset_for_timestamp("t", 0, 1_500, deadline=soon()) == (1, 2_000)
        assert await brokers[number].offset_for_timestamp("t", 0, 9_000, deadline=soon()) is None


async def test_every_broker_finds_a_topic_once_its_creation_is_answered(brokers):
    for number in range(9):
        name = f"t{number}"
        await brokers[1 + number % 3].create_topic(name, 1, deadline=soon())
        assert await produce(brokers[1 + (number + 1) % 3], name, b"x") == [0]
        await brokers[1 + (number + 2) % 3].delete_topic(name, deadline=soon())
        with pytest.raises(UnknownTopic):
            await brokers[1 + number % 3].delete_topic(name, deadline=soon())


async def test_a_recreated_topic_holds_no_records_of_the_first(brokers):
    for _ in range(3):
        await brokers[1].create_topic("t", 2, deadline=soon())
        assert await produce(brokers[2], "t", b"x", partition=1) == [0]
        await brokers[3].delete_topic("t", deadline=soon())


async def test_a_topic_can_be_recreated_as_soon_as_the_first_is_removed(brokers, monkeypatch):
    monkeypatch.setattr(assignments, "_RETRY_S", 3600.0)
    for _ in range(3):
        await brokers[1].create_topic("t", 2, deadline=soon())
        assert await produce(brokers[2], "t", b"x", partition=1) == [0]
        await brokers[3].delete_topic("t", deadline=soon())


@pytest.mark.parametrize("is_made_again", [True, False])
async def test_a_request_for_a_deleted_topic_does_not_fail_after_its_recreation(brokers, monkeypatch, is_made_again):
    """Send requests to a broker with stale metadata for a topic that was deleted, and perhaps recreated, meanwhile."""
    await brokers[1].create_topic("t", 1, deadline=soon())
    await produce(brokers[3], "t", b"x")
    late = brokers[3].parts.topics
    with monkeypatch.context() as patch:
        patch.setattr(late, "refresh", lambda state: None)
        await brokers[1].delete_topic("t", deadline=soon())
        if is_made_again:
            await brokers[1].create_topic("t", 1, deadline=soon())
        await brokers[3].metadata.barrier(soon())
        (partition,) = late.find("t").partitions
        patch.setattr(partition._shared.router, "leader_of", lambda partition: None)
        as_records = asyncio.ensure_future(brokers[3].produce_records("t", 0, [NewRecord(b"1")], deadline=soon()))
        batch = build_batch([NewRecord(b"2")], now_ms=1)
        as_batch = asyncio.ensure_future(brokers[3].produce_batches("t", 0, batch, deadline=soon()))
        stream = await brokers[3].open_stream("t", 0, deadline=soon())
        as_block = asyncio.ensure_future(stream.append([b"3"], None, -1, soon()))
        await until(lambda: len(partition.queue._queue) >= 3)
    late.refresh(brokers[3].metadata.state)
    wanted = Unavailable if is_made_again else UnknownTopic
    for result in (*await as_records, *await as_block):
        assert type(result.error) is wanted
    with pytest.raises(wanted) as raised:
        await as_batch
    assert type(raised.value) is wanted
    if is_made_again:
        assert "created again" in str(raised.value)
        assert await produce(brokers[3], "t", b"y") == [0]


async def test_concurrent_creations_at_several_brokers_create_one_topic(brokers):
    results = await asyncio.gather(
        *(brokers[number].create_topic("t", 1, deadline=soon()) for number in (1, 2, 3)), return_exceptions=True
    )
    assert sorted(type(result).__name__ for result in results) == ["TopicExists", "TopicExists", "TopicState"]
    with pytest.raises(TopicExists):
        await brokers[2].create_topic("t", 1, deadline=soon())


async def test_requests_that_the_cluster_cannot_execute_are_refused(brokers):
    with pytest.raises(PlacementImpossible, match="replication factor 4 needs as many hosts"):
        await brokers[1].create_topic("t", 1, 4, deadline=soon())
    with pytest.raises(InvalidArgument, match=r"min\.insync\.replicas=3 can never be met with 2 replicas"):
        await brokers[1].create_topic("t", 1, 2, {"min.insync.replicas": "3"}, deadline=soon())
    assert await commit(brokers[1], "g", {}) == {}
    await brokers[1].create_topic("t", 1, 2, deadline=soon())
    await commit(brokers[1], "g", {("t", 0): 1})
    with pytest.raises(InvalidArgument, match="only brokers write to it"):
        await produce(brokers[2], OFFSETS_TOPIC, b"x")


async def test_every_broker_returns_a_commit_once_it_is_answered(brokers):
    await brokers[1].create_topic("t", 2, deadline=soon())
    place = ("t", 1)
    for round_ in range(1, 7):
        writer, reader = brokers[1 + round_ % 3], brokers[1 + (round_ + 1) % 3]
        await commit(writer, "g", {place: round_})
        assert await fetch_committed(reader, "g") == {place: round_}
    await commit(brokers[1], "g", {place: 2})
    assert await fetch_committed(brokers[2], "g") == {place: 6}
    await commit(brokers[3], "h", {place: 1})
    assert await brokers[2].groups.names(deadline=soon()) == ["g", "h"]
    await brokers[2].delete_topic("t", deadline=soon())
    await brokers[3].metadata.barrier(soon())  # its own copy of the topics may be some milliseconds old
    assert await fetch_committed(brokers[3], "g") == {}


async def test_the_answer_to_a_commit_has_all_earlier_commits_without_a_read_index(brokers, monkeypatch):
    await brokers[1].create_topic("t", 9, deadline=soon())
    expected = {}
    for number in range(9):  # a read index would be refused, wherever it is asked
        expected["t", number] = number
        broker = brokers[1 + number % 3]
        found = await commit(broker, "g", {("t", number): number})
        assert found == expected, f"the answer of node {1 + number % 3}"
        if number == 2:
            monkeypatch.setattr(GroupCoordinator, "wait_until_current", _refuse_read_index)


async def _refuse_read_index(coordinator, deadline):
    raise AssertionError(f"{coordinator.replica.name} asks a majority")


async def test_replicas_lie_on_three_hosts_and_leaders_are_spread(brokers):
    described = await brokers[1].create_topic("t", 9, deadline=soon())
    assert all(sorted(partition.replicas) == [1, 2, 3] for partition in described.partitions)
    async with asyncio.timeout(SPREAD_S_MAX):
        while sorted(str(partition.leader) for partition in described.partitions) != list("111222333"):
            described = await brokers[2].describe_topic("t", deadline=soon())
    while not all(list(partition.in_sync) == [1, 2, 3] for partition in described.partitions):
        described = await brokers[3].describe_topic("t", deadline=soon())


async def test_every_broker_forwards_for_partitions_of_which_it_has_no_replica(brokers):
    await brokers[1].create_topic("lonely", 6, 1, deadline=soon())
    for partition in range(6):
        for number in (1, 2, 3):
            assert await produce(brokers[number], "lonely", b"x", partition=partition) == [number - 1]


async def test_writes_continue_after_the_leader_stops(brokers):
    await brokers[1].create_topic("t", 1, deadline=soon())
    leader = await brokers.leader("t")
    (other, third) = await brokers.followers("t")
    await produce(brokers[other], "t", b"before")
    await brokers.stop(leader)
    assert await produce(brokers[other], "t", b"after") == [1]
    health = await brokers[third].health(deadline=soon())
    assert list(health.nodes_down) == [leader]
    assert f"node {leader} does not answer" in health.unhealthy_reasons
    await brokers.start(leader)
    assert await fetch_values(brokers[leader], "t") == [b"before", b"after"]


async def test_without_a_majority_writes_fail_in_time_reads_continue_and_writes_resume(brokers):
    await brokers[1].create_topic("t", 1, deadline=soon())
    leader = await brokers.leader("t")
    others = await brokers.followers("t")
    await produce(brokers[leader], "t", b"kept")
    await brokers.stop(*others)
    survivor = brokers[leader]
    group_id = survivor.parts.topics.find("t").partitions[0].group_id
    while survivor.node.leader_of(group_id).is_here:
        await survivor.node.leader_changed(group_id, soon())
    with pytest.raises(NoLeader) as raised:
        await produce(survivor, "t", b"refused", ms=400)
    assert raised.value.outcome == "failed"
    assert await fetch_values(survivor, "t") == [b"kept"]
    with pytest.raises(NoLeader):
        await survivor.create_topic("u", 1, deadline=deadline_in(400))
    waiting = asyncio.ensure_future(produce(survivor, "t", b"patient", ms=20_000))
    await brokers.start(others[0])
    assert await waiting == [1]
    assert await fetch_values(survivor, "t") == [b"kept", b"patient"]


async def test_a_broker_that_was_down_follows_the_recreation_of_a_topic(brokers):
    await brokers[1].create_topic("t", 1, deadline=soon())
    await produce(brokers[1], "t", b"old")
    await brokers.stop(3)
    await brokers[1].delete_topic("t", deadline=soon())
    second = await brokers[1].create_topic("t", 1, 2, deadline=soon())
    await produce(brokers[2], "t", b"new")
    await brokers.start(3)
    assert await fetch_values(brokers[3], "t") == [b"new"]
    assert (await brokers[3].describe_topic("t", deadline=soon())).topic_id == second.topic_id
    names = {group.path for group in brokers[3].node.driver.groups.values()}
    assert not any(path.endswith("/t/0") for path in names)


async def test_offline_recovery_refuses_a_replica_that_has_others(brokers, tmp_path):
    await brokers[1].create_topic("t", 1, deadline=soon())
    await produce(brokers[1], "t", b"kept")
    await brokers.stop()
    done = CliRunner().invoke(log, ["recover", str(tmp_path / "1" / "t" / "0"), "--accept-loss"])
    assert isinstance(done.exception, CommandFailed)
    assert "one of 3 replicas" in str(done.exception)


async def test_uncommitted_records_are_read_through_any_broker(brokers):
    await brokers[1].create_topic("uncommitted", 1, deadline=soon())
    await brokers[1].produce_records("uncommitted", 0, [NewRecord(b"value", b"key", 1_000)], deadline=soon())
    for number in (1, 2, 3):
        isolation = Isolation.READ_UNCOMMITTED
        fetched = await brokers[number].fetch(
            "uncommitted", 0, Offset(0), max_bytes=1_000, deadline=soon(), isolation=isolation
        )
        assert len(fetched.batches) == 1
        assert (await brokers[number].offsets("uncommitted", 0, deadline=soon(), isolation=isolation)).end == 1
        found = await brokers[number].offset_for_timestamp(
            "uncommitted", 0, 1_000, deadline=soon(), isolation=isolation
        )
        assert found == (0, 1_000)
