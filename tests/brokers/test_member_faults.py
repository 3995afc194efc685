"""Raft configuration changes while brokers are down, crash or return: no acknowledged write is lost or delayed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from raftlog.errors import RaftlogError, StorageError
from raftlog.partitions.broker import Broker
from raftlog.partitions.controller.machine import CreateTopic
from raftlog.partitions.deadline import deadline_in
from raftlog.raft import Ready, Role
from raftlog.records import NewRecord
from raftlog.runtime.replica.partition_replica import PartitionReplica
from tests.brokers.conftest import Brokers, brokers_in
from tests.brokers.test_moves import (
    WITHIN_S,
    assign,
    find_group,
    is_member_everywhere,
    read,
    until,
    voter_nodes,
    write,
)


@pytest.fixture
async def four(tmp_path: Path) -> AsyncIterator[Brokers]:
    """Start four brokers with the balancer off; only the tests change configurations."""
    async with brokers_in(tmp_path, 4) as brokers:
        await brokers.start()
        await brokers[1].operations.cluster.alter_cluster_config(
            {"balancer.mode": "off", "leaders.balance": False}, deadline=deadline_in(10_000)
        )
        await brokers[1].create_topic("t", 1, 3, deadline=deadline_in(10_000))
        await assign(brokers[1], "t", [1, 2, 3])
        await until(lambda: is_member_everywhere(brokers, "t", {1, 2, 3}))
        yield brokers


async def transfer_leadership(brokers: Brokers, node: int) -> None:
    await brokers[4].operations.leadership.transfer_leadership("t", 0, node, deadline=deadline_in(10_000))


def role_of(broker: Broker) -> Role:
    group = find_group(broker, "t")
    assert group is not None
    return group.core.role


@asynccontextmanager
async def keep_writing(broker: Broker, acknowledged: list[bytes], tried: list[bytes]) -> AsyncIterator[None]:
    """Write one record after another; note each acknowledged one."""

    async def write_until_cancelled() -> None:
        while True:
            value = b"w%d" % len(tried)
            tried.append(value)
            with suppress(RaftlogError):
                [result] = await broker.produce_records(
                    "t", 0, [NewRecord(value, None, 1_000)], deadline=deadline_in(5_000)
                )
                if result.error is None:
                    acknowledged.append(value)

    task = asyncio.create_task(write_until_cancelled())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_f33_a_node_is_removed_while_it_is_partitioned_and_two_more_crash(four: Brokers) -> None:
    """Neither configuration, old or new, has a quorum: nothing is acknowledged, so nothing is lost."""
    await transfer_leadership(four, 1)
    await write(four[1], "t", b"before")
    await four.stop(3)
    await assign(four[1], "t", [1, 2, 4])
    await until(lambda: is_member_everywhere(four, "t", {1, 2, 4}))
    await write(four[4], "t", b"after")
    await four.stop(1, 2)
    returning = asyncio.create_task(four.start(3))
    try:
        await until(lambda: 3 in four.running and four[3].node.is_connected(four[4].node_id))
        late = [NewRecord(b"late", None, 1_000)]
        [result] = await four[4].produce_records("t", 0, late, deadline=deadline_in(2_000))
        assert result.error is not None, "a minority of either configuration took a record"
        await four.start(1)
        await asyncio.wait_for(returning, WITHIN_S)
    finally:
        returning.cancel()
    for node in (1, 3, 4):
        found = await read(four[node], "t")
        assert found == [
            b"before",
            b"after",
            *([b"late"] if len(found) > 2 and result.error.outcome == "unknown" else []),
        ]
    await until(lambda: find_group(four[3], "t") is None)


async def test_f34_a_learner_is_promoted_and_the_leader_crashes_at_once(four: Brokers) -> None:
    await transfer_leadership(four, 1)
    died = asyncio.get_running_loop().create_future()
    before = four[1].node.on_step

    def crash_after_promotion(group: PartitionReplica, ready: Ready) -> None:
        before(group, ready)
        configuration = group.core.configuration
        is_promoted = any(voter.node_id == 4 for voter in configuration.voters) and not configuration.is_joint
        if group.name == "t/0" and is_promoted and not died.done():
            died.set_result(None)
            four[1].node.fail(StorageError("it dies here"))

    four[1].node.on_step = crash_after_promotion
    acknowledged: list[bytes] = []
    tried: list[bytes] = []
    async with keep_writing(four[3], acknowledged, tried):
        await until(lambda: len(acknowledged) > 20)
        await assign(four[3], "t", [1, 3, 4])
        async with asyncio.timeout(WITHIN_S):
            await died
            await four[1].node.ended
        await four.stop(1)
        seen = len(acknowledged)
        await until(lambda: len(acknowledged) > seen + 20)
    await until(lambda: role_of(four[4]) is Role.LEADER or role_of(four[3]) is Role.LEADER)
    if role_of(four[4]) is not Role.LEADER:
        await four[3].operations.leadership.transfer_leadership("t", 0, 4, deadline=deadline_in(10_000))
    found = await read(four[4], "t")
    assert [value for value in found if value in {*acknowledged}] == acknowledged, "in their order, each once"
    assert {*found} <= {*tried}


async def test_f36_a_removed_node_that_returns_disturbs_no_group(four: Brokers) -> None:
    """The node has not received its removal and has no leader: its campaigns change no term."""
    await transfer_leadership(four, 1)
    await four.stop(3)
    await assign(four[1], "t", [1, 2, 4])
    await until(lambda: is_member_everywhere(four, "t", {1, 2, 4}))
    group = find_group(four[1], "t")
    assert group is not None
    term = group.core.term
    await four.start(3)
    await until(lambda: find_group(four[3], "t") is None)
    assert (group.core.role, group.core.term) == (Role.LEADER, term)
    await write(four[3], "t", b"x")


async def test_two_moves_of_one_partition_end_with_the_later_one(four: Brokers) -> None:
    """The second request arrives while the first move is in progress."""
    await transfer_leadership(four, 1)
    await write(four[1], "t", *(b"%d" % number for number in range(100)))
    await assign(four[1], "t", [4, 2, 1])

    def has_begun() -> bool:
        group = find_group(four[1], "t")
        return group is not None and bool(group.core.configuration.learners or group.core.configuration.is_joint)

    await until(lambda: has_begun() or is_member_everywhere(four, "t", {1, 2, 4}))
    await four[2].operations.partitions.set_replicas("t", 0, [3, 4, 2], deadline=deadline_in(10_000))
    await until(lambda: is_member_everywhere(four, "t", {2, 3, 4}))
    assert len(await read(four[3], "t")) == 100


async def test_a_replica_that_is_created_after_its_removal_was_decided_is_deleted(four: Brokers) -> None:
    """Its creation ends after the assignment that removes it; the other replicas continue without it."""
    is_moved, is_made = asyncio.Event(), asyncio.Event()
    make = four[4].node.create_groups

    async def create_late(*creations: Any) -> None:
        await is_moved.wait()
        await make(*creations)
        is_made.set()

    four[4].node.create_groups = create_late  # type: ignore[method-assign]
    state = four[1].metadata.state
    placed = (tuple(state.brokers[node].replica for node in (2, 3, 4)),)
    await four[1].metadata.submit(CreateTopic("u", UUID(int=9), placed, (), 5_000), deadline_in(10_000))
    await assign(four[1], "u", [2, 3])
    await until(lambda: voter_nodes(four[4], "u") == [2, 3])
    is_moved.set()
    await until(is_made.is_set)
    await until(lambda: is_member_everywhere(four, "u", {2, 3}))
    await until(lambda: find_group(four[4], "u") is None)
