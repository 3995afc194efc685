"""Topics that get more partitions in a cluster: under writes, failures and concurrent requests, and with consumers."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from raftlog.errors import (
    InvalidArgument,
    RaftlogError,
    RebalanceInProgress,
    StaleGeneration,
    UnknownPartition,
    UnknownTopic,
)
from raftlog.partitions.broker import Broker
from raftlog.partitions.controller import first_start
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.groups.results import OffsetCommit
from raftlog.partitions.groups.service import OFFSETS_TOPIC
from raftlog.records import NewRecord, read_records
from raftlog.records.partitioner import murmur2
from raftlog.runtime.config import DriverConfig
from raftlog.types import FEATURE_LEVEL_KNOWN, NodeId, Offset, TopicPartition
from tests.brokers.conftest import Brokers, brokers_in
from tests.brokers.members import G, Member
from tests.small_journal import SMALL_JOURNAL
from tests.waiting import until, until_async


def soon() -> Deadline:
    return deadline_in(20_000)


@pytest.fixture
async def topic(tmp_path: Path) -> AsyncIterator[Brokers]:
    """Start three brokers with a topic of two partitions.

    They have the election timeouts of the product, and never count as stalled: two tests compare leaders before and
    after, and leaders change when the machine holds this process up."""
    settings: Any = {
        "group_initial_rebalance_delay_ms": 0,
        "offsets_partitions": 1,
        "driver": DriverConfig(stall_ms=60_000, journal=SMALL_JOURNAL.journal),
    }
    async with brokers_in(tmp_path, **settings) as brokers:
        await brokers.start()
        await brokers[1].create_topic("t", 2, deadline=soon())
        yield brokers


async def write(broker: Broker, value: bytes, partition: int | None = None, key: bytes | None = None) -> int:
    """Append a record; return its partition."""
    [result] = await broker.produce_records("t", partition, [NewRecord(value, key)], deadline=soon())
    if result.error is not None:
        raise result.error
    return result.partition


async def fetch_values(broker: Broker, partition: int) -> list[bytes]:
    end = (await broker.offsets("t", partition, linearizable=True, deadline=soon())).end
    found: list[bytes] = []
    while len(found) < end:
        fetched = await broker.fetch("t", partition, len(found), max_bytes=1 << 20, deadline=soon())
        found += [record.value or b"" for batch in fetched.batches for record in read_records(batch)]
    return found


async def fetch_leader_terms(broker: Broker) -> list[tuple[int | None, int | None]]:
    """Return leader and term of each partition."""
    described = await broker.describe_topic("t", deadline=soon())
    return [(each.leader, each.leader_epoch) for each in described.partitions]


async def has_all_replicas_in_sync(broker: Broker, count: int) -> bool:
    """Return whether the topic has this number of partitions, each with all replicas in sync."""
    partitions = (await broker.describe_topic("t", deadline=soon())).partitions
    return len(partitions) == count and all(sorted(each.in_sync) == sorted(each.replicas) for each in partitions)


async def test_every_broker_sees_new_partitions_and_the_others_stay(topic: Brokers) -> None:
    await write(topic[1], b"before", 1)
    before, topic_id = (
        await fetch_leader_terms(topic[1]),
        (await topic[1].describe_topic("t", deadline=soon())).topic_id,
    )
    grown = await topic[2].create_partitions("t", 6, deadline=soon())
    assert (grown.topic_id, len(grown.partitions)) == (topic_id, 6)
    assert [len(each.replicas) for each in grown.partitions] == [3] * 6
    preferred = [each.replicas[0] for each in grown.partitions]
    assert sorted(preferred.count(node) for node in (1, 2, 3)) == [2, 2, 2], "the spread goes on"
    for number in (1, 2, 3):
        for partition in range(2, 6):
            assert await write(topic[number], b"%d" % number, partition) == partition
    assert await fetch_values(topic[3], 5) == [b"1", b"2", b"3"]
    assert await fetch_values(topic[3], 1) == [b"before"]
    assert (await fetch_leader_terms(topic[3]))[:2] == before
    for number in (1, 2, 3):
        key = b"some key"
        assert await write(topic[number], b"k", key=key) == (murmur2(key) & 0x7FFFFFFF) % 6
    assert {await write(topic[1], b"r") for _ in range(6)} == set(range(6)), "in turn without a key"


async def test_a_topic_grows_under_writes_without_a_loss_or_an_election(topic: Brokers) -> None:
    acknowledged: list[tuple[int, bytes]] = []
    before, has_ended = await fetch_leader_terms(topic[1]), False

    async def keep_writing(number: int) -> None:
        sequence = 0
        while not has_ended:
            value = b"%d-%d" % (number, sequence)
            acknowledged.append((await write(topic[number], value, key=value), value))
            sequence += 1

    clients = [asyncio.create_task(keep_writing(number)) for number in (1, 2, 3)]
    for total in (3, 5, 12):
        count = len(acknowledged)
        await until(lambda count=count: len(acknowledged) >= count + 30)
        await topic[1 + total % 3].create_partitions("t", total, deadline=soon())
    count = len(acknowledged)
    await until(lambda: len(acknowledged) >= count + 100)
    has_ended = True
    await asyncio.gather(*clients)
    stored = [(partition, value) for partition in range(12) for value in await fetch_values(topic[1], partition)]
    assert sorted(stored) == sorted(acknowledged)
    assert {partition for partition, _ in acknowledged} == set(range(12))
    assert (await fetch_leader_terms(topic[1]))[:2] == before


async def test_invalid_additions_are_refused(topic: Brokers) -> None:
    for total in (0, 1, 2):
        with pytest.raises(InvalidArgument, match="topic 't' has 2 partitions; partitions can only be added"):
            await topic[3].create_partitions("t", total, deadline=soon())
    with pytest.raises(InvalidArgument, match="set 3 to 10000"):
        await topic[3].create_partitions("t", 10_001, deadline=soon())
    with pytest.raises(UnknownTopic):
        await topic[3].create_partitions("u", 4, deadline=soon())
    await topic[1].groups.commit(G, {TopicPartition("t", 0): OffsetCommit(Offset(0))}, deadline=soon())
    with pytest.raises(InvalidArgument, match="internal"):
        await topic[3].create_partitions(OFFSETS_TOPIC, 4, deadline=soon())
    with pytest.raises(UnknownPartition, match="it has partitions 0 to 1"):
        await topic[3].offsets("t", 2, deadline=soon())
    with pytest.raises(UnknownPartition):
        await write(topic[3], b"", 2)


async def test_a_dry_run_adds_nothing_and_shows_the_placement(topic: Brokers) -> None:
    planned = await topic[2].create_partitions("t", 4, deadline=soon(), validate_only=True)
    assert [(each.partition, each.leader is None) for each in planned.partitions][2:] == [(2, True), (3, True)]
    assert all(len(set(each.replicas)) == 3 for each in planned.partitions)
    assert len((await topic[2].describe_topic("t", deadline=soon())).partitions) == 2
    with pytest.raises(InvalidArgument, match="can only be added"):
        await topic[2].create_partitions("t", 2, deadline=soon(), validate_only=True)


async def test_an_addition_that_this_broker_cannot_see_yet_is_described(
    topic: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def execute_elsewhere(*_: object) -> int:
        return 1

    monkeypatch.setattr(topic[2].metadata, "submit", execute_elsewhere)
    described = await topic[2].create_partitions("t", 4, deadline=soon())
    assert [(each.partition, each.leader is None) for each in described.partitions][2:] == [(2, True), (3, True)]


async def test_partitions_are_added_on_the_named_brokers(topic: Brokers) -> None:
    for assignments, why in (
        ([[1, 2, 3]], "gets 2 partitions, and 1 assignments are given"),
        ([[1, 2, 3], [1, 2]], "t/3 needs 3 brokers"),
        ([[1, 2, 3], [1, 1, 2]], "each once"),
        ([[1, 2, 3], [1, 2, 9]], "no broker has the node id 9; the brokers are 1, 2, 3"),
    ):
        with pytest.raises(InvalidArgument, match=why):
            await topic[1].create_partitions("t", 4, assignments, deadline=soon())
    grown = await topic[1].create_partitions("t", 4, [[2, 3, 1], [3, 1, 2]], deadline=soon())
    assert [list(each.replicas) for each in grown.partitions][2:] == [[2, 3, 1], [3, 1, 2]]


async def test_one_of_concurrent_requests_for_the_same_number_succeeds(topic: Brokers) -> None:
    answers = await asyncio.gather(
        *(topic[number].create_partitions("t", 4, deadline=soon()) for number in (1, 2, 3)), return_exceptions=True
    )
    refused = [answer for answer in answers if isinstance(answer, InvalidArgument)]
    assert len(refused) == 2, answers
    assert {str(each) for each in refused} == {"topic 't' has 4 partitions; partitions can only be added"}
    assert len((await topic[1].describe_topic("t", deadline=soon())).partitions) == 4


async def test_concurrent_requests_for_several_numbers_end_with_the_largest(topic: Brokers) -> None:
    answers = await asyncio.gather(
        *(topic[number].create_partitions("t", 4 + number, deadline=soon()) for number in (1, 2, 3)),
        return_exceptions=True,
    )
    assert all(isinstance(answer, InvalidArgument) for answer in answers if isinstance(answer, BaseException))
    for number in (1, 2, 3):
        await topic[number].metadata.barrier(soon())
        assert len(topic[number].outline_topics()[0].partitions) == 7
    for partition in range(7):
        assert await write(topic[1], b"x", partition) == partition


async def test_a_broker_that_was_down_creates_its_replicas_when_it_returns(topic: Brokers) -> None:
    await topic.stop(3)
    await topic[1].create_partitions("t", 5, deadline=soon())
    written = [await write(topic[1], b"x", partition) for partition in range(5)]
    await topic.start(3)
    await until_async(lambda: has_all_replicas_in_sync(topic[1], 5))
    assert [len(await fetch_values(topic[3], partition)) for partition in range(5)] == [1] * len(written)


async def test_added_partitions_survive_a_restart_of_all_brokers(topic: Brokers) -> None:
    await topic[1].create_partitions("t", 4, deadline=soon())
    for partition in range(4):
        await write(topic[2], b"x", partition)
    await topic.stop()
    await topic.start()
    await until_async(lambda: has_all_replicas_in_sync(topic[2], 4))
    assert [await fetch_values(topic[3], partition) for partition in range(4)] == [[b"x"]] * 4


async def test_a_broker_restarts_while_partitions_are_added(topic: Brokers) -> None:
    """The request is repeated until it succeeds; the restarted broker creates its replicas like the others."""

    async def grow() -> None:
        """Repeat the request for 5 partitions until it, or an earlier one of unknown outcome, was accepted."""
        while True:
            try:
                await topic[1].create_partitions("t", 5, deadline=deadline_in(2_000))
            except InvalidArgument:  # an earlier attempt was done
                return
            except RaftlogError:
                continue
            return

    growing = asyncio.create_task(grow())
    await topic.stop(2)
    await topic.start(2)
    await growing
    await until_async(lambda: has_all_replicas_in_sync(topic[1], 5))


async def test_a_deletion_and_an_addition_at_the_same_time_leave_no_replicas(topic: Brokers) -> None:
    for _ in range(5):
        deleted, grown = await asyncio.gather(
            topic[2].delete_topic("t", deadline=soon()),
            topic[3].create_partitions("t", 4, deadline=soon()),
            return_exceptions=True,
        )
        assert deleted is None
        assert not isinstance(grown, BaseException) or isinstance(grown, UnknownTopic)
        for number in (1, 2, 3):
            await topic[number].metadata.barrier(soon())
            replicas = topic[number].parts.assignments.replicas
            await until(lambda replicas=replicas: not replicas)
        await topic[1].create_topic("t", 2, deadline=soon())
        assert len((await topic[3].describe_topic("t", deadline=soon())).partitions) == 2


async def test_the_replication_factor_of_an_added_partition_can_change(topic: Brokers) -> None:
    await topic[1].create_partitions("t", 3, deadline=soon())
    await write(topic[1], b"x", 2)
    await topic[2].operations.partitions.set_replicas("t", 2, [3, 1], deadline=soon())
    await until_async(lambda: has_all_replicas_in_sync(topic[1], 3))
    assert [*(await topic[1].describe_topic("t", deadline=soon())).partitions[2].replicas] == [3, 1]
    assert await fetch_values(topic[2], 2) == [b"x"]


async def test_new_partitions_have_as_many_replicas_as_partition_0_has_now(topic: Brokers) -> None:
    for partition in range(2):
        await topic[2].operations.partitions.set_replicas("t", partition, [3], deadline=soon())
    grown = await topic[1].create_partitions("t", 3, deadline=soon())
    assert len(grown.partitions[2].replicas) == 1


async def test_a_broker_with_stale_metadata_finds_an_added_partition(
    topic: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker's copy of the controller's state is not updated until requests have arrived."""
    late = topic[3]
    copy, barrier = late.metadata._copy, late.metadata.barrier
    is_asked = asyncio.Event()

    async def note_barrier(deadline: Deadline) -> None:
        is_asked.set()
        await barrier(deadline)

    monkeypatch.setattr(late.metadata, "barrier", note_barrier)
    with monkeypatch.context() as patch:
        patch.setattr(copy, "follow", lambda: None)
        await topic[1].create_partitions("t", 4, deadline=soon())
        assert len(late.outline_topics()[0].partitions) == 2
        by_number = asyncio.create_task(write(late, b"x", 3))
        records = [NewRecord(b"y"), NewRecord(b"z")]
        by_list = asyncio.create_task(late.produce_records("t", [0, 2], records, deadline=soon()))
        offsets = asyncio.create_task(late.offsets("t", 2, deadline=soon()))
        await is_asked.wait()
    copy.follow()
    assert await by_number == 3
    assert [(each.partition, each.error) for each in await by_list] == [(0, None), (2, None)]
    assert (await offsets).beginning == 0


async def test_adding_partitions_needs_a_finished_upgrade(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_start, "FEATURE_LEVEL_KNOWN", 1)
    async with brokers_in(tmp_path) as three:
        await three.start()
        await three[1].create_topic("t", 2, deadline=soon())
        for validate_only in (False, True):
            with pytest.raises(InvalidArgument, match=r"needs feature level 2.*`raftlog cluster upgrade --finish`"):
                await three[2].create_partitions("t", 4, deadline=soon(), validate_only=validate_only)
        assert await three[3].operations.cluster.finish_upgrade(deadline=soon()) == FEATURE_LEVEL_KNOWN
        assert len((await three[2].create_partitions("t", 4, deadline=soon())).partitions) == 4


# consumers


async def keep_in_group(member: Member) -> None:
    """Stay in the group, and join it again for each rebalance."""
    while True:
        try:
            await member.begin()
            while True:
                await member.heartbeat(wait_ms=1_000)
        except (RebalanceInProgress, StaleGeneration):
            continue


async def test_group_members_share_the_new_partitions(topic: Brokers) -> None:
    members = [Member(topic[number]) for number in (1, 2)]
    following = [asyncio.create_task(keep_in_group(member)) for member in members]

    def shares() -> list[tuple[int, list[int]]]:
        return [(member.generation, [place.partition for place in member.owned]) for member in members]

    await until(lambda: sorted(numbers for _, numbers in shares()) == [[0], [1]], shares)
    await topic[3].create_partitions("t", 6, deadline=soon())
    await until(lambda: sorted(numbers for _, numbers in shares()) == [[0, 1, 2], [3, 4, 5]], shares)
    for each in following:
        each.cancel()
    await asyncio.gather(*following, return_exceptions=True)


async def test_a_consumer_instance_reads_the_new_partitions_from_their_start(topic: Brokers) -> None:
    settings = {"format": "json", "auto.offset.reset": "earliest", "consumer.request.timeout.ms": 2_000}
    await topic[1].consumers.create(G, "c", settings, deadline=soon())
    await topic[1].consumers.subscribe(G, "c", topics=["t"], pattern=None, deadline=soon())
    found: list[bytes] = []

    async def poll() -> None:
        delivery = await topic[2].consumers.poll(G, "c", wait_ms=500, max_bytes=1 << 20, formats=["json"])
        for piece in delivery.pieces:
            for batch in piece.batches:
                found.extend(
                    record.value or b"" for record in read_records(batch) if piece.offset <= record.offset < piece.end
                )

    await write(topic[1], b"0", 0)
    while found != [b"0"]:
        await poll()
    await topic[3].create_partitions("t", 4, deadline=soon())
    for partition in range(4):
        await write(topic[1], b"%d" % (partition + 1), partition)
    async with asyncio.timeout(60):
        while len(found) < 5:
            await poll()
    assert sorted(found) == [b"0", b"1", b"2", b"3", b"4"]


async def test_offsets_of_new_partitions_are_committed_at_any_broker(topic: Brokers) -> None:
    await topic[1].create_partitions("t", 4, deadline=soon())
    for number in (1, 2, 3):
        wanted = {TopicPartition("t", 3): OffsetCommit(Offset(number))}
        assert list(await topic[number].groups.commit(G, wanted, deadline=soon())) == [TopicPartition("t", 3)]


async def test_a_broker_with_added_partitions_can_be_decommissioned(tmp_path: Path) -> None:
    """The balancer moves added partitions by the version at which they were added."""
    async with brokers_in(tmp_path, 4) as four:
        await four.start()
        await four[1].create_topic("t", 2, deadline=soon())
        await four[1].create_partitions("t", 4, [[4, 1, 2], [1, 4, 3]], deadline=soon())
        await four[1].operations.brokers.decommission(NodeId(4), deadline=soon())
        replica = four[1].metadata.state.broker(NodeId(4)).replica
        await until(lambda: not four[1].metadata.state.groups_of(replica))
        await until_async(lambda: has_all_replicas_in_sync(four[1], 4))
