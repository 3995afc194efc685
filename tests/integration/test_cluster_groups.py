"""Consumer groups on three real brokers whose coordinator crashes or pauses: no commit is lost, no stale one counts."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from raftlog.assignors import Subscription, encode_subscription
from raftlog.client import BrokerClient
from raftlog.client.group_answers import Membership
from raftlog.errors import OutcomeUnknown, RaftlogError, RequestError, StaleGeneration, Unavailable, UnknownMember
from raftlog.testing import Cluster
from raftlog.types import Offset, TopicPartition
from tests.integration.cluster_load import create_topic
from tests.waiting import until_async

ENOUGH = 20


async def repeat_until_done(ask: Callable[[], Awaitable[object]]) -> None:
    """Repeat a request until it succeeds, while brokers change roles."""

    async def is_done() -> bool:
        try:
            await ask()
        except (Unavailable, OutcomeUnknown):
            return False
        return True

    await until_async(is_done)


class Member:
    """Member of a consumer group whose partitions the coordinator assigns."""

    def __init__(self, client: BrokerClient, group: str, topic: str) -> None:
        self._client, self._group, self._topic = client, group, topic
        self.membership = Membership("", -1)

    async def join(self) -> None:
        protocols = {"range": encode_subscription(Subscription((self._topic,)))}
        joined = await self._client.groups.join(
            self._group, protocols, member_id=self.membership.member_id, assigned_by="broker"
        )
        self.membership = Membership(joined.member_id, joined.generation)
        await self._client.groups.sync(self._group, self.membership)

    async def commit(self, offset: int) -> None:
        place = TopicPartition(self._topic, 0)
        await self._client.groups.commit(self._group, {place: offset}, self.membership, timeout_ms=2_000)


async def fetch_committed(client: BrokerClient, group: str) -> list[Offset]:
    return [each.offset for each in (await client.groups.committed(group)).values()]


async def find_coordinator(client: BrokerClient, group: str) -> int:
    node = (await client.groups.describe(group)).coordinator
    assert node is not None
    return node


async def test_members_continue_when_their_coordinator_is_killed(cluster: Cluster, topic: str) -> None:
    create_topic(cluster.addresses[0], topic)
    async with BrokerClient(cluster.addresses) as client:
        member = Member(client, topic, topic)
        await repeat_until_done(member.join)
        generation = member.membership.generation
        acknowledged = attempted = 0
        victim = cluster.nodes[await find_coordinator(client, topic)]
        while acknowledged < 2 * ENOUGH:
            if attempted == ENOUGH:
                victim.kill()
            attempted += 1
            try:
                await member.commit(attempted)
            except (Unavailable, OutcomeUnknown):
                continue
            acknowledged = attempted
        assert await fetch_committed(client, topic) == [acknowledged]
        victim.start()
        attempted += 1
        await repeat_until_done(lambda: member.commit(attempted))
        assert await fetch_committed(client, topic) == [attempted]
        assert member.membership.generation == generation


async def test_a_coordinator_after_a_pause_refuses_commits_of_stale_members(cluster: Cluster, topic: str) -> None:
    create_topic(cluster.addresses[0], topic)
    async with BrokerClient(cluster.addresses) as client:
        zombie, member = Member(client, topic, topic), Member(client, topic, topic)
        await repeat_until_done(zombie.join)
        await repeat_until_done(lambda: zombie.commit(5))
        still = cluster.nodes[await find_coordinator(client, topic)]
        others = [node.http for node in cluster.nodes.values() if node is not still]
        still.pause()
        async with BrokerClient(others) as elsewhere:
            member = Member(elsewhere, topic, topic)
            leaving = [(zombie.membership.member_id, None)]
            await repeat_until_done(lambda: elsewhere.groups.leave(topic, leaving, timeout_ms=2_000))
            await repeat_until_done(member.join)
            await repeat_until_done(lambda: member.commit(9))
            late = asyncio.ensure_future(commit_as_stale_member(still.http, zombie, topic))
            await asyncio.sleep(0)
            still.resume()
            with pytest.raises((StaleGeneration, UnknownMember)):
                await late
            cluster.wait_healthy()
            assert await fetch_committed(elsewhere, topic) == [9]
            await member.commit(10)
            assert await fetch_committed(client, topic) == [10]


async def commit_as_stale_member(address: str, zombie: Member, topic: str) -> None:
    """Commit as the stale member through the broker that was paused, until the commit is answered definitely."""
    place = TopicPartition(topic, 0)
    async with BrokerClient([address]) as client:
        while True:
            try:
                await client.groups.commit(topic, {place: 7}, zombie.membership, timeout_ms=2_000)
            except RequestError:
                raise
            except RaftlogError:
                continue
            return
