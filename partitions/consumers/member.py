"""Group member of one instance, in the process of the group's coordinator.

    join → sync → `on_partitions_assigned` → heartbeats → the group rebalances → `on_partitions_revoked` → join …

It is never group leader: the coordinator assigns, by the instance's strategy. A rebalance is noticed at once, so a
group of instances completes it in two commits. When the coordinator ends, so does this object; the instance at the
next coordinator uses the stored member id, and gets the same assignment without a rebalance. Called by instances."""

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
from raftlog.partitions.consumers.instance_host import InstanceHost
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
"""Session timeout; only a stalled process misses its heartbeats."""
REBALANCE_MS: Final = 10_000
_WAIT_MS: Final = 3_000
"""Time in ms after which a heartbeat is answered if the group does not change."""
_REQUEST_TIMEOUT_MS: Final = 15_000
_PAUSE_S: Final = (0.1, 5.0)
"""Shortest and longest pause in seconds between two attempts after an error, doubling."""


class MemberListener(Protocol):
    """Callbacks of a group member to its instance."""

    def wanted_topics(self) -> tuple[str, ...]:
        """Return the topics to subscribe to now."""

    async def on_member_id(self, member_id: str) -> None:
        """Store the member id that the group assigned."""

    async def on_partitions_revoked(self) -> None:
        """Commit acknowledged offsets under the present generation, because the group rebalances."""

    async def on_partitions_assigned(self, partitions: Collection[TopicPartition], *, keep: bool) -> None:
        """Read these partitions. `keep` the positions: no other member has owned them since the last call."""

    async def on_partitions_lost(self) -> None:
        """Stop reading all partitions: the group continued without this member, and others may own them."""


class InstanceMember:
    """Group member that represents an instance.

    `identity` fences its commits; None without an assignment."""

    def __init__(
        self, host: InstanceHost, group: str, name: str, strategy: str, owner: MemberListener, member_id: str
    ) -> None:
        """Create the group member of the instance `name`, and begin to join; `owner` receives assignments."""
        self._state = MemberProtocol(member_id)
        self.identity: MemberIdentity | None = None
        self.problem: RaftlogError | None = None
        """Error that keeps the instance out of the group; None while it is a member."""
        self.settled = asyncio.Event()
        """Event set while the member has its assignment, or a problem."""
        self._host, self._group, self._name, self._strategy, self._owner = host, group, name, strategy, owner
        self._has_other_topics = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"member {group}/{name}")

    @property
    def member_id(self) -> str:
        """Member id; empty until the group has assigned one."""
        return self._state.member_id

    def subscription_changed(self) -> None:
        """Rejoin the group, because the instance wants other topics."""
        self._has_other_topics.set()

    async def stop(self) -> None:
        """Send no more requests to the group, which keeps the member until its session expires."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self.identity = None

    async def leave(self) -> None:
        """Leave the group; return when the coordinator has removed the member or cannot be reached."""
        await self.stop()
        if not self.member_id:
            return
        leave = Leave(self._group, (MemberToLeave(self.member_id),))
        try:
            await self._host.coordinator.leave(leave, deadline=deadline_in(_REQUEST_TIMEOUT_MS))
        except RaftlogError as error:
            _logger.info(
                "%s/%s could not leave its group, and is out after its session: %s", self._group, self._name, error
            )

    async def _run(self) -> None:
        """Stay a group member until this broker stops being the coordinator; rejoin with a backoff."""
        backoff = Backoff(*_PAUSE_S)
        while True:
            try:
                await self._run_generation()
            except (NotLeader, LogClosed):
                return  # the next coordinator goes on
            except RaftlogError as error:
                step = self._state.handle_error(error)
                if step is NextStep.LOST:
                    await self._drop_partitions()
                elif step is not NextStep.REJOIN:
                    _logger.debug("%s/%s is no member now: %s", self._group, self._name, error)
                    await self._report_problem(error, backoff)
                    continue
            except Exception:
                _logger.exception("%s/%s failed and restarts", self._group, self._name)
                failure = Unavailable(
                    f"consumer instance {self._name} failed and restarts; retry, and see the broker's log for the error"
                )
                await self._report_problem(failure, backoff)
                continue
            backoff.reset()

    async def _report_problem(self, problem: RaftlogError, backoff: Backoff) -> None:
        """Fail all waiting requests with the problem, and pause for the next time of `backoff`."""
        self.problem = problem
        self.settled.set()
        await self._pause(backoff.next_pause_s())

    async def _run_generation(self) -> None:
        """Run one generation from join to its end."""
        self._has_other_topics.clear()
        coordinator, deadline = self._host.coordinator, deadline_in(_REQUEST_TIMEOUT_MS)
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
        assert isinstance(joined, JoinedGeneration), f"{self._name} did not request an id only"
        if joined.member_id != self.member_id:
            self._state.member_id = joined.member_id
            await self._owner.on_member_id(joined.member_id)
        synced = await coordinator.sync(Sync(self._group, self.member_id, joined.generation), deadline=deadline)
        keep = joined.generation in (self._state.generation, self._state.generation + 1)
        self.identity = MemberIdentity(self.member_id, joined.generation)
        self._state.set_identity(self.member_id, joined.generation)
        await self._owner.on_partitions_assigned(decode_assignment(synced.assignment).partitions, keep=keep)
        self.problem = None
        self.settled.set()
        try:
            await self._send_heartbeats(joined.generation)
        finally:
            self.settled.clear()
        await self._owner.on_partitions_revoked()
        self.identity = None

    def abandon(self) -> None:
        """Stop without leaving, because the coordinator has ended; the next coordinator reuses the member id."""
        self._task.cancel()
        self.identity = None

    async def _send_heartbeats(self, generation: int) -> None:
        """Send heartbeats until the group rebalances or the subscription changes."""
        loop = asyncio.get_running_loop()
        beat = GroupHeartbeat(self._group, self.member_id, generation, wait_ms=_WAIT_MS)
        while not self._has_other_topics.is_set():
            waits = self._host.coordinator.heartbeat(beat, deadline=deadline_in(_REQUEST_TIMEOUT_MS))
            heartbeat, change = loop.create_task(waits), loop.create_task(self._has_other_topics.wait())
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

    async def _drop_partitions(self) -> None:
        """Stop reading all partitions, because the group continued without this member."""
        self.identity = None
        self.settled.clear()
        await self._owner.on_partitions_lost()

    async def _pause(self, seconds: float) -> None:
        """Wait for some seconds, or until the subscription changes."""
        try:
            async with asyncio.timeout(seconds):
                await self._has_other_topics.wait()
        except TimeoutError:
            return
