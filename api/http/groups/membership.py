"""Handlers of the consumer group protocol over HTTP: Kafka's join, sync, heartbeat and leave.

Subscriptions and assignments are Kafka's own bytes, as base64, and are not decoded here. Three of the four wait:
a join for the others, a sync for the group leader, a heartbeat for a rebalance. When the server stops they are
answered at once, so that members use another broker; when the client closes its connection the wait ends."""

from collections.abc import Coroutine
from typing import Any, TypeVar

from aiohttp import web
from msgspec import convert

from raftlog.api.http.requests import (
    ASSIGNED_BY,
    PROTOCOL_TYPE,
    REBALANCE_TIMEOUT_MS,
    SESSION_TIMEOUT_MS,
    HeartbeatBody,
    JoinBody,
    LeaveBody,
    MemberBody,
    SyncBody,
)
from raftlog.api.http.server.connection import caller_of
from raftlog.api.http.server.connections import run_until
from raftlog.api.http.server.endpoint import LEADER, HttpEndpoint
from raftlog.api.http.server.handlers import GroupAnswers
from raftlog.api.http.server.permissions import READ_GROUP
from raftlog.api.http.server.routing import Target
from raftlog.errors import OutcomeUnknown, RaftlogError, Unavailable
from raftlog.partitions.caller import Caller
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.groups.records import Protocol
from raftlog.partitions.groups.results import (
    GroupHeartbeat,
    Join,
    JoinedGeneration,
    Leave,
    LeftMember,
    MemberToLeave,
    Sync,
)
from raftlog.values.error_codes import status_and_code
from raftlog.values.groups import HeartbeatResult, Joined, LeaveResults, Left, Synced

T = TypeVar("T")

_GROUP = "/groups/{group}"


class GroupMembershipHandlers(GroupAnswers):
    """Handlers of POST /groups/{group}/join, /sync, /heartbeat and /leave."""

    kind, tag = "membership", "groups"

    @HttpEndpoint(
        f"POST {_GROUP}/join", Joined, body=JoinBody, text="The new generation.", headers=LEADER, permissions=READ_GROUP
    )
    async def join_group(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Join a consumer group, or rejoin it, and wait for the next generation.

        Answers when the join phase is over.

        Raises 50304 at the deadline, which also removes a new member."""
        body = await self._bodies.read(request, JoinBody)
        group = target.args[0]
        join = _parse_join(group, body, caller_of(request))
        joined = await self._wait_for(
            request,
            self._broker.groups.join(join, deadline=target.deadline()),
            OutcomeUnknown(
                f"this broker is stopping, and a member may have joined {group}; join again at another broker"
            ),
        )
        assert isinstance(joined, JoinedGeneration), f"{joined} is only for those that ask for an id first"
        return self._answer(group, convert(joined, Joined, from_attributes=True))

    @HttpEndpoint(
        f"POST {_GROUP}/sync", Synced, body=SyncBody, text="The assignment.", headers=LEADER, permissions=READ_GROUP
    )
    async def sync_group(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the assignment of a group member; the group leader sends the assignments of all members."""
        body = await self._bodies.read(request, SyncBody)
        group = target.args[0]
        assignments = tuple((row.member_id, row.assignment) for row in body.assignments or ())
        sync = Sync(group, *_parse_member(body), assignments)
        synced = await self._wait_for(
            request,
            self._broker.groups.sync(sync, deadline=target.deadline()),
            OutcomeUnknown(
                f"this broker is stopping, and {group} may have been assigned; sync again at another broker"
            ),
        )
        return self._answer(group, convert(synced, Synced, from_attributes=True))

    @HttpEndpoint(
        f"POST {_GROUP}/heartbeat",
        HeartbeatResult,
        body=HeartbeatBody,
        text="No rebalance.",
        headers=LEADER,
        permissions=READ_GROUP,
    )
    async def heartbeat_group(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Keep a group member's session alive; the answer reports a rebalance.

        The deadline counts from the end of `wait_ms`."""
        body = await self._bodies.read(request, HeartbeatBody)
        group = target.args[0]
        wait_ms = body.wait_ms or 0
        heartbeat = GroupHeartbeat(group, *_parse_member(body), wait_ms)
        await self._wait_for(
            request,
            self._broker.groups.heartbeat(heartbeat, deadline=deadline_in(wait_ms + target.timeout_ms())),
            Unavailable("this broker is stopping; send heartbeats to another one"),
        )
        return self._answer(group, HeartbeatResult())

    @HttpEndpoint(
        f"POST {_GROUP}/leave",
        LeaveResults,
        body=LeaveBody,
        text="Result for each member.",
        headers=LEADER,
        permissions=READ_GROUP,
    )
    async def leave_group(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Remove group members from a consumer group."""
        body = await self._bodies.read(request, LeaveBody)
        group = target.args[0]
        members = tuple(MemberToLeave(row.member_id or "", row.instance_id) for row in body.members)
        left = await self._broker.groups.leave(Leave(group, members), deadline=target.deadline())
        return self._answer(group, LeaveResults([_describe_leave(row) for row in left]))

    async def _wait_for(self, request: web.BaseRequest, waiting: Coroutine[Any, Any, T], error: RaftlogError) -> T:
        """Return the result of `waiting`; raises `error` when the server stops or the client disconnects.

        A join without a client to answer would leave a member that the others wait for."""
        task = await run_until(waiting, self._ends.stopping, self._ends.disconnected(request))
        if task.done():
            return task.result()
        raise error


def _parse_join(group: str, body: JoinBody, caller: Caller) -> Join:
    """Return the join request of a body, with defaults for the fields that it lacks."""
    return Join(
        group,
        body.member_id or "",
        tuple(Protocol(each.name, each.metadata) for each in body.protocols),
        PROTOCOL_TYPE if body.protocol_type is None else body.protocol_type,
        body.instance_id,
        caller.client_id if body.client_id is None else body.client_id,
        caller.address,
        body.session_timeout_ms or SESSION_TIMEOUT_MS,
        body.rebalance_timeout_ms or REBALANCE_TIMEOUT_MS,
        body.assigned_by in (None, ASSIGNED_BY),
        can_skip_assignment=True,  # over HTTP a group leader needs its role: it watches the topics
    )


def _parse_member(body: MemberBody) -> tuple[str, int, str | None]:
    """Return member id, generation and instance id of the body."""
    return body.member_id, body.generation, body.instance_id


def _describe_leave(row: LeftMember) -> Left:
    """Return the result of a leave for one group member, with the error if it failed."""
    error = row.error
    if error is None:
        return Left(row.member_id, row.instance_id)
    return Left(row.member_id, row.instance_id, status_and_code(error)[1], str(error))
