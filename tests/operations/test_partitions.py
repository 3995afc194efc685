"""Requests about replicas and leaders of partitions: refused, executed once, cancelled."""

import asyncio
import contextlib

import pytest

from raftlog.errors import (
    ChangeRefused,
    InvalidArgument,
    NoLeader,
    OutcomeUnknown,
    Unavailable,
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
from tests.operations.conftest import assigned_nodes, soon, voters, write
from tests.waiting import until, until_async


@pytest.fixture
async def four_without_balancing(four: Brokers) -> Brokers:
    """Return four brokers with the balancer off, and with a topic."""
    settings = {"balancer.mode": "off", "leaders.balance": False}
    await four[1].operations.cluster.alter_cluster_config(settings, deadline=soon())
    await four[1].create_topic("t", 1, 3, deadline=soon())
    return four


async def test_replicas_move_to_the_requested_brokers(four_without_balancing: Brokers) -> None:
    operations = four_without_balancing[4].operations
    for nodes in ([2, 3, 4], [1], [1, 2, 3, 4], [3, 4]):
        version = await operations.partitions.set_replicas("t", 0, nodes, deadline=soon())
        assert (
            await four_without_balancing[2].operations.partitions.set_replicas("t", 0, nodes, deadline=soon())
            == version
        )
        await until(lambda nodes=nodes: all(voters(four_without_balancing[node], "t") == {*nodes} for node in nodes))
        await write(four_without_balancing[1], "t", b"x")
    with pytest.raises(VersionConflict):
        await operations.partitions.set_replicas("t", 0, [1, 2], expected_version=version - 1, deadline=soon())
    await operations.partitions.set_replicas("t", 0, [1, 2], expected_version=version, deadline=soon())


async def test_invalid_values_are_refused(four_without_balancing: Brokers) -> None:
    operations = four_without_balancing[1].operations
    before = assigned_nodes(four_without_balancing[1], "t")
    for nodes in ([], [1, 1], [1, 9], [*range(1, 17)]):
        with pytest.raises(InvalidArgument, match="t/0"):
            await operations.partitions.set_replicas("t", 0, nodes, deadline=soon())
    assert assigned_nodes(four_without_balancing[1], "t") == before
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


async def test_a_move_to_a_stopped_broker_is_reported_and_cancelled(four_without_balancing: Brokers) -> None:
    at = assigned_nodes(four_without_balancing[1], "t")
    new = next(node for node in four_without_balancing.running if node not in at)
    asked = four_without_balancing[at[0]]
    await four_without_balancing.stop(new)
    await until(lambda: not asked.node.is_alive(new))
    await asked.operations.partitions.set_replicas("t", 0, [*at[1:], new], deadline=soon())

    async def reports_reason() -> bool:
        moves = await asked.operations.partitions.reconfigurations(deadline=soon())
        return bool(moves) and moves[0].reason == f"node {new} is to get a replica and does not answer"

    await until_async(reports_reason)
    [move] = await asked.operations.partitions.reconfigurations(deadline=soon())
    assert (move.topic, move.partition, {*move.from_nodes}, list(move.to_nodes)) == ("t", 0, {*at}, [*at[1:], new])
    others = four_without_balancing[at[1]].operations
    assert await others.partitions.cancel_moves(at[1], deadline=soon()) == []
    assert await others.partitions.cancel_moves(new, deadline=soon()) == [CancelledReassignment(topic="t", partition=0)]
    assert sorted(assigned_nodes(four_without_balancing[at[1]], "t")) == sorted(at)
    await until_async(lambda: _has_no_moves(four_without_balancing[at[1]]))
    version = await others.partitions.cancel_reconfiguration("t", 0, deadline=soon())
    assert await others.partitions.cancel_reconfiguration("t", 0, deadline=soon()) == version
    assert await others.partitions.cancel_moves(deadline=soon()) == []
    await write(asked, "t", b"x")


async def test_other_moves_can_be_cancelled_beside_an_uncancellable_one(four_without_balancing: Brokers) -> None:
    """One replica alone could not meet the topic's present `min.insync.replicas`."""
    await four_without_balancing[1].create_topic("alone", 1, 1, deadline=soon())
    [at] = assigned_nodes(four_without_balancing[1], "alone")
    away = next(node for node in four_without_balancing.running if node not in (at, 1))
    await four_without_balancing.stop(away)
    operations = four_without_balancing[1].operations
    kept = [node for node in assigned_nodes(four_without_balancing[1], "t") if node != away]
    await operations.partitions.set_replicas("t", 0, kept, deadline=soon())
    await until_async(lambda: _has_no_moves(four_without_balancing[1]))
    await operations.partitions.set_replicas("t", 0, [*kept, away], deadline=soon())
    await operations.partitions.set_replicas("alone", 0, [at, away], deadline=soon())
    await four_without_balancing[1].alter_topic_config("alone", {"min.insync.replicas": "2"}, deadline=soon())
    with pytest.raises(InvalidArgument, match=r"min\.insync\.replicas"):
        await operations.partitions.cancel_reconfiguration("alone", 0, deadline=soon())
    assert await operations.partitions.cancel_moves(deadline=soon()) == [CancelledReassignment(topic="t", partition=0)]


async def test_a_move_that_no_leader_can_report_is_not_cancelled(four_without_balancing: Brokers) -> None:
    await four_without_balancing[1].create_topic("alone", 1, 1, deadline=soon())
    [at] = assigned_nodes(four_without_balancing[1], "alone")
    asked = four_without_balancing[next(node for node in four_without_balancing.running if node != at)]
    version = await asked.operations.partitions.cancel_reconfiguration("alone", 0, deadline=soon())
    await four_without_balancing.stop(at)
    await until(lambda: not asked.node.is_alive(at))
    with pytest.raises(Unavailable, match="no leader reports whether alone/0 is moving; nothing was cancelled"):
        await asked.operations.partitions.cancel_reconfiguration("alone", 0, deadline=soon())
    await asked.operations.partitions.cancel_reconfiguration("t", 0, deadline=soon())  # its leader answers
    await four_without_balancing.start(at)
    assert await asked.operations.partitions.cancel_reconfiguration("alone", 0, deadline=soon()) == version


async def test_leadership_moves_to_the_requested_broker_and_stays(four_without_balancing: Brokers) -> None:
    await four_without_balancing[1].operations.cluster.alter_cluster_config({}, ["leaders.balance"], deadline=soon())
    at = assigned_nodes(four_without_balancing[1], "t")
    outsider = next(node for node in four_without_balancing.running if node not in at)
    for target in (at[1], at[2], at[2]):
        led = await four_without_balancing[outsider].operations.leadership.transfer_leadership(
            "t", 0, target, deadline=soon()
        )
        assert led == target
        assert assigned_nodes(four_without_balancing[outsider], "t")[0] == target
        assert await four_without_balancing.leader("t") == target
    moved: list[int] = []

    async def has_moved() -> bool:
        with contextlib.suppress(ChangeRefused):  # until the new leader has heard from the others
            moved.append(
                await four_without_balancing[at[0]].operations.leadership.transfer_leadership("t", 0, deadline=soon())
            )
        return bool(moved)

    await until_async(has_moved)
    [other] = moved
    assert other in {at[0], at[1]}
    assert assigned_nodes(four_without_balancing[at[0]], "t")[0] == other
    with pytest.raises(InvalidArgument, match="does not vote"):
        await four_without_balancing[1].operations.leadership.transfer_leadership("t", 0, outsider, deadline=soon())
    with pytest.raises(InvalidArgument, match="broker 9 does not exist"):
        await four_without_balancing[1].operations.leadership.transfer_leadership("t", 0, 9, deadline=soon())


async def test_a_request_in_between_does_not_fail_a_completed_transfer(four_without_balancing: Brokers) -> None:
    at, metadata = assigned_nodes(four_without_balancing[1], "t"), four_without_balancing[1].metadata
    submit = metadata.submit

    async def after_another(command: SetAssignment, deadline: Deadline) -> int:
        metadata.submit = submit  # type: ignore[method-assign]
        await four_without_balancing[1].operations.partitions.set_replicas(
            "t", 0, [at[0], at[2], at[1]], deadline=deadline
        )
        return await submit(command, deadline)

    metadata.submit = after_another  # type: ignore[method-assign,assignment]
    assert (
        await four_without_balancing[1].operations.leadership.transfer_leadership("t", 0, at[1], deadline=soon())
        == at[1]
    )
    assert assigned_nodes(four_without_balancing[1], "t") == [at[1], at[0], at[2]]


async def test_a_completed_transfer_is_not_reported_as_failed(four_without_balancing: Brokers) -> None:
    at, metadata = assigned_nodes(four_without_balancing[1], "t"), four_without_balancing[1].metadata

    async def refused(command: SetAssignment, deadline: Deadline) -> int:
        raise NoLeader("the controller has no leader")

    metadata.submit = refused  # type: ignore[method-assign,assignment]
    with pytest.raises(OutcomeUnknown, match=f"node {at[1]} leads now"):
        await four_without_balancing[1].operations.leadership.transfer_leadership("t", 0, at[1], deadline=soon())


async def test_f37_a_target_that_is_down_is_refused_and_writes_continue(four_without_balancing: Brokers) -> None:
    at = assigned_nodes(four_without_balancing[1], "t")
    leader = await four_without_balancing.leader("t")
    target = next(node for node in at if node != leader)
    asked = next(node for node in four_without_balancing.running if node != target)
    await four_without_balancing.stop(target)
    with pytest.raises(ChangeRefused):
        await four_without_balancing[asked].operations.leadership.transfer_leadership("t", 0, target, deadline=soon())
    await write(four_without_balancing[asked], "t", b"x")
    assert assigned_nodes(four_without_balancing[asked], "t") == at


async def test_leadership_is_not_transferred_to_a_broker_excluded_from_leading(four_without_balancing: Brokers) -> None:
    leader = await four_without_balancing.leader("t")
    target = next(node for node in assigned_nodes(four_without_balancing[1], "t") if node != leader)
    await four_without_balancing[1].operations.brokers.set_maintenance(target, True, deadline=soon())
    with pytest.raises(ChangeRefused, match="leads nothing"):
        await four_without_balancing[1].operations.leadership.transfer_leadership("t", 0, target, deadline=soon())
    chosen = await four_without_balancing[1].operations.leadership.transfer_leadership("t", 0, deadline=soon())
    assert chosen not in {leader, target}


async def test_reconfigurations_include_a_change_from_its_request_on(four_without_balancing: Brokers) -> None:
    """Any broker is asked right after the request: the leader may not have applied it, or may have changed."""
    for turn, nodes in enumerate(([4, 1, 2], [3, 4, 1], [2, 3, 4], [1, 2, 3]), 1):
        await four_without_balancing[turn].operations.partitions.set_replicas("t", 0, nodes, deadline=soon())
        asked = four_without_balancing[turn % 4 + 1]
        await until_async(lambda asked=asked: _has_no_moves(asked))
        leader = await four_without_balancing.leader("t")
        assert voters(four_without_balancing[leader], "t") == {*nodes}


async def _has_no_moves(broker: Broker) -> bool:
    return not await broker.operations.partitions.reconfigurations(deadline=soon())


async def test_each_broker_reports_its_local_replicas(four_without_balancing: Brokers) -> None:
    at = assigned_nodes(four_without_balancing[1], "t")
    await write(four_without_balancing[1], "t", b"x")
    for number, broker in four_without_balancing.running.items():
        replicas = broker.operations.replicas
        if number in at:  # created after the write
            await until_async(lambda replicas=replicas: replicas.local_replicas(deadline=soon()))
        found = await replicas.local_replicas(deadline=soon())
        assert [(each.topic, each.partition) for each in found] == ([("t", 0)] if number in at else [])
        summary = (int(number in at), 0, 0)
        await until_async(lambda broker=broker, summary=summary: _summary_is(broker, summary))
    leader = await four_without_balancing.leader("t")
    [found] = await four_without_balancing[leader].operations.replicas.local_replicas(deadline=soon())
    assert (found.is_leader, found.status, found.leader_id) == (True, "leads", leader)


async def _summary_is(broker: Broker, summary: tuple[int, int, int]) -> bool:
    return await broker.operations.replicas.local_summary(deadline=soon()) == LocalSummary(*summary)


async def test_simultaneous_requests_for_one_partition_are_ordered_by_versions(four_without_balancing: Brokers) -> None:
    """Requests without a version replace each other; of those with the same version only the first succeeds."""
    orders = [
        four_without_balancing[1].operations.partitions.set_replicas("t", 0, [1, 2], deadline=soon()),
        four_without_balancing[2].operations.partitions.set_replicas("t", 0, [3, 4], deadline=soon()),
        four_without_balancing[3].operations.partitions.set_replicas("t", 0, [1, 4], deadline=soon()),
    ]
    versions = await asyncio.gather(*orders)
    assert len({*versions}) == 3
    last = {1: {3, 4}, 0: {1, 2}, 2: {1, 4}}[versions.index(max(versions))]
    await until(lambda: all(voters(four_without_balancing[node], "t") == last for node in last))
    version = max(versions)
    done = []
    for node in (1, 2):
        with contextlib.suppress(VersionConflict):
            wanted = [node, 3]
            done.append(
                await four_without_balancing[node].operations.partitions.set_replicas(
                    "t", 0, wanted, expected_version=version, deadline=soon()
                )
            )
    assert len(done) == 1


async def test_leadership_of_a_quiesced_partition_can_be_transferred(four_without_balancing: Brokers) -> None:
    leader = await four_without_balancing.leader("t")
    group_id = four_without_balancing[leader].metadata.state.topic("t").topic_id
    group = four_without_balancing[leader].node.find_replica(GroupName(group_id, 0).group_id)
    assert group is not None
    await until(lambda: group.core.is_quiesced)
    target = next(node for node in assigned_nodes(four_without_balancing[1], "t") if node != leader)
    assert (
        await four_without_balancing[target].operations.leadership.transfer_leadership("t", 0, target, deadline=soon())
        == target
    )
