"""Replicas that move between brokers during elections and crashes, and stray files in data directories."""

import asyncio
import errno
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from raftlog.errors import OutcomeUnknown, StorageError, VersionConflict
from raftlog.partitions.broker import Broker
from raftlog.partitions.controller.machine import CreateTopic, GroupName, SetAssignment
from raftlog.partitions.deadline import deadline_in
from raftlog.raft import Configuration, Ready, ReplicaId
from raftlog.records import NewRecord, read_records
from raftlog.runtime.process import creations
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.storage.real_disk import RealDisk
from tests.brokers.conftest import Brokers, brokers_in
from tests.waiting import WITHIN_S, until


@pytest.fixture
async def four(tmp_path: Path) -> AsyncIterator[Brokers]:
    async with brokers_in(tmp_path, 4) as brokers:
        await brokers.start()
        yield brokers


def group_name(broker: Broker, topic: str) -> GroupName:
    return GroupName(broker.metadata.state.topic(topic).topic_id, 0)


def find_group(broker: Broker, topic: str) -> PartitionReplica | None:
    return broker.node.find_replica(group_name(broker, topic).group_id)


def voter_nodes(broker: Broker, topic: str) -> list[int]:
    return [replica.node_id for replica in broker.metadata.state.assignment(group_name(broker, topic)).replicas]


def is_member_everywhere(brokers: Brokers, topic: str, nodes: set[int]) -> bool:
    """Return whether exactly these nodes have a replica and vote, according to each of them."""
    for number, broker in brokers.running.items():
        group = find_group(broker, topic)
        if (group is not None) != (number in nodes):
            return False
        if group is not None and {voter.node_id for voter in group.core.configuration.all_members()} != nodes:
            return False
    return True


async def assign(broker: Broker, topic: str, nodes: list[int]) -> None:
    await broker.metadata.barrier(deadline_in(10_000))  # another one may have made the topic
    state = broker.metadata.state
    name = group_name(broker, topic)
    replicas = tuple(state.brokers[node].replica for node in nodes)
    command = SetAssignment(name.topic_id, 0, replicas, state.assignment(name).version)
    await broker.metadata.submit(command, deadline_in(10_000))


async def write(broker: Broker, topic: str, *values: bytes) -> None:
    records = [NewRecord(value, None, 1_000) for value in values]
    results = await broker.produce_records(topic, 0, records, deadline=deadline_in(10_000))
    assert [result.error for result in results] == [None] * len(values)


async def read(broker: Broker, topic: str) -> list[bytes]:
    end = (await broker.offsets(topic, 0, linearizable=True, deadline=deadline_in(10_000))).end
    values: list[bytes] = []
    while len(values) < end:
        fetched = await broker.fetch(topic, 0, len(values), max_bytes=1 << 20, deadline=deadline_in(10_000))
        values += [record.value or b"" for batch in fetched.batches for record in read_records(batch)][:end]
    return values


def watch_joining(broker: Broker, number: int, joined: list[int]) -> None:
    """Append `number` to `joined` for every group that the broker creates as an empty replica."""
    join = broker.node.join_groups

    async def note_and_join(joining: Any) -> None:
        joined.extend(number for _ in joining)
        await join(joining)

    broker.node.join_groups = note_and_join  # type: ignore[method-assign]


async def test_a_replica_moves_during_writes(four: Brokers, tmp_path: Path) -> None:
    """The replica moves off a follower, then off the leader; its directory is removed and no record is lost."""
    await four[1].create_topic("t", 1, 3, deadline=deadline_in(10_000))
    written = [b"first"]
    await write(four[1], "t", b"first")
    for goes in ("follower", "leader"):
        at = voter_nodes(four[1], "t")
        leader = await four.leader("t")
        old = leader if goes == "leader" else next(node for node in at if node != leader)
        new = next(node for node in four.running if node not in at)
        await assign(four[2], "t", [new if node == old else node for node in at])
        target = {*at} - {old} | {new}
        while not is_member_everywhere(four, "t", target):
            written.append(b"%d" % len(written))
            await write(four[len(written) % 4 + 1], "t", written[-1])
        await until(lambda old=old: not (tmp_path / str(old) / "t").exists())
    for broker in four.running.values():
        assert await read(broker, "t") == written
    state = four[1].metadata.state
    replicas = state.assignment(group_name(four[1], "t")).replicas
    late = SetAssignment(state.topic("t").topic_id, 0, replicas, state.topic("t").created_index)
    with pytest.raises(VersionConflict):
        await four[1].metadata.submit(late, deadline_in(10_000))


async def test_a_replica_returns_to_a_disk_that_had_it(four: Brokers) -> None:
    """The replica begins empty and without the first roll, because its former votes must not be given twice."""
    await four[1].create_topic("t", 1, 3, deadline=deadline_in(10_000))
    at = voter_nodes(four[1], "t")
    new = next(node for node in four.running if node not in at)
    joined: list[int] = []
    for number, broker in four.running.items():
        watch_joining(broker, number, joined)
    for nodes in ([new, *at[1:]], at):
        await write(four[1], "t", b"x")
        await assign(four[1], "t", nodes)
        await until(lambda nodes=nodes: is_member_everywhere(four, "t", set(nodes)))
    assert len(await read(four[at[0]], "t")) == 2
    assert joined == [new, at[0]]


@pytest.mark.parametrize("first", [[4], [3, 4]])
async def test_a_partition_begins_that_was_moved_before_its_first_replicas_existed(
    four: Brokers, first: list[int]
) -> None:
    """Without a quorum of its first replicas, the group cannot fill those to which it is moved."""
    rows = four[1].metadata.state.brokers
    placed = (tuple(rows[node].replica for node in first),)
    await four.stop(*first[-1:])
    await four[1].metadata.submit(CreateTopic("t", UUID(int=9), placed, (), 5_000), deadline_in(10_000))
    await assign(four[1], "t", [1, 2])
    await until(lambda: find_group(four[2], "t") is not None)
    await four.start(*first[-1:])
    await until(lambda: is_member_everywhere(four, "t", {1, 2}))
    await write(four[3], "t", b"x")
    assert await read(four[2], "t") == [b"x"]
    await four.stop(4)
    await four.start(4)
    await four[4].metadata.barrier(deadline_in(10_000))
    assert find_group(four[4], "t") is None


async def write_until_known(broker: Broker, topic: str, value: bytes) -> None:
    """Write the value once more whenever the outcome is unknown, as when the leader is removed during the write."""
    while True:
        results = await broker.produce_records(topic, 0, [NewRecord(value, None, 1_000)], deadline=deadline_in(10_000))
        if not isinstance(results[0].error, OutcomeUnknown):
            assert results[0].error is None
            return


async def test_the_replication_factor_is_raised_and_lowered(four: Brokers) -> None:
    await four[1].create_topic("t", 1, 1, deadline=deadline_in(10_000))
    await write(four[1], "t", b"x")
    for nodes in ([1, 2, 3], [1, 2, 3, 4], [3, 4], [2]):
        await assign(four[1], "t", nodes)
        await until(lambda nodes=nodes: is_member_everywhere(four, "t", set(nodes)))
        await write(four[3], "t", b"x")
    assert len(await read(four[4], "t")) == 5


@pytest.mark.parametrize("when", ["a learner was added", "the change is joint"])
async def test_a_new_leader_completes_the_move_of_a_crashed_leader(four: Brokers, when: str) -> None:
    await four[1].create_topic("t", 1, 3, deadline=deadline_in(10_000))
    await write(four[1], "t", b"first")
    at, leader = voter_nodes(four[1], "t"), await four.leader("t")
    old = next(node for node in at if node != leader)
    new = next(node for node in four.running if node not in at)
    died = asyncio.get_running_loop().create_future()

    def is_due(configuration: Configuration) -> bool:
        return configuration.is_joint if when == "the change is joint" else bool(configuration.learners)

    before = four[leader].node.on_step

    def crash_when_due(group: PartitionReplica, ready: Ready) -> None:
        before(group, ready)
        if group.name == "t/0" and is_due(group.core.configuration) and not died.done():
            died.set_result(None)
            four[leader].node.fail(StorageError("it dies here"))

    four[leader].node.on_step = crash_when_due
    asker = next(node for node in four.running if node not in (leader, old, new))
    await assign(four[asker], "t", [new if node == old else node for node in at])
    async with asyncio.timeout(WITHIN_S):
        await died
        await four[leader].node.ended
    await four.stop(leader)
    await write_until_known(four[asker], "t", b"second")
    await four.start(leader)
    target = {*at} - {old} | {new}
    await until(lambda: is_member_everywhere(four, "t", target))
    for broker in four.running.values():
        first, *rest = await read(broker, "t")
        assert (first, set(rest)) == (b"first", {b"second"})


async def test_many_simultaneous_moves_all_complete(four: Brokers) -> None:
    await four[1].create_topic("t", 24, 3, deadline=deadline_in(10_000))
    state = four[1].metadata.state
    topic = state.topic("t")
    for number, replicas in enumerate(state.replicas_of(topic)):
        new = next(row.replica for row in state.all_brokers() if row.replica not in replicas)
        command = SetAssignment(topic.topic_id, number, (new, *replicas[1:]), topic.created_index)
        await four[1].metadata.submit(command, deadline_in(10_000))

    def members(broker: Broker, number: int) -> tuple[ReplicaId, ...]:
        group = broker.node.find_replica(GroupName(topic.topic_id, number).group_id)
        return () if group is None else group.core.configuration.all_members()

    wanted = [tuple(sorted(replicas)) for replicas in four[1].metadata.state.replicas_of(topic)]
    await until(
        lambda: all(
            members(four[replica.node_id], number) == replicas
            for number, replicas in enumerate(wanted)
            for replica in replicas
        )
    )
    await until(lambda: sum(len(broker.node.driver.groups) for broker in four.running.values()) == 3 * 24 + 4)


async def test_a_broker_that_was_down_drops_the_replicas_of_a_recreated_topic(brokers: Brokers, tmp_path: Path) -> None:
    """F40: neither the records of the deleted topic nor its directories return."""
    await brokers[1].create_topic("t", 2, 3, deadline=deadline_in(10_000))
    await write(brokers[1], "t", b"old", b"older")
    await brokers.stop(3)
    await brokers[1].delete_topic("t", deadline=deadline_in(10_000))
    await brokers[1].create_topic("t", 2, 3, deadline=deadline_in(10_000))
    await write(brokers[2], "t", b"new")
    await brokers.start(3)
    await until(lambda: is_member_everywhere(brokers, "t", {1, 2, 3}))
    assert await read(brokers[3], "t") == [b"new"]
    assert not (tmp_path / "3" / ".raftlog" / "unknown").exists(), "it was known to be deleted"
    await until(lambda: not list((tmp_path / "3" / ".raftlog" / "trash").iterdir()))


async def test_a_stray_directory_at_the_path_of_a_replica_is_set_aside(brokers: Brokers, tmp_path: Path) -> None:
    """A directory at the path of a replica to be created is kept aside and never served."""
    await brokers.stop(3)
    await brokers[1].create_topic("other", 1, 2, deadline=deadline_in(10_000))
    await write(brokers[1], "other", b"of another topic")
    await brokers[1].create_topic("t", 1, 2, deadline=deadline_in(10_000))
    await write(brokers[1], "t", b"x")
    shutil.copytree(tmp_path / "1" / "other" / "0", tmp_path / "3" / "t" / "0")
    await assign(brokers[1], "t", [1, 2, 3])
    await brokers.start(3)
    await until(lambda: is_member_everywhere(brokers, "t", {1, 2, 3}))
    assert await read(brokers[3], "t") == [b"x"]
    assert [each.name for each in (tmp_path / "3" / ".raftlog" / "unknown").iterdir()] == ["0-0"]


async def test_a_replica_with_a_lost_directory_is_refilled_by_its_leader(brokers: Brokers, tmp_path: Path) -> None:
    """The replica detects its loss: it votes for no candidate with a shorter log, and its leader refills it."""
    await brokers[1].create_topic("t", 1, 3, deadline=deadline_in(10_000))
    await write(brokers[1], "t", *(b"%d" % value for value in range(50)))
    number = (await brokers.followers("t"))[0]
    await until(lambda: find_group(brokers[number], "t").high_watermark == 50)  # type: ignore[union-attr]
    await brokers.stop(number)
    shutil.rmtree(tmp_path / str(number) / "t")
    await brokers.start(number)
    group = find_group(brokers[number], "t")
    assert group is not None
    await until(lambda: group.high_watermark == 50 and group.core.voting_position is None)
    await write(brokers[number], "t", b"more")
    assert len(await read(brokers[number], "t")) == 51


async def test_a_stray_directory_stays_in_place_while_the_disk_is_full(
    brokers: Brokers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica that needs its place waits for room, and the broker runs meanwhile."""
    await brokers.stop(3)
    for topic in ("t", "other"):
        await brokers[1].create_topic(topic, 1, 2, deadline=deadline_in(10_000))
        await write(brokers[1], topic, b"x")
    shutil.copytree(tmp_path / "1" / "other" / "0", tmp_path / "3" / "t" / "0")
    (tmp_path / "3" / "stray").mkdir()
    await assign(brokers[1], "t", [1, 2, 3])
    make_directory = RealDisk.make_directory
    kept = tmp_path / "3" / ".raftlog" / "unknown"

    def refuse(disk: RealDisk, path: str) -> None:
        if path == str(kept):
            raise OSError(errno.ENOSPC, "No space left on device")
        make_directory(disk, path)

    with monkeypatch.context() as full:
        full.setattr(RealDisk, "make_directory", refuse)
        await brokers.start(3)
        await brokers[3].metadata.barrier(deadline_in(10_000))
        assert not brokers[3].node.ended.done()
        assert find_group(brokers[3], "t") is None
    await until(lambda: is_member_everywhere(brokers, "t", {1, 2, 3}))
    assert await read(brokers[3], "t") == [b"x"]
    assert (tmp_path / "3" / "stray").exists()
    assert [each.name for each in kept.iterdir()] == ["0-0"]


async def test_partitions_are_served_whose_replicas_were_created_before_the_disk_was_full(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(creations, "_BATCH", 1)
    make_directory = RealDisk.make_directory

    def refuse(disk: RealDisk, path: str) -> None:
        if "/t/1" in path:
            raise OSError(errno.ENOSPC, "No space left on device")
        make_directory(disk, path)

    def forget_observers() -> None:
        """Stop to follow the controller's state, as if nothing changed any more after the topic was created."""
        if brokers[2].metadata.state.has_topic("t"):
            brokers[2].metadata.observers.clear()

    brokers[2].metadata.observers.append(forget_observers)
    with monkeypatch.context() as full:
        full.setattr(RealDisk, "make_directory", refuse)
        await brokers[1].create_topic("t", 2, None, deadline=deadline_in(2_000), assignments=[[2], [2]])
        await write(brokers[1], "t", b"x")
        assert await read(brokers[2], "t") == [b"x"]
        assert group_name(brokers[2], "t")._replace(partition=1).group_id.bytes not in brokers[2].node.driver.groups
