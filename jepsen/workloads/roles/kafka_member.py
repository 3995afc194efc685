"""Group members over Kafka's protocol: the library joins and rebalances, the role reads, commits, stalls and ends.

The library may rejoin at any time, and does not report it. So in the history each join begins, in a process of its own,
when the join before it ended. The real begin may be later than recorded, never earlier."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Final

from jepsen.checkers import GroupOffsets, Membership, Poll, Subscribe
from jepsen.checkers.history import COMMIT, COMMITTED, JOIN, POLL, SUBSCRIBE, Op
from jepsen.workloads.adapters.library import KafkaLibrary, MemberConsumer, MemberIdentity, MemberSettings
from jepsen.workloads.client.recording import HistoryWriter
from jepsen.workloads.roles.group_member import GROUPS, LEAVES, MOMENT_S, SESSION_TIMEOUT_MS, STALLS, STATIC_SHARE
from jepsen.workloads.roles.poll_results import group_by_partition
from raftlog.errors import OutcomeUnknown, RaftlogError
from raftlog.types import Offset, TopicPartition

POLL_INTERVAL_MS_MAX: Final = 2 * SESSION_TIMEOUT_MS
WAITS_MS: Final = (20, 100, 300)
ASKS_MS: Final = 3_000
COMMITS, READS = 0.2, 0.05
"""Shares of the steps inside of a group."""


class KafkaMember:
    """Role of a group member of a Kafka library, with one process for polls and commits, and one for joins.

    When one stops, a new one follows."""

    def __init__(
        self,
        library: KafkaLibrary,
        history: HistoryWriter,
        process: int,
        joins: int,
        topics: Sequence[str],
        random: Random,
    ) -> None:
        """Create a member of a random group, which may be static.

        `process` and `joins` are the process numbers of its operations and of its joins in the history."""
        self._library, self._history, self._random = library, history, random
        self._process, self._joins = process, joins
        self._topics = tuple(topics)
        self._group = random.choice(GROUPS)
        self._instance = f"static-{process}" if random.random() < STATIC_SHARE else None
        strategies = library.strategies
        self._strategy = strategies[0] if self._group == GROUPS[0] else strategies[-1]
        self._join: Op | None = None
        self._owned: tuple[TopicPartition, ...] = ()
        self._positions: dict[TopicPartition, int] = {}

    async def run(self, until_s: float) -> None:
        """Run group members, one after another, until `until_s` (event-loop time)."""
        loop = asyncio.get_running_loop()
        while loop.time() < until_s:
            consumer = self._begin()
            try:
                await consumer.start()
                while loop.time() < until_s and self._random.random() >= LEAVES:
                    await self._step(consumer)
            except RaftlogError:
                await asyncio.sleep(MOMENT_S)
            finally:
                await consumer.close()
                self._history.crash(self._joins)
                self._join = None

    def _begin(self) -> MemberConsumer:
        """Record subscription and join, and return a new consumer."""
        self._owned, self._positions = (), {}
        self._history.ok(self._history.invoke(self._process, SUBSCRIBE, Subscribe(self._topics)))
        self._invoke_join("")
        settings = MemberSettings(
            self._topics, self._group, self._instance, self._strategy, SESSION_TIMEOUT_MS, POLL_INTERVAL_MS_MAX
        )
        return self._library.new_member(settings, self._on_assigned)

    def _invoke_join(self, member: str) -> None:
        """Record that a join begins; the present member id is empty before the first one."""
        self._join = self._history.invoke(self._joins, JOIN, Membership(self._group, member))

    def _on_assigned(self, identity: MemberIdentity, partitions: Sequence[TopicPartition]) -> None:
        """Record a completed join with its partitions, and begin to wait for the next one."""
        if self._join is None or identity.generation < 0:
            return
        self._owned = tuple(partitions)
        self._positions = {place: at for place, at in self._positions.items() if place in partitions}
        joined = Membership(self._group, identity.member, identity.generation, self._owned, self._instance or "")
        self._history.ok(self._join, joined)
        self._invoke_join(identity.member)

    async def _step(self, consumer: MemberConsumer) -> None:
        """Do one random step: stall longer than allowed, commit, read committed offsets, or poll."""
        draw = self._random.random()
        if draw < STALLS:
            await asyncio.sleep(self._random.uniform(0.5, 1.5) * POLL_INTERVAL_MS_MAX / 1000)
        elif draw < COMMITS:
            await self._commit(consumer)
        elif draw < COMMITS + READS:
            await self._read_committed(consumer)
        else:
            await self._poll(consumer)

    async def _poll(self, consumer: MemberConsumer) -> None:
        """Poll once and record the records; after an error wait for a moment."""
        invocation = self._history.invoke(self._process, POLL, Poll())
        try:
            records = await consumer.poll(self._random.choice(WAITS_MS))
        except RaftlogError as error:
            self._history.record_refusal(invocation, error)
            await asyncio.sleep(MOMENT_S)
            return
        for record in records:
            self._positions[TopicPartition(record.topic, record.partition)] = record.offset + 1
        self._history.ok(invocation, Poll(group_by_partition(records)))
        self._history.polled += len(records)

    async def _commit(self, consumer: MemberConsumer) -> None:
        """Commit under the present member id and generation; the outcome is unknown if they changed meanwhile."""
        before = consumer.identity()
        offsets = {place: at for place, at in self._positions.items() if place in self._owned}
        if before.generation < 0 or not offsets:
            return
        rows = tuple((place, Offset(offset)) for place, offset in offsets.items())
        invocation = self._history.invoke(self._process, COMMIT, GroupOffsets(self._group, rows, *before))
        try:
            await consumer.commit(offsets)
            if (now := consumer.identity()) != before:
                raise OutcomeUnknown(f"committed as {before} or as {now}")
        except RaftlogError as error:
            self._history.record_refusal(invocation, error)
        else:
            self._history.ok(invocation)

    async def _read_committed(self, consumer: MemberConsumer) -> None:
        """Read the committed offsets of the owned partitions, and record them; nothing without partitions."""
        if not self._owned:
            return
        invocation = self._history.invoke(self._process, COMMITTED, GroupOffsets(self._group))
        try:
            found = await consumer.committed(self._owned, ASKS_MS)
        except RaftlogError as error:
            self._history.record_refusal(invocation, error)
        else:
            self._history.ok(invocation, GroupOffsets(self._group, tuple(found.items())))
