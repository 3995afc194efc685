"""Later brokers: each joins through any member, learns first, and votes while there are fewer than five voters."""

import asyncio
import contextlib
from pathlib import Path
from uuid import UUID

import pytest

from raftlog.errors import IdentityRefused, NotLeader, Overloaded
from raftlog.partitions.controller.machine import UpdateBroker
from raftlog.runtime.rpc.handshake import HandshakeRefusal, Reason
from raftlog.types import NodeId
from tests.controller.brokers import Broker, Brokers, brokers, soon

THREE = (1, 2, 3)


async def wait_until_refused(broker: Broker, words: str) -> None:
    """Wait until the broker's start and its node have failed with an `IdentityRefused` of these words."""
    assert broker.started is not None
    with pytest.raises(IdentityRefused, match=words):
        await asyncio.wait_for(broker.started, 20)
    assert isinstance(await asyncio.wait_for(broker.node.ended, 20), IdentityRefused)


def voters_of(cluster: Brokers, number: int) -> list[int]:
    broker = cluster.running[number]
    group_id = broker.metadata.group_id
    group = None if group_id is None else broker.node.find_replica(group_id)
    return [] if group is None else [voter.node_id for voter in group.core.configuration.voters]


async def transfer_leadership(cluster: Brokers, target: int) -> None:
    """Transfer the controller's leadership to `target` once it has caught up."""

    def is_leader() -> bool:
        leader = cluster.leader()
        if leader not in (0, target):
            broker = cluster.running[leader]
            assert broker.metadata.group_id is not None
            group = broker.node.find_replica(broker.metadata.group_id)
            assert group is not None
            with contextlib.suppress(Overloaded, NotLeader):
                group.transfer_leadership(cluster.running[target].node.identity.replica)
        return leader == target

    await cluster.wait_until(is_leader)


async def test_a_fourth_broker_joins_through_any_member_and_becomes_a_voter(tmp_path: Path) -> None:
    async with brokers(tmp_path, (1, 2, 3, 4), seeds=THREE) as cluster:
        await cluster.start(*THREE)
        await cluster.running[1].metadata.submit(cluster.make_topic("t", 1), soon())
        await cluster.start(4, seeds=(3,))
        fourth = cluster.running[4].metadata
        assert fourth.cluster_id == cluster.running[1].metadata.cluster_id
        assert fourth.state.has_topic("t")
        assert [row.node_id for row in fourth.state.all_brokers()] == [1, 2, 3, 4]
        await cluster.wait_until(lambda: voters_of(cluster, 4) == [1, 2, 3, 4])
        await fourth.submit(cluster.make_topic("u", 2), soon())
        await cluster.wait_until_equal()
        await cluster.stop(4)
        await cluster.start(4, seeds=())
        assert cluster.running[4].metadata.state.has_topic("u"), "it needs no seeds any more"


async def test_at_most_five_brokers_vote_and_others_are_learners(tmp_path: Path) -> None:
    numbers = tuple(range(1, 8))
    async with brokers(tmp_path, numbers, seeds=(1,)) as cluster:
        await cluster.start(1)
        await cluster.start(*numbers[1:])
        await cluster.wait_until(lambda: len(voters_of(cluster, 1)) == 5)
        await asyncio.gather(
            *(broker.metadata.submit(cluster.make_topic(f"t{n}", n), soon()) for n, broker in cluster.running.items())
        )
        await cluster.wait_until_equal()
        learners = [number for number in numbers if number not in voters_of(cluster, 1)]
        assert len(learners) == 2
        for number in learners:
            metadata = cluster.running[number].metadata
            await metadata.barrier(soon())
            assert metadata.freshness().is_member
            assert len(metadata.state.topic_names()) == 7


async def test_a_cluster_is_not_degraded_when_a_draining_broker_stops_voting(tmp_path: Path) -> None:
    async with brokers(tmp_path, THREE) as cluster:
        await cluster.start()
        leaving = cluster.running[3].node.identity.replica
        await cluster.running[1].metadata.submit(UpdateBroker(*leaving, True), soon())
        await cluster.wait_until(lambda: voters_of(cluster, 1) == voters_of(cluster, 2) == [1, 2])
        for number in (1, 2):
            await cluster.running[number].metadata.barrier(soon())
            assert cluster.running[number].metadata.degraded_reason() is None


async def test_a_broker_waits_until_the_cluster_exists(tmp_path: Path) -> None:
    async with brokers(tmp_path, (1, 2, 3, 4), seeds=THREE) as cluster:
        await cluster.begin(4)
        await cluster.start(*THREE)
        await cluster.wait_until(lambda: cluster.running[4].metadata.is_ready)
        assert len(cluster.running[4].metadata.state.all_brokers()) == 4


async def test_a_broker_of_another_cluster_is_refused_at_once(tmp_path: Path) -> None:
    other = str(UUID(int=6, version=4))
    async with brokers(tmp_path, (1, 2), seeds=(1,)) as cluster:
        await cluster.start(1)
        broker = await cluster.begin(2, cluster_id=other)
        await wait_until_refused(broker, "belongs to cluster")
        assert isinstance(await broker.node.ended, IdentityRefused)
        assert cluster.running[1].node.is_working


async def test_a_second_broker_with_a_used_node_id_is_refused(tmp_path: Path) -> None:
    async with brokers(tmp_path, (1, 2, 3, 4), seeds=THREE) as cluster:
        await cluster.start(*THREE)
        twin = await cluster.begin(4, node_id=3)
        await wait_until_refused(twin, r"node id 3 is used|node 3 has the disk")
        assert all(cluster.running[number].node.is_working for number in THREE)
        await cluster.running[3].metadata.submit(cluster.make_topic("t", 1), soon())


async def test_two_seeds_with_one_node_id_create_no_cluster(tmp_path: Path) -> None:
    """The seed that is refused first exits; the other one has no peer to form a cluster with."""
    async with brokers(tmp_path, (1, 2)) as cluster:
        one, two = await cluster.begin(1), await cluster.begin(2, node_id=1)
        assert one.started is not None
        assert two.started is not None
        done, _ = await asyncio.wait([one.started, two.started], timeout=20, return_when=asyncio.FIRST_COMPLETED)
        with pytest.raises(IdentityRefused, match=r"node id 1 is used by the processes at host-\d and at host-\d"):
            await done.pop()
        assert not any(broker.metadata.is_ready for broker in (one, two))


async def test_a_refusal_by_another_clusters_broker_does_not_stop_a_member(tmp_path: Path) -> None:
    """A broker of another cluster, at an address of this cluster, refuses the member; the member continues."""
    async with brokers(tmp_path, (1, 2), seeds=(1,)) as cluster, brokers(tmp_path / "other", (7,), seeds=()) as strange:
        await cluster.start()
        await strange.start()
        one = cluster.running[1].node
        refusals = asyncio.Queue[HandshakeRefusal]()
        judged = one.transport.on_refused
        one.transport.on_refused = lambda refusal: (judged(refusal), refusals.put_nowait(refusal))  # type: ignore[misc]
        disks = {NodeId(2): cluster.running[2].node.identity.disk_uuid}
        one.set_peers({NodeId(2): cluster.address(2), NodeId(7): strange.address(7)}, disks)
        assert (await asyncio.wait_for(refusals.get(), 20)).reason is Reason.CLUSTER_ID
        assert one.is_working
        await cluster.running[2].metadata.submit(cluster.make_topic("t", 1), soon())


async def test_a_broker_restarts_at_another_address(tmp_path: Path) -> None:
    """The leader connects to the old address, so the broker has to announce itself before it receives anything."""
    async with brokers(tmp_path, THREE) as cluster:
        await cluster.start()
        leader = cluster.leader()
        moved = next(number for number in THREE if number != leader)
        await cluster.stop(moved)
        cluster.move(moved)
        await cluster.start(moved, seeds=[number for number in THREE if number != moved])
        await cluster.wait_until_equal()
        rows = [broker.metadata.state.broker(NodeId(moved)) for broker in cluster.running.values()]
        assert [row.addresses.rpc for row in rows] == [cluster.address_text(moved)] * len(THREE)


async def test_a_broker_finds_a_leader_that_joined_after_its_own_first_start(tmp_path: Path) -> None:
    """Its bootstrap file lacks the leader, which does not connect to a broker that is not registered."""
    async with brokers(tmp_path, (1, 2, 3, 4, 5), seeds=THREE) as cluster:
        await cluster.start(*THREE)
        await cluster.stop(2, 3)
        fifth = (await cluster.begin(5, seeds=(1,))).metadata
        await cluster.wait_until(lambda: fifth.group_id is not None)
        await cluster.stop(5)
        await cluster.start(2, 3, 4)
        await cluster.wait_until(lambda: all(voters_of(cluster, number) == [1, 2, 3, 4] for number in cluster.running))
        await transfer_leadership(cluster, 4)
        await cluster.start(5)
        assert await cluster.wait_until_equal()
