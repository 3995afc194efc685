"""The coordinator of one partition of `__consumer_offsets` that is led here, for one term of its leader.

    loading   its log is folded up to an entry of this leader's own term: everybody waits, or hears `CoordinatorLoading`
    serving   it decides, and its log follows
    over      the leadership or the term is lost: whoever waits is told `NotLeader`, and everything is dropped

What the machine of the groups decides and what commits it let pass are appended in the order in which that was decided,
by the replica of this leader and in its term (`writer`). Made and ended by `coordinators`; called by the service, and
in this process by those who live at coordinators (`service.Follower`).
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Final, TypeVar

from raftlog.errors import (
    CoordinatorLoading,
    DeadlineExceeded,
    FormatError,
    NotLeader,
    Overloaded,
    RaftlogError,
    RebalanceInProgress,
    RequestError,
    Unavailable,
)
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.groups.folded import Folded, GroupEntry
from raftlog.partitions.groups.machine import Machine
from raftlog.partitions.groups.offsets import Offsets
from raftlog.partitions.groups.records import GroupKey, InstanceKey, InstanceRecord
from raftlog.partitions.groups.requests import (
    GroupAnswer,
    GroupHeartbeat,
    Join,
    Joined,
    Leave,
    Left,
    MemberIdGiven,
    Store,
    Sync,
    Synced,
    Token,
)
from raftlog.partitions.groups.results import CommittedOffset, MemberIdentity, OffsetCommit
from raftlog.partitions.groups.surroundings import GroupSurroundings
from raftlog.partitions.groups.writer import GroupLogWriter
from raftlog.partitions.replica import Replica, ReplicaAppended
from raftlog.raft import ReplicaId
from raftlog.types import Term, TopicPartition

_logger = logging.getLogger(__name__)
_R = TypeVar("_R")

WAITING_MAX: Final = 20_000
"""Requests that may wait for the machine's answers; more are refused."""
_LOOK_MS: Final = 2_000
_PAUSE_MS: Final = 50
"""Between two attempts to load."""


class Coordinator:
    """See the module. `failed` is called when it cannot go on with what it has, and has to be loaded anew."""

    def __init__(
        self, replica: Replica, surroundings: GroupSurroundings, failed: Callable[["Coordinator"], None]
    ) -> None:
        self.replica = replica
        self.term: Term = replica.group.core.term
        self.folded = Folded(replica.name)
        self.is_loaded = False
        self.stated_bytes = 0
        """Size of the log when everything was stated anew last."""
        self.problem: FormatError | None = None
        """What cannot be read in its log by this release."""
        self._around, self._failed = surroundings, failed
        self._loop = asyncio.get_running_loop()
        self.machine = Machine(
            surroundings.settings, surroundings.random, surroundings.partitions_of, surroundings.wall_ms
        )
        self.offsets = Offsets(self, surroundings)
        self.writer = GroupLogWriter(replica, self.term, self.folded, surroundings.wall_ms, self._reach)
        self._over: NotLeader | None = None
        self._tokens = count(1)
        self._waiting: dict[Token, asyncio.Future[Any]] = {}
        self._readiness: asyncio.Future[None] = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None

    # its life

    @property
    def is_over(self) -> bool:
        """Whether another one takes its place."""
        return self._over is not None

    def leads(self) -> bool:
        """Whether this replica leads, in the term of this coordinator."""
        return self.writer.leads()

    async def load(self) -> bool:
        """Fold the log, in slices, and take over its groups; false when it is over before it began."""
        while not self.is_over and self.leads():
            try:
                await self.replica.offsets(False, deadline_in(_LOOK_MS))
                await self.folded.catch_up(self.replica.group)
            except FormatError as error:
                self.problem = error
                self._readiness.set_result(None)
                _logger.error("%s: groups cannot be read, and wait for a newer release: %s", self.replica.name, error)
                return False
            except RaftlogError as error:
                _logger.debug("%s cannot be read yet: %s", self.replica.name, error)
                await asyncio.sleep(_PAUSE_MS / 1000)
            else:
                return self._begin()
        return False

    def _begin(self) -> bool:
        if self.is_over or not self.leads():
            return False
        now = self._loop.time()
        for group, record in self.folded.groups.items():
            self.machine.load(group, record, now)
        self.machine.topics_changed(now)
        self.is_loaded = True
        self._readiness.set_result(None)
        self._do()
        return True

    def end(self, leader: ReplicaId | None = None) -> None:
        """Another one takes its place, at `leader` as far as known."""
        if self._over is not None:
            return
        self._over = NotLeader(f"{self.replica.name}: the groups' coordinator is another broker", leader)
        self.machine.stop(self._over)
        self._do()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(self._lost())
        if self._timer is not None:
            self._timer.cancel()
        if not self._readiness.done():
            self._readiness.set_result(None)

    def _lost(self) -> NotLeader:
        assert self._over is not None, "it goes on"
        return NotLeader(str(self._over), self._over.leader)

    async def ready(self, deadline: Deadline) -> None:
        """Wait until it serves. Raises `NotLeader`, `CoordinatorLoading`, and `FormatError` for a log of a newer
        release."""
        if not self._readiness.done():
            try:
                async with asyncio.timeout_at(deadline):
                    await asyncio.shield(self._readiness)
            except TimeoutError:
                pass
        self.check()

    def check(self) -> None:
        """Raises what `ready` raises."""
        if self._over is not None:
            raise self._lost()
        if self.problem is not None:
            raise FormatError(str(self.problem))
        if not self.is_loaded:
            raise CoordinatorLoading(f"{self.replica.name}: its coordinator still reads what its groups are; ask again")
        if not self.leads():
            raise NotLeader(
                f"{self.replica.name}: the groups' coordinator is another broker", self.replica.group.core.leader
            )

    def _reach(self, appended: ReplicaAppended) -> bool:
        folded, group = self.folded, self.replica.group
        try:
            while folded.next_offset < appended.base_offset:
                folded.read_on(group)
            if folded.next_offset == appended.base_offset:
                return True
            while folded.next_offset < appended.next_offset:
                folded.read_on(group)
        except RaftlogError as error:
            _logger.warning("%s: what groups are has to be read anew: %s", self.replica.name, error)
            self._loop.call_soon(self._failed, self)
        return False

    # membership

    async def join(self, join: Join, *, deadline: Deadline) -> Joined | MemberIdGiven:
        """See `Groups.join`."""
        await self.ready(deadline)
        try:
            answer: Joined | MemberIdGiven = await self._ask(self.machine.join, join, deadline)
        except TimeoutError:
            again = f"with the id {join.member_id!r}" if join.member_id else "as before"
            raise RebalanceInProgress(
                f"group {join.group}: the other members have not joined before the deadline; join again {again}"
            ) from None
        return answer

    async def sync(self, sync: Sync, *, deadline: Deadline) -> Synced:
        """See `Groups.sync`."""
        await self.ready(deadline)
        try:
            answer: Synced = await self._ask(self.machine.sync, sync, deadline)
        except TimeoutError:
            raise Unavailable(
                f"group {sync.group}: its leader has not assigned generation {sync.generation} yet; sync again"
            ) from None
        return answer

    async def heartbeat(self, heartbeat: GroupHeartbeat, *, deadline: Deadline) -> None:
        """See `Groups.heartbeat`."""
        await self.ready(deadline)
        try:
            await self._ask(self.machine.heartbeat, heartbeat, deadline)
        except TimeoutError:
            return  # it counted when it came

    async def leave(self, leave: Leave, *, deadline: Deadline) -> Left:
        """See `Groups.leave`."""
        await self.ready(deadline)
        left: Left = await self._ask(self.machine.leave, leave, deadline)
        if any(error is not None for _, error in left.members):
            await self.confirm(deadline)
        return left

    async def delete(self, group: str, *, deadline: Deadline) -> None:
        """See `Groups.delete`; for a group that has or had members."""
        await self.ready(deadline)
        try:
            await self._ask(self.machine.delete, group, deadline)
        except TimeoutError:
            raise DeadlineExceeded(f"group {group} is being deleted, and that was not stored in time") from None

    async def _ask(self, ask: Callable[[Token, _R, float], None], request: _R, deadline: Deadline) -> Any:
        """Let the machine answer. Raises what it answers, and `TimeoutError` at the deadline."""
        if len(self._waiting) >= WAITING_MAX:
            raise Overloaded(f"{self.replica.name}: {len(self._waiting)} requests of members wait; come again")
        token, future = next(self._tokens), self._loop.create_future()
        self._waiting[token] = future
        ask(token, request, self._loop.time())
        self._do()
        try:
            async with asyncio.timeout_at(deadline):
                return await future
        except RequestError:
            await self.confirm(deadline)
            raise
        finally:
            if self._waiting.pop(token, None) is not None and not self.is_over:
                self.machine.cancel(token, self._loop.time())
                self._do()

    async def commit(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetCommit],
        *,
        member: MemberIdentity | None = None,
        deadline: Deadline,
    ) -> dict[TopicPartition, CommittedOffset]:
        """See `Groups.commit`."""
        places = self._around.places
        by_place = await places.find(offsets, deadline)
        return places.committed(await self.offsets.commit(group, by_place, member, deadline))

    async def committed(self, group: str, *, deadline: Deadline) -> dict[TopicPartition, CommittedOffset]:
        """See `Groups.committed`."""
        return self._around.places.committed(await self.offsets.committed(group, deadline))

    def why_no_commit(self, group: str, member: MemberIdentity) -> RaftlogError | None:
        """See `Machine.check_commit`; what is written in the same turn lies before whatever it decides later."""
        try:
            self.machine.check_commit(group, *member, self._loop.time())
        except RaftlogError as error:
            return error
        finally:
            self._do()
        return None

    def topics_changed(self) -> None:
        """There are other topics than before, or other partitions of them."""
        if self.is_loaded and not self.is_over:
            self.machine.topics_changed(self._loop.time())
            self._do()

    # what the machine wants done

    def _do(self) -> None:
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
        future = self._waiting.pop(answer.token, None)
        if future is None or future.done():
            return
        if isinstance(answer.outcome, RaftlogError):
            future.set_exception(answer.outcome)
        else:
            future.set_result(answer.outcome)

    def _store(self, store: Store) -> None:
        group = store.group
        entries = [GroupEntry(GroupKey(group), store.record)]
        if store.record is None:
            entries += [GroupEntry(key, None) for key in self.folded.latest_offsets(group)]
        elif store.record.members and not store.record.is_assigned:
            self._around.counters.group_rebalances += 1
        try:
            done = self.writer.write(entries)
        except RaftlogError as error:
            self._loop.call_soon(self._stored, store, error)
        else:
            done.add_done_callback(lambda future: self._stored(store, future.exception()))

    def _stored(self, store: Store, error: BaseException | None) -> None:
        if self.is_over:
            return
        assert error is None or isinstance(error, RaftlogError), f"{self.replica.name}: {error!r}"
        self.machine.stored(store.group, store.ticket, error, self._loop.time())
        self._do()

    def _tick(self) -> None:
        self._timer = None
        self.machine.tick(self._loop.time())
        self._do()

    # what lives here

    @property
    def instances(self) -> Mapping[InstanceKey, InstanceRecord]:
        """Consumer instances as they were stored, by group and name; what is not committed is not here."""
        return self.folded.instances

    async def store_instance(self, group: str, name: str, record: InstanceRecord | None, *, deadline: Deadline) -> None:
        """Keep an instance's record, or forget it with `None`; committed when this returns.

        Raises `InvalidArgument` for one that is too large, `NotLeader`, `Overloaded` and what an append raises.
        """
        await self.ready(deadline)
        await self.written([GroupEntry(InstanceKey(group, name), record)], deadline)

    async def written(self, entries: list[GroupEntry], deadline: Deadline) -> None:
        """Append these, and wait until they are committed. Raises what an append raises, and `DeadlineExceeded`."""
        if entries:
            await self._done(self.writer.write(entries), deadline)

    async def settled(self, deadline: Deadline) -> bool:
        """Wait until what is on its way into the log is committed; raises like `written`. False: nothing was."""
        barrier = self.writer.barrier()
        if barrier is None:
            return False
        await self._done(barrier, deadline)
        return True

    async def _done(self, done: "asyncio.Future[None]", deadline: Deadline) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                await done
        except TimeoutError:
            raise DeadlineExceeded(f"{self.replica.name}: appended, and not committed before the deadline") from None

    async def confirm(self, deadline: Deadline) -> None:
        """Make sure that no other coordinator knows more, before somebody is refused by what this one believes.

        A deposed one that has not heard of it may think that a member is gone, or fenced, that goes on elsewhere.
        Raises `NotLeader` and `OffsetNotAvailable`.
        """
        await self.replica.offsets(True, deadline)
        self.check()

    async def current(self, deadline: Deadline) -> None:
        """Wait until everything is folded that was answered before this call, by whichever coordinator."""
        await self.ready(deadline)
        await self.replica.offsets(True, deadline)
        await self.catch_up(deadline)

    async def catch_up(self, deadline: Deadline) -> None:
        """Fold what is committed here."""
        try:
            async with asyncio.timeout_at(deadline):
                await self.folded.catch_up(self.replica.group)
        except TimeoutError:
            raise Overloaded(f"{self.replica.name}: groups are being read, and the deadline passed") from None
        self.check()
