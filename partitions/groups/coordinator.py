"""Coordinator of consumer groups: their machine on one partition of `__consumer_offsets`, for one leader's term.

It executes the machine's effects in their order: answers to waiting requests, and records, beside the commits that
the machine allowed. Called by `operations`, and in this process by consumer instances, which run at coordinators."""

import asyncio
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Final, TypeVar

from raftlog.errors import (
    DeadlineExceeded,
    NotLeader,
    Overloaded,
    RaftlogError,
    RebalanceInProgress,
    RequestError,
    Unavailable,
)
from raftlog.partitions.coordinator.folded import LogEntry
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.groups.effects import GroupAnswer, Store, Token
from raftlog.partitions.groups.environment import GroupEnvironment
from raftlog.partitions.groups.expiry import GroupExpiry
from raftlog.partitions.groups.folded import FoldedGroups, GroupEntry
from raftlog.partitions.groups.machine import Machine
from raftlog.partitions.groups.offsets import Offsets, OffsetsPort
from raftlog.partitions.groups.records import (
    GroupKey,
    InstanceKey,
    InstanceRecord,
    Key,
    OffsetKey,
    PendingOffsetKey,
)
from raftlog.partitions.groups.results import (
    GroupHeartbeat,
    Join,
    JoinedGeneration,
    Leave,
    LeftMember,
    MemberIdentity,
    MemberIdGiven,
    Sync,
    SyncedGeneration,
)
from raftlog.partitions.groups.transactions import GroupTransactions
from raftlog.partitions.replica import Replica

_R = TypeVar("_R")

WAITING_MAX: Final = 20_000
"""Limit of requests that wait for the machine's answers; more are refused."""


class GroupCoordinator(OffsetsPort):
    """Coordinator of the consumer groups in one partition of `__consumer_offsets`."""

    def __init__(
        self, replica: Replica, environment: GroupEnvironment, failed: Callable[["GroupCoordinator"], None]
    ) -> None:
        """Create the coordinator of a leader's term.

        `failed` is called with it when a new one must read the log again."""
        super().__init__(replica, FoldedGroups(replica.name, environment.feature_level), environment.wall_ms, failed)
        self._environment = environment
        self.machine = Machine(environment.settings, environment.random, environment.partitions_of, environment.wall_ms)
        self.offsets = Offsets(self, environment)
        self.transactions = GroupTransactions(self, self.offsets, environment)
        self._tokens = count(1)
        self._waiting: dict[Token, asyncio.Future[Any]] = {}
        self._timer: asyncio.TimerHandle | None = None

    # callbacks of every coordinator

    def begin(self) -> None:
        """Load the groups from the log into the machine."""
        now = self._loop.time()
        for group, record in self.folded.groups.items():
            self.machine.load(group, record, now)
        self.topics_changed()

    def stop(self, error: NotLeader) -> None:
        """Stop the machine, and fail all waiting requests: the coordinator moved to the leader in `error`."""
        self.machine.stop(error)
        self._execute_effects()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(self._moved_error(error.leader))

    def topics_changed(self) -> None:
        """Pass a change of the cluster's topics to the machine."""
        if self.is_loaded and not self.is_over:
            self.machine.topics_changed(self._loop.time())
            self._execute_effects()

    async def expire(self) -> None:
        """Expire the groups and offsets that are due."""
        await GroupExpiry(self, self._environment).run()

    def is_kept(self, key: Key) -> bool:
        """Return false for offsets of a deleted topic, true for all other keys."""
        return not (isinstance(key, OffsetKey | PendingOffsetKey) and self._environment.is_deleted(key.topic_id))

    def group_names(self) -> list[str]:
        """Return the names of groups with members or offsets here, sorted."""
        return sorted(self.folded.names().union(self.machine.names()))

    # membership

    async def join(self, join: Join, deadline: Deadline) -> JoinedGeneration | MemberIdGiven:
        """Join a group, or rejoin it; return when the join phase has ended. Raises as `Groups.join`."""
        await self.wait_until_ready(deadline)
        try:
            answer: JoinedGeneration | MemberIdGiven = await self._send_request(self.machine.join, join, deadline)
        except TimeoutError:
            again = f"with the id {join.member_id!r}" if join.member_id else "as before"
            raise RebalanceInProgress(
                f"group {join.group}: the other members have not joined before the deadline; join again {again}"
            ) from None
        return answer

    async def sync(self, sync: Sync, deadline: Deadline) -> SyncedGeneration:
        """Return the assignment of a member, once the group leader has sent it and it is stored.

        Raises as `Groups.sync`."""
        await self.wait_until_ready(deadline)
        try:
            answer: SyncedGeneration = await self._send_request(self.machine.sync, sync, deadline)
        except TimeoutError:
            raise Unavailable(
                f"group {sync.group}: its group leader has not assigned generation {sync.generation} yet; sync again"
            ) from None
        return answer

    async def heartbeat(self, heartbeat: GroupHeartbeat, deadline: Deadline) -> None:
        """Extend the session of a member. Raises as `Groups.heartbeat`."""
        await self.wait_until_ready(deadline)
        try:
            await self._send_request(self.machine.heartbeat, heartbeat, deadline)
        except TimeoutError:
            return  # it extended the session when it arrived

    async def leave(self, leave: Leave, deadline: Deadline) -> tuple[LeftMember, ...]:
        """Remove members from the group; return the result of each, in order."""
        await self.wait_until_ready(deadline)
        left: tuple[LeftMember, ...] = await self._send_request(self.machine.leave, leave, deadline)
        if any(each.error is not None for each in left):
            await self.confirm(deadline)
        return left

    async def delete(self, group: str, deadline: Deadline) -> None:
        """Delete a group that has or had members. Raises as `Groups.delete`."""
        await self.wait_until_ready(deadline)
        try:
            await self._send_request(self.machine.delete, group, deadline)
        except TimeoutError:
            raise DeadlineExceeded(
                f"the deletion of group {group} was not stored before the deadline; describe the group, then retry"
            ) from None

    async def _send_request(self, ask: Callable[[Token, _R, float], None], request: _R, deadline: Deadline) -> Any:
        """Pass a request to the machine and return its answer. Raises its error, and `TimeoutError` at the deadline."""
        if len(self._waiting) >= WAITING_MAX:
            raise Overloaded(
                f"{self.replica.name}: {len(self._waiting)} requests of group members wait, the limit; retry later"
            )
        token, future = next(self._tokens), self._loop.create_future()
        self._waiting[token] = future
        ask(token, request, self._loop.time())
        self._execute_effects()
        try:
            async with asyncio.timeout_at(deadline):
                return await future
        except RequestError:
            await self.confirm(deadline)
            raise
        finally:
            if self._waiting.pop(token, None) is not None and not self.is_over:
                self.machine.cancel(token, self._loop.time())
                self._execute_effects()

    def commit_error(
        self, group: str, member: MemberIdentity, *, is_transactional: bool = False
    ) -> RaftlogError | None:
        """Return the error with which `Machine.check_commit` refuses a commit; None if the member may commit.

        Records written in the same turn of the loop come before those of the machine's later decisions."""
        try:
            self.machine.check_commit(group, *member, self._loop.time(), is_transactional=is_transactional)
        except RaftlogError as error:
            return error
        finally:
            self._execute_effects()
        return None

    # effects of the machine

    def _execute_effects(self) -> None:
        """Send the machine's answers, append its records, and set a timer for its next tick."""
        for effect in self.machine.take_effects():
            if isinstance(effect, GroupAnswer):
                self._answer(effect)
            elif not self.is_over:
                self._store(effect)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        at = None if self.is_over else self.machine.next_timer()
        if at is not None:
            self._timer = self._loop.call_at(at, self._tick)

    def _answer(self, answer: GroupAnswer) -> None:
        """Complete the request that waits for this answer, if it still waits."""
        future = self._waiting.pop(answer.token, None)
        if future is None or future.done():
            return
        if isinstance(answer.outcome, RaftlogError):
            future.set_exception(answer.outcome)
        else:
            future.set_result(answer.outcome)

    def _store(self, store: Store) -> None:
        """Append a group's new state; without a record, delete the group and its offsets."""
        group = store.group
        entries: list[GroupEntry] = [LogEntry(GroupKey(group), store.record)]
        if store.record is None:
            entries += [LogEntry(key, None) for key in self.folded.latest_offsets(group)]
        elif store.record.members and not store.record.is_assigned:
            self._environment.counters.group_rebalances += 1
        try:
            done = self.writer.write(entries)
        except RaftlogError as error:
            self._loop.call_soon(self._on_stored, store, error)
        else:
            done.add_done_callback(lambda future: self._on_stored(store, future.exception()))

    def _on_stored(self, store: Store, error: BaseException | None) -> None:
        """Pass the outcome of a Store to the machine."""
        if self.is_over:
            return
        assert error is None or isinstance(error, RaftlogError), f"{self.replica.name}: {error!r}"
        self.machine.on_stored(store.group, store.ticket, error, self._loop.time())
        self._execute_effects()

    def _tick(self) -> None:
        """Run the machine's timers that are due."""
        self._timer = None
        self.machine.tick(self._loop.time())
        self._execute_effects()

    # consumer instances of these groups

    @property
    def instances(self) -> Mapping[InstanceKey, InstanceRecord]:
        """Committed records of consumer instances, by group and name."""
        return self.folded.instances

    async def store_instance(self, group: str, name: str, record: InstanceRecord | None, *, deadline: Deadline) -> None:
        """Store the record of an instance, or delete it if it is None; committed on return.

        Raises `InvalidArgument` for one that is too large, `NotLeader`, `Overloaded` and the errors of an append."""
        await self.wait_until_ready(deadline)
        await self.commit_entries([LogEntry(InstanceKey(group, name), record)], deadline)
