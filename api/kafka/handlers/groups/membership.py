"""Handlers of JoinGroup 0 to 7, SyncGroup 0 to 5, Heartbeat 0 to 4 and LeaveGroup 0 to 4.

Protocol types and payloads are not interpreted, so the members can also be workers of Kafka Connect. The deadline of a
join is later than its rebalance timeout: the coordinator ends the join phase, and the deadline only bounds the wait.
When the listener stops, joins and syncs end with COORDINATOR_NOT_AVAILABLE, so that clients look for the new
coordinator."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from raftlog.api.kafka.api import NO_DEADLINE_MS, ApiKey, KafkaApi, KafkaRequest
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.handlers.groups.group_errors import authorize_group, check_coordinator, member_code
from raftlog.api.kafka.wire.schemas import answer_class
from raftlog.errors import InconsistentProtocol, RaftlogError, Unavailable
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.groups.joins import TEXT_MAX
from raftlog.partitions.groups.records import Protocol
from raftlog.partitions.groups.results import (
    GroupHeartbeat,
    Join,
    Leave,
    LeftMember,
    MemberIdGiven,
    MemberToLeave,
    Sync,
)
from raftlog.partitions.groups.service import Groups
from raftlog.partitions.security.authorizer import Authorizer
from raftlog.security.permissions import AclOperation

_ID_REQUIRED_SINCE: Final = 4
"""First version of JoinGroup in which a new member gets its id before it joins (KIP-394)."""
_TYPE_SINCE: Final = 7
"""First version of JoinGroup with a protocol type, and with null for no protocol (KIP-559)."""
_MANY_LEAVE_SINCE: Final = 3
_MARGIN_MS: Final = 30_000
"""Time beyond a rebalance timeout for storing a generation, or for a coordinator's failover."""

T = TypeVar("T")


class MembershipHandlers:
    """Handlers of the four requests of group members."""

    def __init__(self, groups: Groups, authorizer: Authorizer, stopping: "asyncio.Future[None] | None") -> None:
        self._groups, self._authorizer, self._stopping = groups, authorizer, stopping

    def apis(self) -> list[KafkaApi]:
        """Return the APIs that this handler serves, with their versions."""
        return [
            KafkaApi(ApiKey.JOIN_GROUP, (0, _TYPE_SINCE), self.join),
            KafkaApi(ApiKey.SYNC_GROUP, (0, 5), self.sync),
            KafkaApi(ApiKey.HEARTBEAT, (0, 4), self.heartbeat),
            KafkaApi(ApiKey.LEAVE_GROUP, (0, 4), self.leave),
        ]

    async def join(self, request: KafkaRequest) -> Any:
        """Join a group, or rejoin it; return the answer at the end of the join phase."""
        asked, settings = request.message, self._groups.settings
        try:
            authorize_group(self._authorizer, request, AclOperation.READ, asked.group_id)
            check_coordinator(self._groups, asked.group_id)
            if not settings.min_session_timeout_ms <= asked.session_timeout_ms <= settings.max_session_timeout_ms:
                return _join_error(request, ErrorCode.INVALID_SESSION_TIMEOUT)
            join = self._make_join(request)
            waited_ms = join.rebalance_timeout_ms + _MARGIN_MS
            joined = await self._wait_unless_stopped(self._groups.join(join, deadline=deadline_in(waited_ms)))
        except RaftlogError as error:
            return _join_error(request, member_code(error))
        if isinstance(joined, MemberIdGiven):
            return _join_error(request, ErrorCode.MEMBER_ID_REQUIRED, joined.member_id)
        answer = answer_class(ApiKey.JOIN_GROUP)
        row = answer.JoinGroupResponseMember
        return answer(
            generation_id=joined.generation,
            protocol_type=joined.protocol_type,
            protocol_name=joined.protocol,
            leader=joined.leader,
            member_id=joined.member_id,
            members=[
                row(member_id=each.member_id, group_instance_id=each.instance_id, metadata=each.metadata)
                for each in joined.members
            ],
        )

    def _make_join(self, request: KafkaRequest) -> Join:
        """Convert a JoinGroup request to the coordinator's request. Raises `InconsistentProtocol`."""
        asked, caller = request.message, request.caller
        if not asked.protocol_type or not asked.protocols:
            raise InconsistentProtocol(f"a member of {asked.group_id} needs a protocol type and a protocol")
        # Version 0 has no rebalance timeout; applications that never want to be removed send 2^31 - 1.
        rebalance_ms = asked.rebalance_timeout_ms if request.version > 0 else asked.session_timeout_ms
        return Join(
            asked.group_id,
            asked.member_id,
            tuple(Protocol(each.name, each.metadata) for each in asked.protocols),
            asked.protocol_type,
            asked.group_instance_id,
            caller.client_id[:TEXT_MAX],
            caller.address,
            asked.session_timeout_ms,
            max(1, min(rebalance_ms, self._groups.settings.max_rebalance_timeout_ms)),
            requires_known_id=request.version >= _ID_REQUIRED_SINCE,
        )

    async def sync(self, request: KafkaRequest) -> Any:
        """Return a member's assignment; the group leader sends the assignments of all members.

        If the group leader does not sync within the rebalance timeout, the coordinator removes it, and the wait
        ends."""
        asked = request.message
        sync = Sync(
            asked.group_id,
            asked.member_id,
            asked.generation_id,
            asked.group_instance_id,
            tuple((each.member_id, each.assignment) for each in asked.assignments),
            asked.protocol_type,
            asked.protocol_name,
        )
        waited_ms = self._groups.settings.max_rebalance_timeout_ms + _MARGIN_MS
        answer = answer_class(ApiKey.SYNC_GROUP)
        try:
            authorize_group(self._authorizer, request, AclOperation.READ, sync.group)
            check_coordinator(self._groups, sync.group)
            synced = await self._wait_unless_stopped(self._groups.sync(sync, deadline=deadline_in(waited_ms)))
        except RaftlogError as error:
            return answer(error_code=member_code(error), assignment=b"")
        return answer(protocol_type=synced.protocol_type, protocol_name=synced.protocol, assignment=synced.assignment)

    async def _wait_unless_stopped(self, waiting: Coroutine[Any, Any, T]) -> T:
        """Return the result of a request that waits for other members; raises `Unavailable` when the listener stops."""
        if self._stopping is None:
            return await waiting
        task = asyncio.ensure_future(waiting)
        try:
            await asyncio.wait((task, self._stopping), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise Unavailable("this broker is stopping; find the coordinator again")
        finally:
            task.cancel()

    async def heartbeat(self, request: KafkaRequest) -> Any:
        """Keep a member's session alive; the answer reports a rebalance."""
        asked = request.message
        beat = GroupHeartbeat(asked.group_id, asked.member_id, asked.generation_id, asked.group_instance_id)
        answer = answer_class(ApiKey.HEARTBEAT)
        try:
            authorize_group(self._authorizer, request, AclOperation.READ, beat.group)
            check_coordinator(self._groups, beat.group)
            await self._groups.heartbeat(beat, deadline=deadline_in(NO_DEADLINE_MS))
        except RaftlogError as error:
            return answer(error_code=member_code(error))
        return answer()

    async def leave(self, request: KafkaRequest) -> Any:
        """Remove members: one up to version 2; from version 3 on several, with a result for each."""
        asked = request.message
        if request.version < _MANY_LEAVE_SINCE:
            members: tuple[MemberToLeave, ...] = (MemberToLeave(asked.member_id),)
        else:
            members = tuple(MemberToLeave(each.member_id, each.group_instance_id) for each in asked.members)
        answer = answer_class(ApiKey.LEAVE_GROUP)
        try:
            authorize_group(self._authorizer, request, AclOperation.READ, asked.group_id)
            check_coordinator(self._groups, asked.group_id)
            left = await self._groups.leave(Leave(asked.group_id, members), deadline=deadline_in(NO_DEADLINE_MS))
        except RaftlogError as error:
            return answer(error_code=member_code(error), members=[])
        if request.version < _MANY_LEAVE_SINCE:
            return answer(error_code=_leave_code(left[0]))
        row = answer.MemberResponse
        return answer(
            members=[
                row(member_id=each.member_id, group_instance_id=each.instance_id, error_code=_leave_code(each))
                for each in left
            ]
        )


def _leave_code(left: LeftMember) -> ErrorCode:
    """Return the error code of a group member that left or could not leave."""
    return ErrorCode.NONE if left.error is None else member_code(left.error)


def _join_error(request: KafkaRequest, code: ErrorCode, member_id: str | None = None) -> Any:
    """Return the answer to a failed join; by default with the member id of the request."""
    return answer_class(ApiKey.JOIN_GROUP)(
        error_code=code,
        protocol_name=None if request.version >= _TYPE_SINCE else "",
        leader="",
        member_id=request.message.member_id if member_id is None else member_id,
        members=[],
    )
