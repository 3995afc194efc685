"""Partitions that a `Consumer` reads: those assigned by hand, all of its topics, or its share in a consumer group.

Called by `Consumer` alone. A rebalance runs inside `wait_for_assignment`, which is part of every poll: the present
partitions are given up (offsets committed, `on_revoked`), then the group is joined in a task that outlives the poll,
and then the new assignment is read (`on_assigned`)."""

import asyncio
import re
import time
from collections.abc import Mapping

from raftlog.client.broker import BrokerClient
from raftlog.client.consumers.commits import Commits
from raftlog.client.consumers.consumer_settings import ConsumerSettings, RebalanceListener
from raftlog.client.consumers.fetcher import PartitionFetcher
from raftlog.client.consumers.group_session import Assigned, GroupSession
from raftlog.client.consumers.handed_records import HandedRecords
from raftlog.client.group_answers import CommittedOffset
from raftlog.client.metadata import Metadata
from raftlog.client.outage import Outage, is_unanswered
from raftlog.errors import InvalidArgument, OutcomeUnknown, Unavailable
from raftlog.types import Offset, TopicPartition


class AssignedPartitions:
    """Assignment of a consumer, by `subscribe` or by `assign`: only by one of the two, which can be called again."""

    def __init__(
        self,
        client: BrokerClient,
        metadata: Metadata,
        settings: ConsumerSettings,
        fetcher: PartitionFetcher,
        handed: HandedRecords,
        commits: Commits | None,
    ) -> None:
        """Start without an assignment. `commits` are those of the consumer group; None without a group."""
        self._client, self._metadata, self._settings = client, metadata, settings
        self._fetcher, self._handed, self._commits = fetcher, handed, commits
        self._listener = RebalanceListener()
        self._topics: tuple[str, ...] = ()
        self._pattern: re.Pattern[str] | None = None
        self._matched: frozenset[str] = frozenset()
        self._member: GroupSession | None = None
        self._joining: asyncio.Task[Assigned] | None = None
        self._outage = Outage("topics of the consumer", settings.give_up_after_s, is_temporary=is_unanswered)
        self._is_manual = self._is_outdated = False
        metadata.changed = self._handle_metadata_change

    # subscription and assignment

    def subscribe(self, topics: tuple[str, ...], pattern: str | None, listener: RebalanceListener | None) -> None:
        """Read these topics, or those that match the pattern. Raises `InvalidArgument`."""
        if bool(topics) == (pattern is not None):
            raise InvalidArgument("subscribe to topics or to a pattern, one of the two")
        if self._is_manual:
            raise InvalidArgument("partitions are assigned to this consumer; create another one to subscribe")
        try:
            self._pattern = None if pattern is None else re.compile(pattern)
        except re.error as error:
            raise InvalidArgument(f"{pattern!r} is not a regular expression: {error}") from None
        self._topics = topics
        self._listener = listener or self._listener
        self._is_outdated = True
        if self._commits is not None:
            if self._member is None:
                woken = self._fetcher.arrived.set
                self._member = GroupSession(self._client, self._metadata, self._settings, woken)
                self._commits.member = self._member
            self._member.rejoin()

    async def assign(self, topic_partitions: Mapping[TopicPartition, Offset | None]) -> None:
        """Read exactly these partitions. Raises `InvalidArgument`."""
        if self._topics or self._pattern is not None:
            raise InvalidArgument("this consumer is subscribed to topics; create another one to assign partitions")
        self._is_manual = True
        readings = self._fetcher.readings
        await self._fetcher.end(
            [topic_partition for topic_partition in readings if topic_partition not in topic_partitions]
        )
        new = {
            topic_partition: at for topic_partition, at in topic_partitions.items() if topic_partition not in readings
        }
        for topic_partition, at in new.items():
            if at is not None:
                self._fetcher.pending.forget_start(topic_partition)
        committed: Mapping[TopicPartition, CommittedOffset] = {}
        if self._settings.group is not None and None in new.values():
            stable = [topic_partition for topic_partition, at in new.items() if at is None]
            committed = await self._client.groups.committed(
                self._settings.group, stable=stable if self._settings.reads_committed else ()
            )
        known = {topic_partition: found.offset for topic_partition, found in committed.items()}
        if self._commits is not None:
            self._commits.begin(known)
        self._fetcher.begin(
            {topic_partition: known.get(topic_partition) if at is None else at for topic_partition, at in new.items()}
        )

    # during a poll

    async def wait_for_assignment(self, ends_at: float) -> bool:
        """Wait for the assignment until `ends_at`; return whether it is known. Raises the error that prevents it."""
        if self._member is None:
            if not (self._is_manual or self._topics or self._pattern):
                raise InvalidArgument("nothing to read; subscribe to topics or assign partitions first")
            return not self._is_outdated or await self._read_all(ends_at)
        member = self._member
        member.last_poll_s = time.monotonic()
        if member.fatal is not None:
            raise member.fatal
        if member.needs_join and self._joining is None:
            await self._revoke_all()
            self._joining = asyncio.create_task(self._join(member))
        if self._joining is None:
            return True
        joined = self._joining
        await asyncio.wait([joined], timeout=max(0.0, ends_at - time.monotonic()))
        if not joined.done() or joined.cancelled():  # cancelled: another task closed the consumer
            return False
        self._joining = None
        if joined.exception() is not None:
            member.needs_join = True
        await self._read_assigned(joined.result())
        return True

    async def notify_resets(self) -> None:
        """Call the listener's `on_reset` for each position that was outside the log."""
        while self._fetcher.resets:
            await self._listener.on_reset(*self._fetcher.resets.popleft())

    async def close(self) -> None:
        """Commit the offsets, and leave the group."""
        if self._joining is not None:
            self._joining.cancel()
            await asyncio.gather(self._joining, return_exceptions=True)
        self._outage.end()
        await self._revoke_all()
        if self._member is not None:
            await self._member.leave()

    # below

    async def _read_assigned(self, assigned: Assigned) -> None:
        """Start to read the partitions of a new generation, and call `on_assigned`."""
        assert self._commits is not None, "there is a group"
        self._commits.begin(assigned)
        self._fetcher.begin(assigned)
        await self._listener.on_assigned(list(assigned))

    async def _revoke_all(self) -> None:
        """Stop reading all partitions, and commit the processed offsets if the member still may."""
        topic_partitions = list(self._fetcher.readings)
        if not topic_partitions:
            return
        may_be_replaced = self._member is not None and self._member.may_be_replaced
        if self._commits is not None and self._settings.auto_commit and not may_be_replaced:
            await self._commits.try_commit(self._handed.processed())
        if self._member is not None:
            notify = self._listener.on_lost if self._member.may_be_replaced else self._listener.on_revoked
            await notify(topic_partitions)
        await self._fetcher.end(topic_partitions)
        self._handed.forget()

    async def _find_topics(self) -> tuple[str, ...]:
        """Return the topics, or those that match the pattern now."""
        if self._pattern is None:
            return self._topics
        await self._metadata.match(self._pattern)
        self._matched = self._metadata.matching
        return tuple(sorted(self._matched))

    async def _join(self, member: GroupSession) -> Assigned:
        """Join the group for the topics; return the assignment with its committed offsets."""
        return await member.join(await self._outage.repeat(self._find_topics))

    async def _read_all(self, ends_at: float) -> bool:
        """Read every partition of the topics, without a group; new partitions are read from their beginning.

        Returns False while the topics are not known."""
        readings = self._fetcher.readings
        is_first = not readings
        self._is_outdated = False
        self._outage.begin()
        try:
            wanted = {
                TopicPartition(name, number)
                for name in await self._find_topics()
                for number in range((await self._metadata.topic(name)).partitions)
            }
        except (Unavailable, OutcomeUnknown) as error:
            self._is_outdated = True
            await self._outage.pause(error, ends_at - time.monotonic())
            self._fetcher.arrived.set()  # wakes the poll for another try
            return False
        self._outage.end()
        await self._fetcher.end([topic_partition for topic_partition in readings if topic_partition not in wanted])
        new = sorted(topic_partition for topic_partition in wanted if topic_partition not in readings)
        self._fetcher.begin(dict.fromkeys(new), None if is_first else "earliest")
        return True

    def _handle_metadata_change(self) -> None:
        """Rejoin or reread the topics if a metadata refresh changed them."""
        if self._is_manual or not (self._topics or self._pattern is not None):
            return
        if self._member is None:
            self._is_outdated = True
            self._fetcher.arrived.set()
        elif self._pattern is not None and self._metadata.matching != self._matched:
            self._member.rejoin()
        else:
            self._member.rejoin_if_topics_changed()
