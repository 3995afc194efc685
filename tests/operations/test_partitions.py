"""Orders about replicas and leaders of partitions: refused, executed once, cancelled."""

import asyncio
import contextlib

import pytest

from raftlog.errors import (
    ChangeRefused,
    InvalidArgument,
    NoLeader,
    OutcomeUnknown,
    UnknownBroker,
    UnknownPartition,
    UnknownTopic,
    VersionConflict,
)
from raftlog.partitions.broker import Broker
from raftlog.partitions.controller.machine import GroupName, SetAssignment
from raftlog.partitions.deadline import Deadline
from raftlog.values.placement import CancelledReassignment, LocalSummary
from tests.brokers.conftest import Brokers
from tests.operations.conftest import assigned, soon, voters, write
from tests.waiting import until, until_async


@pytest.fixture
async def unplanned(four: Brokers) -> Brokers:
    """Return four brokers with balancing switched off."""
    settings = {"balancer.mode": "off", "leaders.balance": False}
    await four[1].operations.cluster.alter_cluster_config(settings, deadline=soon())
    await four[1].create_topic("t", 1, 3, deadline=soon())
    return four


async def test_replicas_go_where_they_are_ordered(unplanned: Brokers) -> None:
    operations = unplanned[4].operations
    for nodes in ([2, 3, 4], [1], [1, 2, 3, 4], [3, 4]):
        version = await operations.partitions.set_replicas("t", 0, nodes, deadline=soon())
        assert await unplanned[2].operations.partitions.set_replicas("t", 0, nodes, deadline=soon()) == version
        await until(lambda nodes=nodes: all(voters(unplanned[node], "t") == {*nodes} for node in nodes))
        await write(unplanned[1], "t", b"x")
    with pytest.raises(VersionConflict):
        await operations.partitions.set_replicas("t", 0, [1, 2], expected_version=version - 1, deadline=soon())
    await operations.partitions.set_replicas("t", 0, [1, 2], expected_version=version, deadline=soon())


async def test_invalid_values_are_refused(unplanned: Brokers) -> None:
    operations = unplanned[1].operations
    before = assigned(unplanned[1], "t")
    for nodes in ([], [1, 1], [1, 9], [*range(1, 17)]):
        with pytest.raises(InvalidArgument, match="t/0"):
            await operations.partitions.set_replicas("t", 0, nodes, deadline=soon())
    assert assigned(unplanned[1], "t") == before
    with pytest.raises(UnknownTopic):
        await operations.partitions.set_replicas("none", 0, [1], deadline=soon())
    with pytest.raises(UnknownPartition):
        await operations.partitions.set_replicas("t", 1, [1], deadline=soon())
    with pytest.raises(UnknownTopic):
        await operations.leadership.transfer_leadership("none", 0, deadline=soon())
    with pytest.raises(UnknownPartition):
        await operations.partitions.cancel_reconfiguration("t", 1, deadline=soon())
    with pytest.raises(UnknownBroker):
        await operations.partitions.cancel_moves(9, deadline=soon())


async def test_a_move_to_a_stopped_broker_is_reported_and_cancelled(unplanned: Brokers) -> None:
    at = assigned(unplanned[1], "t")
    new = next(node for node in unplanned.running if node not in at)
    asked = unplanned[at[0]]
    await unplanned.stop(new)
    await until(lambda: not asked.node.is_alive(new))
    await asked.operations.partitions.set_replicas("t", 0, [*at[1:], new], deadline=soon())

    async def reports_reason() -> bool:
        moves = await asked.operations.partitions.reconfigurations(deadline=soon())
        return bool(moves) and moves[0].reason == f"node {new} is to get a replica and does not answer"

    await until_async(reports_reason)
    [move] = await asked.operations.partitions.reconfigurations(deadline=soon())
    assert (move.topic, move.partition, {*move.from_nodes}, list(move.to_nodes)) == ("t", 0, {*at}, [*at[1:], new])
    others = unplanned[at[1]].operations
    assert await others.partitions.cancel_moves(at[1], deadline=soon()) == []
    assert await others.partitions.cancel_moves(new, deadline=soon()) == [CancelledReassignment(topic="t", partition=0)]
    assert sorted(assigned(unplanned[at[1]], "t")) == sorted(at)
    await until_async(lambda: _nothing_moves_for(unplanned[at[1]]))
    version = await others.partitions.cancel_reconfiguration("t", 0, deadline=soon())
    assert await others.partitions.cancel_reconfiguration("t", 0, deadline=soon()) == version
    assert await others.partitions.cancel_moves(deadline=soon()) == []
    await write(asked, "t", b"x")


async def test_an_uncancellable_move_keeps_no_other_from_being_cancelled(unplanned: Brokers) -> None:
    """One replica alone could never meet what the topic demands by now."""
    await unplanned[1].create_topic("alone", 1, 1, deadline=soon())
    [at] = assigned(unplanned[1], "alone")
    away = next(node for node in unplanned.running if node not in (at, 1))
    await unplanned.stop(away)
    operations = unplanned[1].operations
    kept = [node for node in assigned(unplanned[1], "t") if node != away]
    await operations.partitions.set_replicas("t", 0, kept, deadline=soon())
    await until_async(lambda: _nothing_moves_for(unplanned[1]))
    await operations.partitions.set_replicas("t", 0, [*kept, away], deadline=soon())
    await operations.partitions.set_replicas("alone", 0, [at, away], deadline=soon())
    await unplanned[1].alter_topic_config("alone", {"min.insync.replicas": "2"}, deadline=soon())
    with pytest.raises(InvalidArgument, match=r"min\.insync\.replicas"):
        await operations.partitions.cancel_reconfiguration("alone", 0, deadline=soon())
    assert await operations.partitions.cancel_moves(deadline=soon()) == [CancelledReassignment(topic="t", partition=0)]


async def test_leadership_goes_where_it_is_ordered_and_stays(unplanned: Brokers) -> None:
    await unplanned[1].operations.cluster.alter_cluster_config({}, ["leaders.balance"], deadline=soon())
    at = assigned(unplanned[1], "t")
    outsider = next(node for node in unplanned.running if node not in at)
    for target in (at[1], at[2], at[2]):
        led = await unplanned[outsider].operations.leadership.transfer_leadership("t", 0, target, deadline=soon())
        assert led == target
        assert assigned(unplanned[outsider], "t")[0] == target
        assert await unplanned.leader("t") == target
    moved: list[int] = []

    async def has_moved() -> bool:
        with contextlib.suppress(ChangeRefused):  # until the new leader has heard from the others
            moved.append(await unplanned[at[0]].operations.leadership.transfer_leadership("t", 0, deadline=soon()))
        return bool(moved)

    await until_async(has_moved)
    [other] = moved
    assert other in {at[0], at[1]}
    assert assigned(unplanned[at[0]], "t")[0] == other
    with pytest.raises(InvalidArgument, match="does not vote"):
        await unplanned[1].operations.leadership.transfer_leadership("t", 0, outsider, deadline=soon())
    with pytest.raises(InvalidArgument, match="broker 9 does not exist"):
        await unplanned[1].operations.leadership.transfer_leadership("t", 0, 9, deadline=soon())


async def test_an_order_that_comes_between_does_not_fail_a_leadership_that_went(unplanned: Brokers) -> None:
    at, metadata = assigned(unplanned[1], "t"), unplanned[1].metadata
    submit = metadata.submit

    async def after_another(command: SetAssignment, deadline: Deadline) -> int:
        metadata.submit = submit  # type: ignore[method-assign]
        await unplanned[1].operations.partitions.set_replicas("t", 0, [at[0], at[2], at[1]], deadline=deadline)
        return await submit(command, deadline)

    metadata.submit = after_another  # type: ignore[method-assign,assignment]
    assert await unplanned[1].operations.leadership.transfer_leadership("t", 0, at[1], deadline=soon()) == at[1]
    assert assigned(unplanned[1], "t") == [at[1], at[0], at[2]]


async def test_a_leadership_that_went_is_not_called_failed(unplanned: Brokers) -> None:
    at, metadata = assigned(unplanned[1], "t"), unplanned[1].metadata

    async def refused(command: SetAssignment, deadline: Deadline) -> int:
        raise NoLeader("the controller has no leader")

    metadata.submit = refused  # type: ignore[method-assign,assignment]
    with pytest.raises(OutcomeUnknown, match=f"node {at[1]} leads now"):
        await unplanned[1].operations.leadership.transfer_leadership("t", 0, at[1], deadline=soon())


async def test_f37_a_target_that_is_dead_is_refused_and_writes_go_on(unplanned: Brokers) -> None:
    at = assigned(unplanned[1], "t")
    leader = await unplanned.leader("t")
    target = next(node for node in at if node != leader)
    asked = next(node for node in unplanned.running if node != target)
    await unplanned.stop(target)
    with pytest.raises(ChangeRefused):
        await unplanned[asked].operations.leadership.transfer_leadership("t", 0, target, deadline=soon())
    await write(unplanned[asked], "t", b"x")
    assert assigned(unplanned[asked], "t") == at


async def test_leadership_is_not_given_to_a_broker_excluded_from_leading(unplanned: Brokers) -> None:
    leader = await unplanned.leader("t")
    target = next(node for node in assigned(unplanned[1], "t") if node != leader)
    await unplanned[1].operations.brokers.set_maintenance(target, True, deadline=soon())
    with pytest.raises(ChangeRefused, match="leads nothing"):
        await unplanned[1].operations.leadership.transfer_leadership("t", 0, target, deadline=soon())
    chosen = await unplanned[1].operations.leadership.transfer_leadership("t", 0, deadline=soon())
    assert chosen not in {leader, target}


async def test_unnamed_partitions_are_where_they_are_assigned(unplanned: Brokers) -> None:
    """Any broker is asked at once after the order: the leader may not have applied it yet, or be another one by now."""
    for turn, nodes in enumerate(([4, 1, 2], [3, 4, 1], [2, 3, 4], [1, 2, 3]), 1):
        await unplanned[turn].operations.partitions.set_replicas("t", 0, nodes, deadline=soon())
        asked = unplanned[turn % 4 + 1]
        await until_async(lambda asked=asked: _nothing_moves_for(asked))
        leader = await unplanned.leader("t")
        assert voters(unplanned[leader], "t") == {*nodes}


async def _nothing_moves_for(broker: Broker) -> bool:
    return not await broker.operations.partitions.reconfigurations(deadline=soon())


async def test_replicas_here(unplanned: Brokers) -> None:
    at = assigned(unplanned[1], "t")
    await write(unplanned[1], "t", b"x")
    for number, broker in unplanned.running.items():
        found = await broker.operations.replicas.local_replicas(deadline=soon())
        assert [(each.topic, each.partition) for each in found] == ([("t", 0)] if number in at else [])
        summary = (int(number in at), 0, 0)
        await until_async(lambda broker=broker, summary=summary: _summary_is(broker, summary))
    leader = await unplanned.leader("t")
    [found] = await unplanned[leader].operations.replicas.local_replicas(deadline=soon())
    assert (found.is_leader, found.status, found.leader_id) == (True, "leads", leader)


async def _summary_is(broker: Broker, summary: tuple[int, int, int]) -> bool:
    return await broker.operations.replicas.local_summary(deadline=soon()) == LocalSummary(*summary)


async def test_two_operators_and_one_partition(unplanned: Brokers) -> None:
    """Orders without a version replace each other; of those with the same one only the first is done."""
    orders = [
        unplanned[1].operations.partitions.set_replicas("t", 0, [1, 2], deadline=soon()),
        unplanned[2].operations.partitions.set_replicas("t", 0, [3, 4], deadline=soon()),
        unplanned[3].operations.partitions.set_replicas("t", 0, [1, 4], deadline=soon()),
    ]
    versions = await asyncio.gather(*orders)
    assert len({*versions}) == 3
    last = {1: {3, 4}, 0: {1, 2}, 2: {1, 4}}[versions.index(max(versions))]
    await until(lambda: all(voters(unplanned[node], "t") == last for node in last))
    version = max(versions)
    done = []
    for node in (1, 2):
        with contextlib.suppress(VersionConflict):
            wanted = [node, 3]
            done.append(
                await unplanned[node].operations.partitions.set_replicas(
                    "t", 0, wanted, expected_version=version, deadline=soon()
                )
            )
    assert len(done) == 1


async def test_a_quiesced_partition_is_transferred_too(unplanned: Brokers) -> None:
    leader = await unplanned.leader("t")
    group_id = unplanned[leader].metadata.state.topic("t").topic_id
    group = unplanned[leader].node.group(GroupName(group_id, 0).group_id)
    assert group is not None
    await until(lambda: group.core.is_quiesced)
    target = next(node for node in assigned(unplanned[1], "t") if node != leader)
    assert await unplanned[target].operations.leadership.transfer_leadership("t", 0, target, deadline=soon()) == target
