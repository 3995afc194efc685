"""A single broker: it creates its cluster at once, applies commands, and restarts."""

import asyncio
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from raftlog.errors import InvalidArgument, NoLeader, TopicExists
from raftlog.partitions.controller.machine import SetFeatureLevel
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.node import Node
from raftlog.raft import RaftSettings
from tests.controller.brokers import DRIVER, Broker, MetadataSettings, brokers, node_settings, soon

ALONE: tuple[int, ...] = ()


async def test_a_single_broker_registers_and_applies_commands_at_once(tmp_path: Path) -> None:
    async with brokers(tmp_path, [1], seeds=ALONE) as cluster:
        never = replace(DRIVER, raft=RaftSettings(election_ticks_min=1_000_000))
        await cluster.start(driver=never)  # it waits for no election timeout
        metadata = cluster.running[1].metadata
        assert metadata.is_ready
        assert metadata.cluster_id is not None
        assert UUID(metadata.cluster_id).version == 4
        [broker] = metadata.state.all_brokers()
        assert (broker.node_id, broker.boot_epoch, broker.host) == (1, 1, "host-1")
        assert broker.addresses.rpc == cluster.address_text(1)
        version = await metadata.submit(cluster.make_topic("t", 1), soon())
        assert metadata.state.topic("t").version == version
        with pytest.raises(TopicExists):
            await metadata.submit(cluster.make_topic("t", 2), soon())
        await metadata.barrier(soon())
        fresh = metadata.freshness()
        assert (fresh.age_ms, fresh.leader, fresh.is_member, fresh.problem) == (0, 1, True, None)


async def test_the_state_is_restored_before_a_restart_completes(tmp_path: Path) -> None:
    async with brokers(tmp_path, [1], seeds=ALONE) as cluster:
        await cluster.start()
        cluster_id = cluster.running[1].metadata.cluster_id
        for number in range(20):
            await cluster.running[1].metadata.submit(cluster.make_topic(f"t{number}", number), soon())
        await cluster.stop()
        broker = await Broker.open(node_settings(tmp_path, 1, None), MetadataSettings(), cluster.moved)
        assert len(broker.metadata.state.topic_names()) == 20
        await broker.stop()
        await cluster.start()
        metadata = cluster.running[1].metadata
        assert metadata.cluster_id == cluster_id
        assert metadata.state.all_brokers()[0].boot_epoch == 3
        await metadata.submit(cluster.make_topic("more", 99), soon())
        assert len(metadata.state.topic_names()) == 21


async def test_many_concurrent_commands_are_applied(tmp_path: Path) -> None:
    async with brokers(tmp_path, [1], seeds=ALONE) as cluster:
        await cluster.start()
        metadata = cluster.running[1].metadata
        calls = 0

        def count_calls() -> None:
            nonlocal calls
            calls += 1

        metadata.observers = [count_calls]
        await asyncio.gather(*(metadata.submit(cluster.make_topic(f"t{n}", n), soon()) for n in range(200)))
        assert len(metadata.state.topic_names()) == 200
        assert calls < 100, f"{calls} calls for 200 commands"


async def test_a_single_broker_needs_no_rpc_port(tmp_path: Path) -> None:
    moved = asyncio.Event()
    broker = await Broker.open(node_settings(tmp_path, 1, None), MetadataSettings(), moved)
    try:
        await broker.begin()
        assert broker.started is not None
        await asyncio.wait_for(broker.started, 10)
        assert broker.node.transport.address is None
        assert broker.metadata.state.all_brokers()[0].addresses.rpc == ""
    finally:
        await broker.stop()


async def test_a_given_cluster_id_is_used_and_another_one_is_refused(tmp_path: Path) -> None:
    given, other = str(UUID(int=5, version=4)), str(UUID(int=6, version=4))
    async with brokers(tmp_path, [1], seeds=ALONE) as cluster:
        await cluster.start(cluster_id=given)
        assert cluster.running[1].metadata.cluster_id == given
        await cluster.stop()
        with pytest.raises(InvalidArgument, match=f"belongs to cluster {given}, and not to {other}"):
            await cluster.begin(1, cluster_id=other)
        with pytest.raises(InvalidArgument, match="is not a uuid"):
            await Broker.open(node_settings(tmp_path, 2, None, cluster_id="blue"), MetadataSettings(), cluster.moved)


async def test_seeds_need_an_rpc_address(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="needs an RPC address"):
        await Broker.open(
            node_settings(tmp_path, 1, None), MetadataSettings(seeds=(("127.0.0.1", 1),)), asyncio.Event()
        )


async def test_a_read_without_a_leader_fails_at_its_deadline(tmp_path: Path) -> None:
    """The broker is not started, so there is no leader."""
    node = await Node.open(node_settings(tmp_path, 1, None))
    await node.stop()
    moved = asyncio.Event()
    broker = await Broker.open(node_settings(tmp_path, 1, None), MetadataSettings(), moved)
    try:
        with pytest.raises(NoLeader):
            await broker.metadata.barrier(deadline_in(20))
        with pytest.raises(NoLeader):
            await broker.metadata.submit(SetFeatureLevel(2), deadline_in(20))
    finally:
        await broker.stop()
