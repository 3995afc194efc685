"""A broker is emptied and removed, or the reason against it is reported; the request can be cancelled."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from uuid import UUID

import pytest

from raftlog.errors import IdentityRefused, InvalidArgument, StorageError, StorageFull, Unavailable, UnknownBroker
from raftlog.partitions.controller.machine import CreateTopic
from raftlog.partitions.placement.balancing import tenure
from raftlog.storage.roll import Roll
from raftlog.values.brokers import Decommission
from tests.brokers.conftest import Brokers, brokers_in
from tests.operations.conftest import assigned_nodes, soon, voters, write
from tests.waiting import until, until_async


async def decommission_status(brokers: Brokers, asked: int, node: int) -> Decommission:
    return await brokers[asked].operations.brokers.decommission_status(node, deadline=soon())


async def test_a_decommissioned_broker_is_emptied_and_removed(four: Brokers) -> None:
    await four[1].create_topic("t", 4, 3, deadline=soon())
    for partition in range(4):
        await write(four[1], "t", b"x", partition)
    with pytest.raises(InvalidArgument, match="is not being decommissioned"):
        await decommission_status(four, 1, 2)
    await four[3].operations.brokers.decommission(2, deadline=soon())
    await four[1].operations.brokers.decommission(2, deadline=soon())
    told = await decommission_status(four, 4, 2)
    assert not told.allocation_failures

    async def is_finished() -> bool:
        return (await decommission_status(four, 4, 2)).finished

    await until_async(is_finished)
    assert all(2 not in assigned_nodes(four[1], "t", partition) for partition in range(4))
    for partition in range(4):
        await write(four[3], "t", b"y", partition)
    await four[1].operations.brokers.decommission(2, deadline=soon())
    assert await decommission_status(four, 1, 2) == Decommission(True, 0, 0)
    with pytest.raises(UnknownBroker):
        await four[1].operations.brokers.recommission(2, deadline=soon())
    for ask in (four[1].operations.brokers.decommission, four[1].operations.brokers.decommission_status):
        with pytest.raises(UnknownBroker):
            await ask(9, deadline=soon())


async def test_the_process_of_a_removed_broker_exits_with_the_reason(four: Brokers) -> None:
    await four[1].operations.brokers.decommission(2, deadline=soon())
    await until(four[2].node.ended.done)
    assert isinstance(four[2].node.ended.result(), IdentityRefused)
    for _ in range(2):
        if 2 in four.running:
            await four.stop(2)
        with pytest.raises(IdentityRefused, match="was removed from the cluster"):
            await four.start(2)
    assert 2 not in four[1].metadata.state.brokers


async def test_a_needed_controller_voter_stays_until_others_are_back(three: Brokers) -> None:
    """Two voters would remain; one of them is down, and the other alone is no quorum."""
    await three.stop(2)
    await three[1].operations.brokers.decommission(3, deadline=soon())

    async def is_waiting() -> bool:
        return "votes in the controller" in ((await decommission_status(three, 1, 3)).reason or "")

    await until_async(is_waiting)
    await three[1].create_topic("t", 1, 1, deadline=soon())
    await three.start(2)
    await until(lambda: 3 not in three[1].metadata.state.brokers)
    await three[2].create_topic("u", 1, 2, deadline=soon())


async def test_too_few_hosts_are_reported_at_once(three: Brokers) -> None:
    await three[1].create_topic("t", 2, 3, deadline=soon())
    await three[1].operations.brokers.decommission(3, deadline=soon())
    told = await decommission_status(three, 2, 3)
    assert (told.finished, told.replicas_left) == (False, 2)
    assert list(told.allocation_failures) == ["t/0", "t/1"]
    assert told.reason is not None
    assert "needs 3 hosts, and 2 are left" in told.reason
    assert [(move.topic, move.partition) for move in told.partitions] == [("t", 0), ("t", 1)]
    assert all(move.reason == "needs 3 hosts, and 2 are left" for move in told.partitions)
    await write(three[1], "t", b"x")
    await three[2].operations.brokers.recommission(3, deadline=soon())
    await three[2].operations.brokers.recommission(3, deadline=soon())
    assert not three[2].metadata.state.is_excluded(three[3].node_id)
    with pytest.raises(InvalidArgument, match="is not being decommissioned"):
        await decommission_status(three, 2, 3)


async def test_a_recommissioned_broker_keeps_its_replicas(four: Brokers) -> None:
    await four[1].create_topic("t", 1, 3, deadline=soon())
    at = assigned_nodes(four[1], "t")
    await four[1].operations.cluster.alter_cluster_config({"balancer.mode": "off"}, deadline=soon())
    await four[1].operations.brokers.decommission(at[0], deadline=soon())
    await until(lambda: at[0] not in assigned_nodes(four[1], "t"))
    await four[1].operations.brokers.recommission(at[0], deadline=soon())
    now = set(assigned_nodes(four[1], "t"))
    await until(lambda: all(voters(four[node], "t") == now for node in now))
    await write(four[1], "t", b"x")
    assert at[0] in {broker.node_id for broker in four[1].metadata.state.all_brokers()}


async def test_the_last_broker_cannot_be_decommissioned(tmp_path) -> None:
    async with brokers_in(tmp_path, 2) as brokers:
        await brokers.start()
        await brokers[1].operations.brokers.decommission(2, deadline=soon())
        with pytest.raises(InvalidArgument, match="the only one that is not being decommissioned"):
            await brokers[1].operations.brokers.decommission(1, deadline=soon())


async def test_a_decommission_survives_a_failure_of_the_controllers_leader(four: Brokers) -> None:
    """The next leader continues; a request sent to the old leader is executed once."""
    await four[1].create_topic("t", 4, 2, deadline=soon())
    leader = four[1].controller_id
    assert leader is not None
    goes, asked = [node for node in four.running if node != leader][:2]
    for partition in range(4):
        await write(four[asked], "t", b"x", partition)
    order = asyncio.create_task(four[asked].operations.brokers.decommission(goes, deadline=soon()))
    four[leader].node.fail(StorageError("planned failure"))
    await order
    await four.stop(leader)
    await four.start(leader)  # with two replicas a partition needs both

    async def is_finished() -> bool:
        with suppress(Unavailable):
            return (await decommission_status(four, asked, goes)).finished
        return False

    await until_async(is_finished)
    await until_async(lambda: _is_healthy(four, asked))
    for partition in range(4):
        assert goes not in assigned_nodes(four[asked], "t", partition)
        found = await four[asked].offsets("t", partition, linearizable=True, deadline=soon())
        assert found.end == 1


async def _is_healthy(brokers: Brokers, asked: int) -> bool:
    return (await brokers[asked].health(deadline=soon())).is_healthy


async def test_a_broker_stays_until_it_has_created_a_first_replica_that_its_partition_needs(four: Brokers) -> None:
    """The other replicas of a new partition are filled from its first ones, which a full disk delays here."""
    create_groups = four[4].node.create_groups
    attempts = 0

    async def refuse(creations: Sequence[tuple[Roll, str | None]]) -> None:
        nonlocal attempts
        attempts += 1
        raise StorageFull("planned: no room")

    four[4].node.create_groups = refuse  # type: ignore[method-assign]
    first = ((four[1].metadata.state.brokers[4].replica,),)
    await four[1].metadata.submit(CreateTopic("t", UUID(int=9), first, (), 5_000), soon())
    await four[1].operations.brokers.decommission(4, deadline=soon())
    await until(lambda: 4 not in assigned_nodes(four[1], "t"))
    before = attempts
    await until(lambda: attempts >= before + 3 or four[4].node.ended.done())
    assert 4 in four[1].metadata.state.brokers
    four[4].node.create_groups = create_groups  # type: ignore[method-assign]
    await until(lambda: 4 not in four[1].metadata.state.brokers)
    await write(four[1], "t", b"x")


async def test_a_decommission_goes_on_when_the_disk_of_a_new_replica_has_no_room(
    four: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenure, "STUCK_S", 0.5)
    await four[1].create_topic("t", 1, None, deadline=soon(), assignments=[[1, 2]])
    await write(four[1], "t", b"x")
    four[4].node.driver.room.min_free_bytes = 1 << 60
    await four[1].operations.partitions.set_replicas("t", 0, [1, 4], deadline=soon())
    await four[1].operations.brokers.decommission(2, deadline=soon())
    await until(lambda: 2 not in four[1].metadata.state.brokers)
    assert assigned_nodes(four[1], "t") == [1, 3]
    await write(four[1], "t", b"y")
