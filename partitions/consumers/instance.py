"""One consumer instance, at the coordinator of its group.

    idle → subscribed (a group member, assigned by the group) → idle;   idle → assigned by hand → idle

Polls and all changes of positions take turns; a request for the turn interrupts the poll that holds it, which ends
with the records it has. A poll that a newer one interrupts delivers nothing: its client has disconnected. Changes of
the instance are stored in the group's log before they are answered (`stored_instance`). When the coordinator ends, the
instance is dropped; the next coordinator creates it from the log. Called by the service."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from raftlog.errors import ConsumerState, RaftlogError, RebalanceInProgress, TopicNotAuthorized
from raftlog.partitions.consumers.deliveries import Deliveries
from raftlog.partitions.consumers.initial_positions import InitialPositions, committed_offset
from raftlog.partitions.consumers.instance_host import InstanceHost
from raftlog.partitions.consumers.member import InstanceMember
from raftlog.partitions.consumers.offset_commits import InstanceCommits
from raftlog.partitions.consumers.patterns import TopicPattern
from raftlog.partitions.consumers.positions import FetchPositions
from raftlog.partitions.consumers.results import (
    ChosenPosition,
    CommitOutcome,
    CommittedPosition,
    ConsumedRecord,
    MovedPosition,
    PollDelivery,
    SubscribedTopics,
)
from raftlog.partitions.consumers.stored_instance import Anchor, StoredInstance
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.groups.results import MemberIdentity, OffsetCommit
from raftlog.partitions.produce.pending import copied_error
from raftlog.types import Offset, TopicPartition

_logger = logging.getLogger(__name__)

_CLOSING_MS: Final = 2_000
"""Time to commit acknowledged offsets before their partitions are assigned to others, in ms."""
_LEAST_FINDING_MS: Final = 500
"""Minimum time that a poll has to find its initial positions, in ms."""
_COMMITTING_S: Final = 0.5
"""Time that a poll waits for its auto-commit, in seconds, so that a later read of the committed offsets sees it."""


class Instance:
    """Consumer instance: a consumer that a broker runs for a REST client. `stored` is its record in the log."""

    def __init__(self, host: InstanceHost, group: str, name: str, stored: StoredInstance) -> None:
        self.group, self.name, self.stored = group, name, stored
        self._host = host
        self._loop = asyncio.get_running_loop()
        self.used_at = self._loop.time()
        """Time when the last request to the instance arrived or was answered."""
        self.users = 0
        """Requests about it that are being answered."""
        self._over: RaftlogError | None = None
        """Error that every request receives from now on; None while the instance is usable."""
        self._stops = False
        """Whether polls return without waiting."""
        self._turn, self._wanting, self._interrupted = asyncio.Lock(), 0, asyncio.Event()
        self._storing = asyncio.Lock()
        self._polls = 0
        """Polls so far: only the newest delivers."""
        self._last_poll = ""
        self._matched: tuple[str, ...] = ()
        """Topics that the pattern matches."""
        self._member: InstanceMember | None = None
        self._has_begun = asyncio.Event()
        """Event set after the stored state was restored: a subscribed instance has its group member."""
        self._positions = FetchPositions(host.catalogue.topic_id)
        settings = stored.settings
        self._initial_positions = InitialPositions(host, group, settings.reset, self._positions)
        self._commits = InstanceCommits(host, group, name, self._positions, self._identity, self._wait_for_assignment)
        self._deliveries = Deliveries(host, settings, self._positions, self._initial_positions)
        self._background: dict[asyncio.Task[None], None] = {}

    # start and end

    def begin(self) -> None:
        """Restore the stored subscription or assignment."""
        if self.stored.is_subscribed:
            self._run_in_background(self._subscribe())
        else:
            self._has_begun.set()
            self._positions.own(self.stored.assigned, keep=True)

    def end(self, error: RaftlogError) -> None:
        """Fail all requests with `error`, because the coordinator has ended."""
        self._over = error
        self.interrupt()
        if self._member is not None:
            self._member.abandon()
        self._stop()

    def _stop(self) -> None:
        """Cancel pending commits and all tasks in the background."""
        self._commits.stop()
        for task in list(self._background):
            task.cancel()

    async def delete(self, why: RaftlogError, *, is_wanted: bool, deadline: Deadline) -> None:
        """Leave the consumer group and delete the instance durably.

        `is_wanted`: on its client's request; the client has processed all delivered records, so they are committed."""
        if self.stored.settings.auto_commit:
            offsets = self._positions.delivered() if is_wanted else self._positions.acknowledged()
            await self._commits.try_to_commit(offsets, _closing_deadline(deadline))
        async with self._hold_turn():
            await self._host.coordinator.store_instance(self.group, self.name, None, deadline=deadline)
            self._over = why
        self._stop()
        if self._member is not None:
            await self._member.leave()

    def interrupt(self) -> None:
        """Make all polls return at once, because the broker is about to stop."""
        self._stops = True
        self._interrupted.set()

    def _check_usable(self) -> None:
        """Raise the error of an ended instance."""
        if self._over is not None:
            raise copied_error(self._over)

    @asynccontextmanager
    async def _hold_turn(self, *, is_urgent: bool = True) -> AsyncIterator[None]:
        """Lock the instance for one request during the block; if `is_urgent`, interrupt a poll that holds the lock."""
        self._wanting += is_urgent
        if is_urgent:
            self._interrupted.set()
        try:
            await self._turn.acquire()
        finally:
            self._wanting -= is_urgent
            if not self._wanting and not self._stops:
                self._interrupted.clear()
        try:
            self._check_usable()
            yield
        finally:
            self._turn.release()

    async def _store(self, change: Callable[[StoredInstance], StoredInstance], deadline: Deadline) -> None:
        """Store a changed record in the log; changes are serialized, so that the log has them in this order."""
        async with self._storing:
            changed = change(self.stored)
            if changed != self.stored:
                coordinator = self._host.coordinator
                await coordinator.store_instance(self.group, self.name, changed.as_record(), deadline=deadline)
                self.stored = changed

    def _run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work, name=f"consumer {self.group}/{self.name}")
        self._background[task] = None
        task.add_done_callback(self._on_task_end)

    def _on_task_end(self, task: asyncio.Task[None]) -> None:
        del self._background[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            _logger.error("%s failed", task.get_name(), exc_info=error)

    # subscription and assignment

    async def subscribe(self, topics: tuple[str, ...], pattern: str | None, deadline: Deadline) -> None:
        """Subscribe to topics by name or by pattern, in place of the earlier subscription of the same kind.

        Raises `ConsumerState` when it is subscribed the other way or has partitions assigned, and `InvalidArgument`."""
        if pattern is not None:
            TopicPattern(pattern)
        stored = self.stored
        if stored.assigned:
            raise ConsumerState(f"{self.name} has partitions assigned; delete its subscription first")
        if stored.is_subscribed and (stored.pattern is None) != (pattern is None):
            raise ConsumerState(
                f"{self.name} is subscribed by names or by pattern, not both; delete its subscription first"
            )
        await self._store(lambda now: now._replace(topics=topics, pattern=pattern), deadline)
        await self._subscribe()

    async def _subscribe(self) -> None:
        """Join or rejoin the group for the stored subscription."""
        if self.stored.pattern is not None:
            self._matched = await self._match_topics(self.stored.pattern)
        self._has_begun.set()
        if self._over is not None or not self.stored.is_subscribed:
            return
        if self._member is None:
            strategy = self.stored.settings.strategy
            self._member = InstanceMember(self._host, self.group, self.name, strategy, self, self.stored.member_id)
        else:
            self._member.subscription_changed()

    async def _match_topics(self, pattern: str) -> tuple[str, ...]:
        """Return the topics that match a pattern and that the owner may read."""
        matched = await TopicPattern(pattern).matching(self._host.catalogue.names())
        owner = self.stored.settings.owner
        return tuple(topic for topic in matched if self._host.may_read(owner, topic))

    @asynccontextmanager
    async def _while_authorized(self) -> AsyncIterator[None]:
        """Raise `TopicNotAuthorized` in the block if the owner may not, or no longer, read all assigned topics."""
        topics = dict.fromkeys(partition.topic for partition in self._positions.owned)
        try:
            async with self._host.while_readable(self.stored.settings.owner, topics):
                yield
        except TopicNotAuthorized as error:
            if self.stored.pattern is not None:  # the group soon assigns only topics that the owner may read
                raise RebalanceInProgress(f"{self.name} gives up topics that its user may not read") from None
            raise TopicNotAuthorized(f"the user that created {self.name} lacks a permission: {error}") from None

    async def topics_changed(self) -> None:
        """Match the pattern again after topics were created or deleted."""
        if self.stored.pattern is None or self._member is None:
            return
        matched = await self._match_topics(self.stored.pattern)
        if matched != self._matched and self._member is not None:
            self._matched = matched
            self._member.subscription_changed()

    async def unsubscribe(self, deadline: Deadline) -> None:
        """Leave the group, or drop the manually assigned partitions."""
        async with self._hold_turn():
            if self.stored.settings.auto_commit:
                await self._commits.commit_before_revocation(
                    self._positions.acknowledged(), _closing_deadline(deadline)
                )
            await self._store(
                lambda now: now._replace(topics=(), pattern=None, assigned=(), member_id="", anchors={}), deadline
            )
            self._positions.own((), keep=False)
            member, self._member, self._matched = self._member, None, ()
        if member is not None:
            await member.leave()

    async def assign(self, partitions: Collection[TopicPartition], deadline: Deadline) -> None:
        """Assign partitions manually, in place of earlier ones.

        Raises `ConsumerState` when the instance is subscribed, and `UnknownTopic`."""
        if self.stored.is_subscribed:
            raise ConsumerState(f"{self.name} is subscribed; delete its subscription first")
        wanted = tuple(sorted(set(partitions)))
        for partition in wanted:
            await self._host.catalogue.check(partition, deadline)
        async with self._hold_turn():
            if self.stored.is_subscribed:
                raise ConsumerState(f"{self.name} is subscribed; delete its subscription first")
            await self._store(
                lambda now: now._replace(assigned=wanted, anchors=_select_anchors(now.anchors, wanted)), deadline
            )
            self._positions.own(wanted, keep=True)
        self._run_in_background(self._decide_positions())

    @property
    def subscribed(self) -> SubscribedTopics:
        """Topics to which the instance is subscribed now."""
        return SubscribedTopics(self.wanted_topics(), self.stored.pattern)

    @property
    def assignment(self) -> Sequence[TopicPartition]:
        """Partitions that the instance reads now."""
        return self._positions.owned

    # callbacks of its group member (`member.MemberListener`)

    def wanted_topics(self) -> tuple[str, ...]:
        """Return the topics subscribed by name, or those that match the pattern."""
        return self.stored.topics if self.stored.pattern is None else self._matched

    async def on_member_id(self, member_id: str) -> None:
        """Store the member id that the group assigned."""
        await self._store(lambda now: now._replace(member_id=member_id), deadline_in(_CLOSING_MS))

    async def on_partitions_revoked(self) -> None:
        """Commit acknowledged offsets under the present generation, because the group rebalances."""
        async with self._hold_turn():
            if self.stored.settings.auto_commit:
                await self._commits.commit_before_revocation(self._positions.acknowledged(), deadline_in(_CLOSING_MS))

    async def on_partitions_assigned(self, partitions: Collection[TopicPartition], *, keep: bool) -> None:
        """Read these partitions. `keep` the positions: no other member has owned them since the last call."""
        async with self._hold_turn():
            self._positions.own(partitions, keep=keep)
        self._run_in_background(self._decide_positions())

    async def on_partitions_lost(self) -> None:
        """Stop reading all partitions: the group continued without this member, and others may own them."""
        async with self._hold_turn():
            self._positions.own((), keep=False)

    async def _decide_positions(self) -> None:
        """Decide the initial positions before the first poll, so that no later record is skipped."""
        try:
            async with self._hold_turn(is_urgent=False):
                await self._ensure_positions(deadline_in(_CLOSING_MS))
        except RaftlogError as error:
            _logger.debug("%s/%s finds its positions with its next poll: %s", self.group, self.name, error)

    def _identity(self) -> MemberIdentity | None:
        return None if self._member is None else self._member.identity

    async def _wait_for_assignment(self, deadline: Deadline) -> None:
        """Wait until the group has an assignment.

        Raises `RebalanceInProgress` at the deadline, and the member's error."""
        try:
            async with asyncio.timeout_at(deadline):
                await self._has_begun.wait()
                member = self._member
                if member is not None:
                    await member.settled.wait()
        except TimeoutError:
            raise RebalanceInProgress(f"group {self.group} rebalances; retry") from None
        self._check_usable()
        if member is not None and member.problem is not None:
            raise copied_error(member.problem)
        if member is None and not self.stored.assigned:
            raise ConsumerState(f"{self.name} has no subscription and no partitions; subscribe it or assign partitions")

    # polls

    async def poll(self, poll_id: str, wait_ms: int, max_bytes: int, formats: Collection[str]) -> PollDelivery:
        """Return records of the assigned partitions from their positions on.

        A retry under the id of the last poll returns the same records again: the answer was lost between brokers.
        Raises `ConsumerState` when the instance reads nothing, and the errors of `Deliveries`."""
        if self.stored.settings.format not in formats:
            return self._deliveries.empty_answer
        number = self._polls = self._polls + 1
        longest_ms = min(self.stored.settings.request_timeout_ms, self._host.bounds.wait_ms_max)
        until = deadline_in(min(wait_ms, longest_ms))
        async with self._hold_turn():
            if poll_id == self._last_poll:
                self._positions.roll_back()
            else:
                self._positions.acknowledge()
                self._last_poll = poll_id
        committing = self._commits.auto_commit() if self.stored.settings.auto_commit else None
        delivery = await self._poll(number, until, max_bytes)
        if committing is not None:
            await asyncio.wait((committing,), timeout=_COMMITTING_S)
        if delivery.pieces or delivery.moved or number != self._polls or self._stops:
            return delivery
        return delivery._replace(may_wait_ms=max(0, longest_ms - wait_ms))

    async def _poll(self, number: int, until: Deadline, max_bytes: int) -> PollDelivery:
        """Fetch until there are records, or the deadline; after an interruption, such as a rebalance, fetch again."""
        moved: list[MovedPosition] = []
        while True:
            try:
                await self._wait_for_assignment(until)
                async with self._hold_turn():
                    refused = await self._ensure_positions(Deadline(max(until, deadline_in(_LEAST_FINDING_MS))))
                    if refused:
                        return PollDelivery(self.stored.settings.format, (), refused)
                    async with self._while_authorized():
                        delivery = await self._deliveries.attempt(
                            until, max_bytes, self._interrupted, lambda: number == self._polls
                        )
            except RebalanceInProgress:
                return self._deliveries.empty_answer
            moved += delivery.moved
            if not delivery.pieces:
                self._check_usable()  # the client retries at the new coordinator, which may wait longer
            has_ended = number != self._polls or self._stops or self._loop.time() >= until
            if delivery.pieces or has_ended or any(each.to is None for each in moved):
                return delivery._replace(moved=moved)
            await asyncio.sleep(0)

    async def _ensure_positions(self, deadline: Deadline) -> list[MovedPosition]:
        """Set the positions of partitions without one; return those that cannot get one (reset policy `none`)."""
        self._positions.forget_other_topics()
        begun = await self._initial_positions.decide(self.stored.anchors, deadline)
        if begun.anchors:
            try:
                await self._store_anchors(begun.anchors, deadline)
            except RaftlogError:
                for partition in begun.anchors:
                    self._positions.forget(partition)
                raise
        return begun.refused

    # positions and offsets

    async def seek(self, chosen: Sequence[ChosenPosition], deadline: Deadline) -> None:
        """Set positions. Raises `ConsumerState`, and sets none, if a partition is not assigned to the instance."""
        await self._wait_for_assignment(deadline)
        self._check_owned(each.partition for each in chosen)
        found = await self._initial_positions.resolve(chosen, deadline)
        async with self._hold_turn():
            self._check_owned(found)
            await self._commits.wait_for_auto_commit()
            committed = await self._host.offsets.committed(self.group, deadline=deadline)
            await self._store_anchors(
                {each: Anchor(offset, committed_offset(committed, each)) for each, offset in found.items()}, deadline
            )
            for partition, offset in found.items():
                self._positions.begin(partition, offset)

    def _check_owned(self, partitions: Iterable[TopicPartition]) -> None:
        """Raise `ConsumerState` if one of the partitions is not assigned to the instance."""
        foreign = set(partitions).difference(self._positions.owned)
        if foreign:
            raise ConsumerState(f"{min(foreign)} is not assigned to {self.name}; its position cannot be set")

    async def _store_anchors(self, anchors: Mapping[TopicPartition, Anchor], deadline: Deadline) -> None:
        """Store anchors in the group's log; drop those of partitions that are not assigned."""
        owned = self._positions.owned
        await self._store(
            lambda now: now._replace(anchors=_select_anchors({**now.anchors, **anchors}, owned)), deadline
        )

    async def commit(
        self, consumed: Sequence[ConsumedRecord] | None, is_waited_for: bool, deadline: Deadline
    ) -> list[CommitOutcome]:
        """Commit the offsets after these records, or with None after all delivered ones.

        Without waiting, the outcomes show only which offsets were accepted."""
        if consumed is None:
            offsets = self._positions.delivered()
        else:
            offsets = {each.partition: OffsetCommit(Offset(each.offset + 1), each.metadata) for each in consumed}
        commit = self._commits.commit if is_waited_for else self._commits.commit_in_background
        return await commit(offsets, deadline)

    async def committed(
        self, partitions: Collection[TopicPartition] | None, deadline: Deadline
    ) -> list[CommittedPosition]:
        """Return the group's committed offsets of these partitions, or of all assigned ones; omit missing ones."""
        committed = await self._host.offsets.committed(self.group, deadline=deadline)
        wanted = self._positions.owned if partitions is None else sorted(set(partitions))
        found = ((partition, committed.get(partition)) for partition in wanted)
        return [
            CommittedPosition(*partition, each.offset, each.metadata) for partition, each in found if each is not None
        ]


def _closing_deadline(deadline: Deadline) -> Deadline:
    return Deadline(min(deadline, deadline_in(_CLOSING_MS)))


def _select_anchors(
    anchors: Mapping[TopicPartition, Anchor], partitions: Collection[TopicPartition]
) -> dict[TopicPartition, Anchor]:
    wanted = set(partitions)
    return {partition: anchor for partition, anchor in anchors.items() if partition in wanted}
