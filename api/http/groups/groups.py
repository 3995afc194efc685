"""Handlers for consumer groups in raftlog's own format: names, committed offsets, and their change by operators."""

from collections.abc import Iterable, Mapping

from aiohttp import web
from msgspec import UNSET

from raftlog.api.codes import BAD_REQUEST, INVALID_JSON
from raftlog.api.http.bounds import TEXT
from raftlog.api.http.groups.commits import parse_commits, parse_member
from raftlog.api.http.requests import RESET_EDGES, CommitBody, ResetBody, ResetPoint
from raftlog.api.http.server.answers import no_content, value_answer
from raftlog.api.http.server.endpoint import LEADER, HttpEndpoint, in_query
from raftlog.api.http.server.handlers import GroupAnswers
from raftlog.api.http.server.permissions import (
    DELETE_GROUP,
    DESCRIBE_GROUP,
    LISTED_GROUPS,
    LISTED_TOPICS,
    READ_GROUP,
    TOPICS_READ,
)
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.routing import Target
from raftlog.partitions.groups.records import OffsetRecord
from raftlog.partitions.groups.results import ResetTo, StableOffset
from raftlog.types import Offset, TopicPartition
from raftlog.values.groups import CommittedPartition, GroupNames, GroupOffsets, OffsetsReset, UnstablePartition

_OFFSETS = "/groups/{group}/offsets"
_TOPIC = in_query("topic", TEXT, "Name of the topic.", is_required=True)


class GroupHandlers(GroupAnswers):
    """Handlers of GET /groups, of GET, POST and DELETE /groups/{group}/offsets, and of POST …/offsets/reset."""

    kind = tag = "groups"

    @HttpEndpoint("GET /groups", GroupNames, text="Sorted.", permissions=LISTED_GROUPS)
    async def groups(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the names of all consumer groups."""
        names = await self._broker.groups.names(deadline=target.deadline())
        visible = self._visibility(request)
        return value_answer(GroupNames([name for name in names if visible.has_group(name)]))

    @HttpEndpoint(f"GET {_OFFSETS}", GroupOffsets, headers=LEADER, permissions=(*DESCRIBE_GROUP, *LISTED_TOPICS))
    async def committed_offsets(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the committed offsets of a consumer group.

        A group without any has an empty list and no error."""
        group = target.args[0]
        found = await self._broker.groups.stable_offsets(group, deadline=target.deadline())
        committed = {place: offset for place, offset in found.items() if offset.offset >= 0}
        unstable = [place for place, offset in found.items() if offset.is_pending]
        return self._answer_offsets(request, group, committed, unstable)

    @HttpEndpoint(
        f"POST {_OFFSETS}",
        GroupOffsets,
        body=CommitBody,
        text="All committed offsets of the group.",
        headers=LEADER,
        permissions=(*READ_GROUP, *TOPICS_READ),
    )
    async def commit_offsets(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Commit offsets: those of a group member as given, others only if they exceed the committed ones.

        The body is `{"offsets": [{"topic", "partition", "offset", "metadata"?}], "member_id"?, "generation"?,
        "instance_id"?}`."""
        body = await self._bodies.read(request, CommitBody)
        group = target.args[0]
        member = parse_member(body)
        offsets = parse_commits(body, member)
        self._authorize_read(request, (place.topic for place in offsets))
        committed = await self._broker.groups.commit(group, offsets, member=member, deadline=target.deadline())
        return self._answer_offsets(request, group, committed)

    @HttpEndpoint(f"DELETE {_OFFSETS}", query=(_TOPIC, "timeout"), permissions=(*DELETE_GROUP, *TOPICS_READ))
    async def delete_offsets(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Delete the committed offsets of a consumer group for one topic."""
        topic = target.query.get("topic")
        if topic is None:
            raise HttpProblem(BAD_REQUEST, "the query parameter 'topic' is missing")
        self._authorize_read(request, (topic,))
        await self._broker.groups.delete_offsets(target.args[0], topic, deadline=target.deadline())
        return no_content()

    @HttpEndpoint(
        f"POST {_OFFSETS}/reset",
        OffsetsReset,
        body=ResetBody,
        text="Result for each partition, or with `dry_run` the result that it would have.",
        permissions=(*READ_GROUP, *TOPICS_READ),
    )
    async def reset_offsets(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Reset the committed offsets of a consumer group without members.

        The body is `{"to": …, "topics"?: […], "partitions"?: [{"topic", "partition"}], "dry_run"?: false}`."""
        body = await self._bodies.read(request, ResetBody)
        dry_run, partitions = bool(body.dry_run), [each.place for each in body.partitions or ()]
        named = [*(body.topics or ()), *(place.topic for place in partitions)]
        if self._authorizer.is_on and not named:  # all topics with committed offsets
            committed = await self._broker.groups.committed(target.args[0], deadline=target.deadline())
            named = [place.topic for place in committed]
        self._authorize_read(request, named)
        done = await self._broker.groups.reset(
            target.args[0],
            _parse_reset_point(body.to),
            topics=body.topics or (),
            partitions=partitions,
            dry_run=dry_run,
            deadline=target.deadline(),
        )
        return value_answer(OffsetsReset(done, dry_run))

    def _answer_offsets(
        self,
        request: web.BaseRequest,
        group: str,
        committed: Mapping[TopicPartition, OffsetRecord | StableOffset],
        unstable: Iterable[TopicPartition] = (),
    ) -> web.Response:
        """Return the answer with the committed offsets of a group in the topics that the caller may see."""
        visible = self._visibility(request)
        rows = [
            CommittedPartition(topic, partition, found.offset, found.metadata, _epoch_or_none(found.leader_epoch))
            for (topic, partition), found in sorted(committed.items())
            if visible.has_topic(topic)
        ]
        changing = [UnstablePartition(*place) for place in sorted(unstable) if visible.has_topic(place.topic)]
        return self._answer(group, GroupOffsets(rows, changing or UNSET))


def _epoch_or_none(value: int) -> int | None:
    """Return the epoch; None if it is negative, which means unknown."""
    return None if value < 0 else value


def _parse_reset_point(to: str | ResetPoint) -> ResetTo:
    """Return the target of an offset reset in the internal form. Raises `HttpProblem`."""
    if isinstance(to, str):
        if to in RESET_EDGES:
            return ResetTo(edge=to)
    elif [to.timestamp, to.shift, to.offset].count(None) == 2:
        return ResetTo(
            timestamp_ms=to.timestamp, shift=to.shift, offset=None if to.offset is None else Offset(to.offset)
        )
    raise HttpProblem(
        INVALID_JSON,
        '"to" must be "earliest", "latest", {"timestamp": milliseconds}, {"shift": number} or {"offset": number}',
    )
