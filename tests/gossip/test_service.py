"""Brokers of one process that gossip over loopback: received states, their use, and refused settings."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from raftlog.errors import InvalidArgument, Unavailable
from raftlog.membership.member import MemberState
from raftlog.membership.wire import UdpWire
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.gossip import GossipSettings
from raftlog.partitions.settings import BrokerSettings
from raftlog.types import NodeId
from tests.brokers.conftest import Brokers, brokers_in
from tests.cluster_secret import SECRET
from tests.small_journal import SMALL_JOURNAL

WAIT_S = 30.0


@pytest.fixture
async def three(tmp_path: Path) -> AsyncIterator[Brokers]:
    async with brokers_in(tmp_path, gossip=GossipSettings(), rack="r") as brokers:
        await brokers.start()
        yield brokers


async def wait_for_change(broker: Broker, is_so: Callable[[], Any]) -> None:
    """Wait until a change by gossip at this broker makes the condition hold."""
    changed = asyncio.Event()
    agent = broker.parts.gossip._agent
    assert agent is not None
    taken = agent.on_change
    agent.on_change = lambda change: (taken(change), changed.set())[0]
    async with asyncio.timeout(WAIT_S):
        while not is_so():
            changed.clear()
            await changed.wait()
    agent.on_change = taken


def have_state(broker: Broker, state: MemberState, *nodes: int) -> bool:
    return all(broker.parts.gossip.state_of(NodeId(node)) is state for node in nodes)


async def all_alive(brokers: Brokers) -> None:
    for broker in brokers.running.values():
        await wait_for_change(broker, lambda broker=broker: have_state(broker, MemberState.ALIVE, 1, 2, 3))


async def test_brokers_get_addresses_from_the_controller_and_announce_themselves(three: Brokers) -> None:
    await all_alive(three)
    members = three[1].members()
    assert [(one.node_id, one.state, one.is_registered, one.rack) for one in members] == [
        (node, "alive", True, "r") for node in (1, 2, 3)
    ]
    rows = {row.node_id: row.addresses.gossip for row in three[1].metadata.state.all_brokers()}
    assert rows == {node: three[node].parts.gossip.address for node in (1, 2, 3)}
    assert three[1].parts.gossip.racks() == {1: "r", 2: "r", 3: "r"}
    assert min(three[1].parts.gossip.free_bytes().values()) > 0
    described = await three[1].brokers(deadline=deadline_in(5_000))
    assert [one.rack for one in described] == ["r"] * 3


async def test_a_stopping_broker_is_seen_as_left_and_its_quiesced_groups_are_checked(three: Brokers) -> None:
    await all_alive(three)
    doubted: list[int] = []
    three[1].node.driver.doubt = doubted.append  # type: ignore[assignment]
    await three.stop(3)
    await wait_for_change(three[1], lambda: have_state(three[1], MemberState.LEFT, 3))
    assert doubted == [3]
    assert three[1].parts.gossip.is_doubtful(NodeId(3))
    assert not three[1].parts.gossip.is_doubtful(NodeId(2))
    await three.start(3)
    await wait_for_change(three[1], lambda: have_state(three[1], MemberState.ALIVE, 3))
    assert not three[1].parts.gossip.is_doubtful(NodeId(3))


async def test_cluster_requests_wait_less_for_suspected_brokers(three: Brokers) -> None:
    broker = three[1]
    time_left: dict[int, float] = {}

    inner = broker.node.ask

    async def ask(node: NodeId, name: str, header: Any, payload: Any, deadline: float) -> Any:
        if node == broker.node.identity.node_id:
            return await inner(node, name, header, payload, deadline)
        time_left[node] = deadline - asyncio.get_running_loop().time()
        raise Unavailable("no broker is asked here")

    broker.node.ask = ask  # type: ignore[method-assign,assignment]
    broker.parts.gossip.is_doubtful = lambda node: node == 3  # type: ignore[method-assign]
    rows = await broker.brokers(deadline=deadline_in(60_000))
    assert [row.is_alive for row in rows] == [True, False, False]
    assert time_left[3] <= 0.5 < time_left[2] <= 1.5


async def test_a_moved_broker_is_found_by_gossip_without_a_controller_leader(tmp_path: Path) -> None:
    """Two of three brokers were down, and one returns at another address: no majority can commit that address."""
    async with brokers_in(tmp_path, gossip=GossipSettings()) as three:
        await three.start()
        await all_alive(three)
        await three.stop(2, 3)
        with socket.create_server(("127.0.0.1", 0)) as free:
            three._rpc[2] = free.getsockname()[:2]
        three._seeds = 0  # it is not looked for at its new address
        async with asyncio.timeout(WAIT_S):
            await three.start(2)
        assert three[1].metadata.state.brokers[NodeId(2)].addresses.rpc == f"127.0.0.1:{three._rpc[2][1]}"


async def test_a_port_in_use_is_an_error_only_if_it_was_configured(tmp_path: Path) -> None:
    taken = UdpWire()
    await taken.start("127.0.0.1", 0)
    assert taken.address is not None
    gossip = GossipSettings(port=taken.address[1], is_required=False)
    settings = lone_settings(tmp_path, gossip)
    broker = await start_broker(settings)
    assert broker.parts.gossip.address not in ("", f"127.0.0.1:{gossip.port}")
    await broker.close()
    with pytest.raises(InvalidArgument, match="--gossip"):
        await start_broker(replace(settings, gossip=replace(gossip, is_required=True)))
    await taken.close()


def lone_settings(tmp_path: Path, gossip: GossipSettings) -> BrokerSettings:
    return BrokerSettings(
        data_dir=str(tmp_path / "data"), rpc=("127.0.0.1", 0), secret=SECRET, gossip=gossip, driver=SMALL_JOURNAL
    )


async def start_broker(settings: BrokerSettings) -> Broker:
    broker = await Broker.open(settings)
    try:
        await broker.start("127.0.0.1:1")
    except BaseException:
        await broker.close()
        raise
    return broker


async def test_gossip_avoids_the_rpc_port_of_another_broker(tmp_path: Path) -> None:
    async with brokers_in(tmp_path, 2, gossip=GossipSettings(is_required=False)) as two:
        await two.start()
        await two.stop(1, 2)
        port = two._rpc[2][1]
        two._settings["gossip"] = GossipSettings(port=port, is_required=False)
        await asyncio.gather(two.start(1), two.start(2))
        assert two[1].parts.gossip.address not in ("", f"127.0.0.1:{port}")


async def test_a_broker_without_any_gossip_port_continues(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(wire: UdpWire, host: str, port: int) -> None:
        raise OSError("no port for you")

    monkeypatch.setattr(UdpWire, "start", refuse)
    settings = lone_settings(tmp_path, GossipSettings(is_required=False))
    with caplog.at_level(logging.WARNING):
        broker = await start_broker(settings)
    assert "gossip is off" in caplog.text
    assert broker.parts.gossip.address == ""
    assert broker.parts.gossip.counters() is None
    await broker.close()


async def test_gossip_needs_the_secret_that_signs_it(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="--cluster-secret-file"):
        await start_broker(BrokerSettings(data_dir=str(tmp_path / "data"), gossip=GossipSettings()))


async def test_the_advertised_address_is_the_host_and_the_bound_port(tmp_path: Path) -> None:
    gossip = GossipSettings(advertise_host="broker-1.example")
    settings = lone_settings(tmp_path, gossip)
    broker = await start_broker(settings)
    host, _, port = broker.parts.gossip.address.rpartition(":")
    assert host == "broker-1.example"
    assert int(port) > 0
    assert broker.metadata.state.brokers[NodeId(1)].addresses.gossip == broker.parts.gossip.address
    await broker.close()


async def test_a_too_long_rack_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="64 bytes"):
        BrokerSettings(data_dir=str(tmp_path), rack="x" * 65)
