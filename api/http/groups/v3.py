"""Handlers for consumer groups in the format of Confluent's v3 API: members, lag, and deletion."""

from aiohttp import web

from raftlog.api.codes import NOT_FOUND, UNKNOWN_V3
from raftlog.api.http.clusters import V3Handlers
from raftlog.api.http.groups.v3_shapes import GroupShapes, list_assigned_partitions
from raftlog.api.http.server.answers import no_content, value_answer
from raftlog.api.http.server.endpoint import HttpEndpoint
from raftlog.api.http.server.handlers import GroupAnswers
from raftlog.api.http.server.permissions import (
    DELETE_GROUP,
    DESCRIBE_GROUP,
    DESCRIBE_TOPIC,
    LISTED_GROUPS,
    LISTED_TOPICS,
)
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.request_headers import base_url
from raftlog.api.http.server.routing import Target, partition_number
from raftlog.api.http.v3_shapes import cluster_url, object_list
from raftlog.partitions.groups.results import LagReport, MemberDescription
from raftlog.values.groups import (
    ConsumerAssignment,
    ConsumerDescription,
    GroupDescription,
    GroupLagSummary,
    PartitionLag,
)
from raftlog.values.v3 import ObjectList

_GROUPS = "/v3/clusters/{cluster}/consumer-groups"
_GROUP = _GROUPS + "/{group}"
_CONSUMER = _GROUP + "/consumers/{consumer}"
_PLACE = "{topic}/partitions/{partition}"


class GroupV3Handlers(V3Handlers, GroupAnswers):
    """Handlers of all paths below /v3/clusters/{cluster}/consumer-groups."""

    kind = tag = "groups"

    @HttpEndpoint(f"GET {_GROUPS}", ObjectList[GroupDescription], permissions=LISTED_GROUPS)
    async def consumer_groups(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the descriptions of all consumer groups."""
        shapes = self._make_shapes(request)
        listings = await self._broker.groups.listings(deadline=target.deadline())
        visible = self._visibility(request)
        groups = [shapes.group(listing) for listing in listings if visible.has_group(listing.group)]
        return value_answer(object_list("KafkaConsumerGroupList", shapes.groups_url, groups))

    @HttpEndpoint(f"GET {_GROUP}", GroupDescription, permissions=DESCRIBE_GROUP)
    async def consumer_group(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the description of one consumer group."""
        group = target.args[1]
        described = await self._broker.groups.describe(group, deadline=target.deadline())
        return self._answer(group, self._make_shapes(request).group(described))

    @HttpEndpoint(f"DELETE {_GROUP}", permissions=DELETE_GROUP)
    async def delete_consumer_group(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Delete a consumer group without members, with its committed offsets."""
        await self._broker.groups.delete(target.args[1], deadline=target.deadline())
        return no_content()

    @HttpEndpoint(f"GET {_GROUP}/consumers", ObjectList[ConsumerDescription], permissions=DESCRIBE_GROUP)
    async def consumers(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the members of a consumer group."""
        shapes, group = self._make_shapes(request), target.args[1]
        described = await self._broker.groups.describe(group, deadline=target.deadline())
        data = [shapes.consumer(group, member) for member in described.members]
        return self._answer(group, object_list("KafkaConsumerList", shapes.url(group) + "/consumers", data))

    @HttpEndpoint(f"GET {_CONSUMER}", ConsumerDescription, permissions=DESCRIBE_GROUP)
    async def consumer(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return one member of a consumer group."""
        member = await self._find_member(target)
        return self._answer(target.args[1], self._make_shapes(request).consumer(target.args[1], member))

    @HttpEndpoint(
        f"GET {_CONSUMER}/assignments", ObjectList[ConsumerAssignment], permissions=(*DESCRIBE_GROUP, *LISTED_TOPICS)
    )
    async def consumer_assignments(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the partitions that are assigned to a group member."""
        shapes, group = self._make_shapes(request), target.args[1]
        member = await self._find_member(target)
        url = shapes.assignments_url(group, member.member_id)
        visible = self._visibility(request)
        data = [
            shapes.assignment(group, member.member_id, *place)
            for place in list_assigned_partitions(member)
            if visible.has_topic(place[0])
        ]
        return self._answer(group, object_list("KafkaConsumerAssignmentList", url, data))

    @HttpEndpoint(
        f"GET {_CONSUMER}/assignments/{_PLACE}", ConsumerAssignment, permissions=(*DESCRIBE_GROUP, *DESCRIBE_TOPIC)
    )
    async def consumer_assignment(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return one partition that is assigned to a group member."""
        _, group, member_id, topic, number = target.args
        place = (topic, partition_number(number))
        if place not in list_assigned_partitions(await self._find_member(target)):
            raise HttpProblem(UNKNOWN_V3, f"member {member_id} of group {group} is not assigned {topic}/{number}")
        return self._answer(group, self._make_shapes(request).assignment(group, member_id, *place))

    @HttpEndpoint(f"GET {_GROUP}/lag-summary", GroupLagSummary, permissions=(*DESCRIBE_GROUP, *LISTED_TOPICS))
    async def lag_summary(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the total and the largest lag of a consumer group."""
        group = target.args[1]
        return self._answer(
            group, self._make_shapes(request).lag_summary(group, await self._read_lags(request, target))
        )

    @HttpEndpoint(f"GET {_GROUP}/lags", ObjectList[PartitionLag], permissions=(*DESCRIBE_GROUP, *LISTED_TOPICS))
    async def lags(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the lag of a consumer group in each partition."""
        shapes, group = self._make_shapes(request), target.args[1]
        data = [shapes.lag(group, found) for found in await self._read_lags(request, target)]
        return self._answer(group, object_list("KafkaConsumerLagList", shapes.url(group) + "/lags", data))

    @HttpEndpoint(f"GET {_GROUP}/lags/{_PLACE}", PartitionLag, permissions=(*DESCRIBE_GROUP, *DESCRIBE_TOPIC))
    async def lag(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the lag of a consumer group in one partition."""
        _, group, topic, number = target.args
        partition = partition_number(number)
        found = next(
            (lag for lag in await self._read_lags(request, target) if (lag.topic, lag.partition) == (topic, partition)),
            None,
        )
        if found is None:
            raise HttpProblem(UNKNOWN_V3, f"group {group} has no committed offset in {topic}/{partition}")
        return self._answer(group, self._make_shapes(request).lag(group, found))

    async def _find_member(self, target: Target) -> MemberDescription:
        """Return the group member that the path names. Raises `HttpProblem` 404."""
        group, member_id = target.args[1:3]
        described = await self._broker.groups.describe(group, deadline=target.deadline())
        found = next((member for member in described.members if member.member_id == member_id), None)
        if found is None:
            raise HttpProblem(NOT_FOUND, f"group {group} has no member {member_id!r}")
        return found

    async def _read_lags(self, request: web.BaseRequest, target: Target) -> list[LagReport]:
        """Return the lags of a consumer group in the topics that the caller may describe."""
        visible = self._visibility(request)
        lags = await self._broker.groups.lag(target.args[1], deadline=target.deadline())
        return [lag for lag in lags if visible.has_topic(lag.topic)]

    def _make_shapes(self, request: web.BaseRequest) -> GroupShapes:
        """Return the shapes of answers with URLs at the address to which the request was sent."""
        cluster_id = self._broker.cluster_id
        return GroupShapes(cluster_url(base_url(request), cluster_id), cluster_id)
