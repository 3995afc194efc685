"""An instance as a member of its group, inside the process that coordinates it.

    join → sync → owner.assigned → heartbeats that wait → the group rebalances → owner.revoked → join …

It never leads: the coordinator assigns, by the instance's strategy. A rebalance is heard at once, so a group of
instances is through it in two commits. When the coordinator ends, so does this; the next one's instance goes on with
the stored member id, and gets the same assignment without a rebalance. Called by instances.
"""

import asyncio
import logging
from collections.abc import Collection
from typing import Final, Protocol

from raftlog.assignors import Subscription, decode_assignment, encode_subscription
from raftlog.assignors.member import MemberProtocol, NextStep
from raftlog.backoff import Backoff
from raftlog.errors import (
    LogClosed,
    NotLeader,
    RaftlogError,
    RebalanceInProgress,
    Unavailable,
)
from raftlog.partitions.consumers.hosting import InstanceHost
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.groups import records
from raftlog.partitions.groups.results import (
    GroupHeartbeat,
    Join,
    JoinedGeneration,
    Leave,
    MemberIdentity,
    MemberToLeave,
    Sync,
)
from raftlog.types import TopicPartition

_logger = logging.getLogger(__name__)

SESSION_MS: Final = 10_000
"""Only a process that stands still misses its heartbeats."""
REBALANCE_MS: Final = 10_000
_WAIT_MS: Final = 3_000
"""A heartbeat is answered after so long when nothing happens."""
_PATIENCE_MS: Final = 15_000
_PAUSE_S: Final = (0.1, 5.0)
"""Between two attempts after an error, doubling."""


class MemberListener(Protocol):
    """What the member tells its instance."""

    def wanted_topics(self) -> tuple[str, ...]:
        """What to subscribe to now."""

    async def became_member(self, member_id: str) -> None:
        """What the group calls it from now on."""

    async def revoked(self) -> None:
        """The group rebalances; what the client has is still to be committed under this identity."""

    async def assigned(self, partitions: Collection[TopicPartition], *, keep: bool) -> None:
        """What to read. `keep`: in all generations since the last call this instance had its share."""

    async def lost(self) -> None:
        """The group went on without it: others may read its partitions already."""


class InstanceMember:
    """See the module. `identity` is what commits are fenced by, None while there is no assignment."""

    def __init__(
        self, host: InstanceHost, group: str, name: str, strategy: str, owner: MemberListener, member_id: str
    ) -> None:
        self._state = MemberProtocol(member_id)
        self.identity: MemberIdentity | None = None
        self.problem: RaftlogError | None = None
        """Why it is no member, as long as that lasts."""
        self.settled = asyncio.Event()
        """It has its assignment, or a problem."""
        self._host, self._group, self._name, self._strategy, self._owner = host, group, name, strategy, owner
        self._wants_others = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"member {group}/{name}")

    @property
    def member_id(self) -> str:
        """Empty where the group does not know it."""
        return self._state.member_id

    def subscription_changed(self) -> None:
        """Join again: the instance wants other topics."""
        self._wants_others.set()

    async def stop(self) -> None:
        """Say nothing more to the group, which still takes it for a member."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self.identity = None

    async def leave(self) -> None:
        """Be no member; returns when the group knows it, or cannot be told."""
        await self.stop()
        if not self.member_id:
            return
        leave = Leave(self._group, (MemberToLeave(self.member_id),))
        try:
            await self._host.coordinator.leave(leave, deadline=deadline_in(_PATIENCE_MS))
        except RaftlogError as error:
            _logger.info(
                "%s/%s could not leave its group, and is out after its session: %s", self._group, self._name, error
            )

    async def _run(self) -> None:
        backoff = Backoff(*_PAUSE_S)
        while True:
            try:
                await self._take_part()
            except (NotLeader, LogClosed):
                return  # the next coordinator goes on
            except RaftlogError as error:
                step = self._state.refused(error)
                if step is NextStep.LOST:
                    await self._lose()
                elif step is not NextStep.REJOIN:
                    _logger.debug("%s/%s is no member now: %s", self._group, self._name, error)
                    await self._fail(error, backoff)
                    continue
            except Exception:
                _logger.exception("%s/%s failed and begins anew", self._group, self._name)
                failure = Unavailable(f"consumer instance {self._name} failed; the broker's log says why")
                await self._fail(failure, backoff)
                continue
            backoff.reset()

    async def _fail(self, problem: RaftlogError, backoff: Backoff) -> None:
        """Report the problem to all waiters, and pause."""
        self.problem = problem
        self.settled.set()
        await self._pause(backoff.next_s())

    async def _take_part(self) -> None:
        """One generation, to its end."""
        self._wants_others.clear()
        coordinator, deadline = self._host.coordinator, deadline_in(_PATIENCE_MS)
        metadata = encode_subscription(Subscription(self._owner.wanted_topics()))
        join = Join(
            self._group,
            self.member_id,
            (records.Protocol(self._strategy, metadata),),
            client_id=self._name,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            can_lead=False,
        )
        joined = await coordinator.join(join, deadline=deadline)
        assert isinstance(joined, JoinedGeneration), f"{self._name} did not ask for an id alone"
        if joined.member_id != self.member_id:
            self._state.member_id = joined.member_id
            await self._owner.became_member(joined.member_id)
        synced = await coordinator.sync(Sync(self._group, self.member_id, joined.generation), deadline=deadline)
        keep = joined.generation in (self._state.generation, self._state.generation + 1)
        self.identity = MemberIdentity(self.member_id, joined.generation)
        self._state.joined(self.member_id, joined.generation)
        await self._owner.assigned(decode_assignment(synced.assignment).partitions, keep=keep)
        self.problem = None
        self.settled.set()
        try:
            await self._stay(joined.generation)
        finally:
            self.settled.clear()
        await self._owner.revoked()
        self.identity = None

    def abandon(self) -> None:
        """The coordinator is over; whoever comes next goes on."""
        self._task.cancel()
        self.identity = None

    async def _stay(self, generation: int) -> None:
        """Until the group rebalances, or the instance wants it to."""
        loop = asyncio.get_running_loop()
        beat = GroupHeartbeat(self._group, self.member_id, generation, wait_ms=_WAIT_MS)
        while not self._wants_others.is_set():
            waits = self._host.coordinator.heartbeat(beat, deadline=deadline_in(_PATIENCE_MS))
            heartbeat, change = loop.create_task(waits), loop.create_task(self._wants_others.wait())
            try:
                await asyncio.wait((heartbeat, change), return_when=asyncio.FIRST_COMPLETED)
                if heartbeat.done():
                    heartbeat.result()
            except RebalanceInProgress:
                return
            finally:
                heartbeat.cancel()
                change.cancel()
                await asyncio.gather(heartbeat, change, return_exceptions=True)

    async def _lose(self) -> None:
        self.identity = None
        self.settled.clear()
        await self._owner.lost()

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wants_others.wait()
        except TimeoutError:
            return
