"""Membership of a `Consumer` in its group: join, sync, heartbeats, leave. Kafka's classic protocol, eager.

Called by `Consumer` alone, which joins inside `poll`, so that the application works on no partition while it changes
hands. Between two joins a task keeps the session alive with heartbeats that are answered at once when a rebalance
begins. `needs_join`: the generation is over; `is_lost`: the group rebalanced without this member; `fatal`: it has to
stop. The leader of a generation assigns the partitions, with an assignor that all members share."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

from raftlog.assignors import (
    ASSIGNORS,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from raftlog.assignors.member import MemberProtocol, NextStep
from raftlog.client.broker import BrokerClient
from raftlog.client.consumers.consumer_settings import ConsumerSettings
from raftlog.client.group_answers import CommittedOffset, Membership
from raftlog.client.metadata import Metadata
from raftlog.client.outage import Outage
from raftlog.errors import (
    OutcomeUnknown,
    RaftlogError,
    RebalanceInProgress,
    StaleGeneration,
    Unavailable,
    UnknownMember,
    UnknownTopic,
)
from raftlog.types import Offset, TopicPartition
from raftlog.values.groups import Joined

_log = logging.getLogger("raftlog.client")

LEAVE_MS = 2_000
"""Time that a leaving member waits for the answer; without one its session expires."""


Assigned: TypeAlias = Mapping[TopicPartition, Offset | None]
"""Assignment of a generation, with the committed offset of each partition, or None."""


class GroupSession:
    """Membership in one consumer group; `on_change` is called when `needs_join`, `is_lost` or `fatal` changes."""

    def __init__(
        self, client: BrokerClient, metadata: Metadata, settings: ConsumerSettings, on_change: Callable[[], None]
    ) -> None:
        """Prepare to join the group of the settings; `on_change` is called when a rejoin may be needed."""
        assert settings.group is not None, "a member has a group"
        self._group: str = settings.group
        self._client, self._metadata, self._settings, self._on_change = client, metadata, settings, on_change
        self._state = MemberProtocol()
        self._heartbeat_task: asyncio.Task[None] | None = None
        self._owned: tuple[TopicPartition, ...] = ()
        self._counts: dict[str, int] = {}
        """Number of partitions of each topic when this member, as group leader, assigned them."""
        self.needs_join = True
        self.is_lost = False
        self.fatal: RaftlogError | None = None
        self.last_poll_s = time.monotonic()

    async def join(self, topics: Sequence[str]) -> Assigned:
        """Wait for a new generation, and return its assignment; raise an error that prevents it.

        The assignment is empty if the generation has ended meanwhile; then `needs_join` is set."""
        with Outage(f"joining consumer group {self._group}", self._settings.give_up_after_s) as outage:
            self._owned = await self._join_until_assigned(topics, outage)
            committed = await self._fetch_committed(self._owned, outage)
        if committed is None:
            return {}
        return {
            topic_partition: committed[topic_partition].offset if topic_partition in committed else None
            for topic_partition in self._owned
        }

    @property
    def may_be_replaced(self) -> bool:
        """Whether other members may own the partitions of this member by now."""
        return self.is_lost or self.fatal is not None

    def require_membership(self) -> Membership:
        """Return the membership for a commit; raise `UnknownMember` while the member belongs to no generation."""
        if self._state.generation < 0:
            raise UnknownMember(f"this consumer is not a member of the group {self._group} now; poll to join it")
        return self.membership

    @property
    def membership(self) -> Membership:
        """Present membership; its generation is -1 while the member belongs to none."""
        return Membership(self._state.member_id, self._state.generation, self._settings.instance_id)

    def rejoin_if_topics_changed(self) -> None:
        """Rejoin if this member leads the group and an assigned topic's number of partitions has changed."""
        for name, count in self._counts.items():
            known = self._metadata.get_cached(name)
            if (known.partitions if known is not None else 0) != count:
                self.rejoin()
                return

    def rejoin(self) -> None:
        """Rejoin at the next poll, because the subscription or the topics have changed."""
        self.needs_join = True
        self._on_change()

    def apply_error(self, error: RaftlogError) -> None:
        """Update the membership after the error of a commit or heartbeat."""
        step = self._state.handle_error(error)
        if step is NextStep.REJOIN:
            self.needs_join = True
        elif step is NextStep.LOST:
            self.needs_join = self.is_lost = True
        elif step is NextStep.FATAL:
            self.fatal = error
        self._on_change()

    async def leave(self) -> None:
        """Leave the group at once; a static member stays until its session ends, for its restart (KIP-345)."""
        await self._stop_heartbeats()
        if self._state.member_id and self._settings.instance_id is None:
            with contextlib.suppress(RaftlogError):  # the member has left, or its session will expire
                await self._client.groups.leave(self._group, [(self._state.member_id, None)], timeout_ms=LEAVE_MS)
        self._state = MemberProtocol()

    # below

    async def _join_until_assigned(self, topics: Sequence[str], outage: Outage) -> tuple[TopicPartition, ...]:
        """Join and sync until this member has an assignment; return the partitions."""
        await self._stop_heartbeats()
        self.needs_join, self.is_lost = False, False
        while True:
            try:
                return await self._join_once(topics)
            except (UnknownMember, StaleGeneration) as error:
                self._state.handle_error(error)
            except (Unavailable, OutcomeUnknown) as error:
                await outage.pause(error)

    async def _join_once(self, topics: Sequence[str]) -> tuple[TopicPartition, ...]:
        """Join and sync once; return the assigned partitions, and start heartbeats."""
        settings, generation = self._settings, self._state.generation
        owned = self._owned if generation >= 0 else ()
        subscription = encode_subscription(Subscription(tuple(sorted(topics)), None, owned, generation))
        joined = await self._client.groups.join(
            self._group,
            dict.fromkeys(settings.assignors, subscription),
            member_id=self._state.member_id,
            instance_id=settings.instance_id,
            client_id=settings.client_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
        )
        self._state.member_id = joined.member_id
        member = Membership(joined.member_id, joined.generation, settings.instance_id)
        self._counts = {}
        assignments = await self._assign(joined) if joined.is_leader else None
        synced = await self._client.groups.sync(
            self._group, member, assignments, timeout_ms=settings.rebalance_timeout_ms
        )
        self._state.set_identity(member.member_id, member.generation)
        self.last_poll_s = time.monotonic()
        self._heartbeat_task = asyncio.create_task(self._send_heartbeats(member))
        return decode_assignment(synced.assignment).partitions

    async def _fetch_committed(
        self, partitions: Collection[TopicPartition], outage: Outage
    ) -> Mapping[TopicPartition, CommittedOffset] | None:
        """Return the committed offsets of the group, once no transaction may change those of the partitions.

        Otherwise records of a transaction that is about to be committed would be returned again (KIP-447). Returns None
        if the generation ends meanwhile; raises an error after the outage limit."""
        stable = partitions if self._settings.reads_committed else ()
        while not self.needs_join:
            try:
                return await self._client.groups.committed(self._group, stable=stable)
            except (Unavailable, OutcomeUnknown) as error:
                await outage.pause(error)
        return None

    async def _assign(self, joined: Joined) -> dict[str, bytes]:
        """Compute the assignments of all members as group leader; return them encoded, by member id."""
        subscriptions = {member.member_id: decode_subscription(member.metadata) for member in joined.members}
        for name in sorted({topic for each in subscriptions.values() for topic in each.topics}):
            self._metadata.watch(name)
            try:
                self._counts[name] = (await self._metadata.topic(name)).partitions
            except UnknownTopic:
                self._counts[name] = 0  # a metadata refresh will find it
                _log.warning("consumer group %s: topic %s does not exist; waiting for its creation", self._group, name)
        there = {name: count for name, count in self._counts.items() if count}
        shares = ASSIGNORS[joined.protocol](subscriptions, there)
        return {member_id: encode_assignment(partitions) for member_id, partitions in shares.items()}

    async def _send_heartbeats(self, member: Membership) -> None:
        """Send heartbeats until the membership ends, or the application stops polling."""
        pause_s = self._settings.session_timeout_ms / 3000
        outage = Outage(f"heartbeats of consumer group {self._group}", pause_s_max=pause_s)
        while self.fatal is None and not self.is_lost:
            if time.monotonic() - self.last_poll_s > self._settings.max_poll_interval_ms / 1000:
                await self._leave_idle()
                return
            try:
                await self._client.groups.heartbeat(self._group, member, wait_ms=round(pause_s * 1000))
                outage.end()
            except RebalanceInProgress as error:
                self.apply_error(error)
                await asyncio.sleep(pause_s)
            except RaftlogError as error:
                self.apply_error(error)
                await outage.pause(error)

    async def _leave_idle(self) -> None:
        """Leave the group because the application stopped polling."""
        self._heartbeat_task = None
        await self.leave()
        self.needs_join = self.is_lost = True
        self._on_change()

    async def _stop_heartbeats(self) -> None:
        """Cancel the heartbeats and wait for the end of their task."""
        if self._heartbeat_task is not None:
            self._heartbeat_task.cancel()
            await asyncio.gather(self._heartbeat_task, return_exceptions=True)
            self._heartbeat_task = None
