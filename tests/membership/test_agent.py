"""The agent over real sockets of loopback: members join and fail, and strangers are refused."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Any

import pytest

from raftlog.membership import agent as agents
from raftlog.membership.agent import Agent
from raftlog.membership.authentication import Seal, SenderIdentity
from raftlog.membership.config import SwimConfig
from raftlog.membership.keys import GossipKeys
from raftlog.membership.member import MemberState
from raftlog.membership.swim import MemberChange
from raftlog.membership.wire import StreamEnd, UdpWire
from raftlog.types import NodeId

CLUSTER = uuid.UUID(int=0xC1)
KEYS = GossipKeys((b"keys of one cluster, long enough",))
WAIT_S = 20.0
FAST = SwimConfig(
    period_s=0.1,
    probe_timeout_s=0.03,
    probe_deadline_s=0.07,
    gossip_interval_s=0.02,
    join_interval_s=0.1,
    sync_interval_s=1.0,
)


class Site:
    """Agents of one cluster, and the changes that each reported."""

    def __init__(self) -> None:
        self.agents: dict[int, Agent] = {}
        self.wires: dict[int, UdpWire] = {}
        self.changes: dict[int, list[MemberChange]] = {}
        self.changed = asyncio.Event()

    async def start_agent(
        self, node: int, *, boot_epoch: int = 1, keys: GossipKeys = KEYS, cluster: uuid.UUID = CLUSTER, port: int = 0
    ) -> Agent:
        wire = self.wires[node] = UdpWire()
        await wire.start("127.0.0.1", port)
        assert wire.address is not None
        sender_identity = SenderIdentity(cluster, NodeId(node), disk_of(node), boot_epoch)
        agent = Agent(sender_identity, wire.address, f"I am {node}".encode(), keys, wire, Random(node), FAST)
        others = [other.address for number, other in self.wires.items() if number != node and other.address]
        self.changes[node] = []
        agent.on_change = lambda change: self._note(node, change)
        agent.start(others)
        taken = wire.on_datagram
        wire.on_datagram = lambda datagram, source: (taken(datagram, source), self.changed.set())[0]
        self.agents[node] = agent
        return agent

    def _note(self, node: int, change: MemberChange) -> None:
        self.changes[node].append(change)
        self.changed.set()

    def state(self, of: int, at: int) -> MemberState | None:
        member = self.agents[at].member(NodeId(of))
        return None if member is None else member.state

    async def wait_until(self, is_so: Callable[[], Any]) -> None:
        """Wait until a received message makes the condition true."""
        async with asyncio.timeout(WAIT_S):
            while not is_so():
                self.changed.clear()
                await self.changed.wait()

    def all_are(self, state: MemberState, of: int) -> bool:
        return all(self.state(of, at) is state for at in self.agents if at != of)

    async def kill(self, node: int) -> None:
        """Stop the agent without an announcement."""
        await self.agents.pop(node).close()


def disk_of(node: int) -> uuid.UUID:
    return uuid.UUID(int=node << 100 | node)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    yield made
    for agent in made.agents.values():
        await agent.close()


async def start_three(site: Site) -> None:
    for node in (1, 2, 3):
        await site.start_agent(node)
    await site.wait_until(lambda: all(site.all_are(MemberState.ALIVE, of=node) for node in (1, 2, 3)))


async def test_members_find_each_other_and_their_descriptions(site: Site) -> None:
    await start_three(site)
    told = {member.node_id: member.description for member in site.agents[1].members()}
    assert told == {1: b"I am 1", 2: b"I am 2", 3: b"I am 3"}


async def test_a_failed_member_is_suspected_then_dead_everywhere(site: Site) -> None:
    await start_three(site)
    await site.kill(3)
    await site.wait_until(lambda: site.all_are(MemberState.DEAD, of=3))
    for node in (1, 2):
        states = [change.after for change in site.changes[node] if change.node_id == 3]
        assert states.index(MemberState.SUSPECT) < states.index(MemberState.DEAD)


async def test_a_member_that_announced_its_leave_was_never_suspected(site: Site) -> None:
    await start_three(site)
    agent = site.agents.pop(3)
    agent.leave()
    await agent.close(agents.LEAVE_S_MAX)
    await site.wait_until(lambda: site.all_are(MemberState.LEFT, of=3))
    assert all(change.after is not MemberState.SUSPECT for node in (1, 2) for change in site.changes[node])


async def test_a_dead_member_is_alive_after_its_restart(site: Site) -> None:
    await start_three(site)
    await site.kill(3)
    await site.wait_until(lambda: site.all_are(MemberState.DEAD, of=3))
    await site.start_agent(3, boot_epoch=2)
    await site.wait_until(lambda: site.all_are(MemberState.ALIVE, of=3))


async def test_a_new_description_reaches_all(site: Site) -> None:
    await start_three(site)
    site.agents[2].set_description(b"I changed")
    await site.wait_until(lambda: all(site.agents[at].member(NodeId(2)).description == b"I changed" for at in (1, 3)))


async def test_agents_with_another_cluster_or_key_do_not_join(site: Site) -> None:
    await start_three(site)
    await site.start_agent(4, cluster=uuid.UUID(int=0xC2))
    await site.start_agent(5, keys=GossipKeys((b"k" * 32,)))
    refusals = [site.agents[at].counters for at in (1, 2, 3)]
    for why in ("cluster", "forged"):
        await site.wait_until(lambda: any(counters().refused[why] for counters in refusals))  # noqa: B023 - at once
    for at in (1, 2, 3):
        assert [member.node_id for member in site.agents[at].members()] == [1, 2, 3]
    assert [member.node_id for member in site.agents[5].members()] == [5]


async def test_garbage_and_authentic_nonsense_are_counted_and_change_nothing(site: Site) -> None:
    agent = await site.start_agent(1)
    address = site.wires[1].address
    assert address is not None
    stranger = UdpWire()
    await stranger.start("127.0.0.1", 0)
    before = agent.members()
    seal = Seal(SenderIdentity(CLUSTER, NodeId(9), disk_of(9), 1), KEYS)
    for datagram in (b"RLG", b"garbage", bytes(3_000), seal.seal(b"nonsense")):
        stranger.send(datagram, address)
    await site.wait_until(lambda: agent.counters().datagrams_in == 4)
    refused = {why: count for why, count in agent.counters().refused.items() if count}
    assert refused == {"truncated": 1, "foreign": 1, "oversize": 1, "malformed": 1}
    assert agent.members() == before
    await stranger.close()


async def test_garbage_on_a_stream_ends_it_and_is_counted(site: Site) -> None:
    agent = await site.start_agent(1)
    stranger = UdpWire()
    await stranger.start("127.0.0.1", 0)
    stream = await stranger.open(site.wires[1].address)
    await stream.send(b"garbage that is long enough for a header and a tag, " * 3)
    with pytest.raises((OSError, StreamEnd)):
        await stream.receive()
    assert agent.counters().refused["foreign"] == 1
    stream.close()
    await stranger.close()


async def test_datagrams_above_the_bound_are_not_read(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "DATAGRAMS_PER_S_MAX", 0)
    agent = await site.start_agent(1)
    stranger = UdpWire()
    await stranger.start("127.0.0.1", 0)
    for _ in range(3):
        stranger.send(b"garbage", site.wires[1].address)
    await site.wait_until(lambda: agent.counters().datagrams_in == 3)
    assert agent.counters().refused["overloaded"] == 3
    assert agent.counters().refused["foreign"] == 0
    await stranger.close()


async def test_long_lists_of_messages_take_several_frames(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "MESSAGES_PER_FRAME", 1)
    await start_three(site)
    assert sum(agent.counters().streams_in for agent in site.agents.values()) > 0


async def test_two_processes_under_one_node_id_are_reported_and_the_first_is_kept(site: Site) -> None:
    await start_three(site)
    conflicts: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    for agent in site.agents.values():
        agent.on_conflict = lambda conflict: conflicts.done() or conflicts.set_result(conflict)
    wire = UdpWire()
    await wire.start("127.0.0.1", 0)
    assert wire.address is not None
    sender_identity = SenderIdentity(CLUSTER, NodeId(3), uuid.UUID(int=77 << 100), 1)
    other = Agent(sender_identity, wire.address, b"no, I am 3", KEYS, wire, Random(9), FAST)
    other.start([each.address for each in site.wires.values() if each.address])
    async with asyncio.timeout(WAIT_S):
        conflict = await conflicts
    assert conflict.known.disk_uuid == disk_of(3).bytes
    assert site.agents[1].member(NodeId(3)).disk_uuid == disk_of(3).bytes
    await other.close()
