"""Consumer groups in the format of Confluent's v3 API: members, lag, and deletion."""

from aiohttp import web

from raftlog.api.codes import NOT_FOUND, UNKNOWN_V3
from raftlog.api.http.clusters import in_this_cluster
from raftlog.api.http.groups.groups import with_coordinator
from raftlog.api.http.groups.v3_shapes import GroupShapes, assigned
from raftlog.api.http.server.answers import no_content, value_answer
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.request_headers import base_url
from raftlog.api.http.server.routing import HttpRouter, Target, partition_number
from raftlog.api.http.v3_shapes import cluster_url, many
from raftlog.partitions.broker import Broker
from raftlog.partitions.groups.results import LagReport, MemberDescription
from raftlog.values.value import Value

_GROUPS = "/v3/clusters/{cluster}/consumer-groups"
_GROUP = _GROUPS + "/{group}"
_CONSUMER = _GROUP + "/consumers/{consumer}"
_PARTITION = "/{topic}/partitions/{partition}"


class GroupV3Handlers:
    """Handlers of all paths below /v3/clusters/{cluster}/consumer-groups."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def add_to(self, router: HttpRouter) -> None:
        for method, pattern, handler in (
            ("GET", _GROUPS, self.groups),
            ("GET", _GROUP, self.group),
            ("DELETE", _GROUP, self.delete),
            ("GET", _GROUP + "/consumers", self.consumers),
            ("GET", _CONSUMER, self.consumer),
            ("GET", _CONSUMER + "/assignments", self.assignments),
            ("GET", _CONSUMER + "/assignments" + _PARTITION, self.assignment),
            ("GET", _GROUP + "/lag-summary", self.lag_summary),
            ("GET", _GROUP + "/lags", self.lags),
            ("GET", _GROUP + "/lags" + _PARTITION, self.lag),
        ):
            router.add(method, pattern, in_this_cluster(self._broker, handler))

    async def groups(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        shapes = self._shapes(request)
        listings = await self._broker.groups.listings(deadline=target.deadline())
        return value_answer(
            many("KafkaConsumerGroupList", shapes.groups_url, [shapes.group(listing) for listing in listings])
        )

    async def group(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        group = target.args[1]
        described = await self._broker.groups.describe(group, deadline=target.deadline())
        return self._answer(group, self._shapes(request).group(described))

    async def delete(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        await self._broker.groups.delete(target.args[1], deadline=target.deadline())
        return no_content()

    async def consumers(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        shapes, group = self._shapes(request), target.args[1]
        described = await self._broker.groups.describe(group, deadline=target.deadline())
        data = [shapes.consumer(group, member) for member in described.members]
        return self._answer(group, many("KafkaConsumerList", shapes.url(group) + "/consumers", data))

    async def consumer(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        member = await self._member(target)
        return self._answer(target.args[1], self._shapes(request).consumer(target.args[1], member))

    async def assignments(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        shapes, group = self._shapes(request), target.args[1]
        member = await self._member(target)
        url = shapes.assignments_url(group, member.member_id)
        data = [shapes.assignment(group, member.member_id, *place) for place in assigned(member)]
        return self._answer(group, many("KafkaConsumerAssignmentList", url, data))

    async def assignment(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        _, group, member_id, topic, number = target.args
        place = (topic, partition_number(number))
        if place not in assigned(await self._member(target)):
            raise HttpProblem(UNKNOWN_V3, f"member {member_id} of group {group} is not assigned {topic}/{number}")
        return self._answer(group, self._shapes(request).assignment(group, member_id, *place))

    async def lag_summary(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        group = target.args[1]
        return self._answer(group, self._shapes(request).lag_summary(group, await self._lags(target)))

    async def lags(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        shapes, group = self._shapes(request), target.args[1]
        data = [shapes.lag(group, found) for found in await self._lags(target)]
        return self._answer(group, many("KafkaConsumerLagList", shapes.url(group) + "/lags", data))

    async def lag(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        _, group, topic, number = target.args
        partition = partition_number(number)
        found = next(
            (lag for lag in await self._lags(target) if (lag.topic, lag.partition) == (topic, partition)), None
        )
        if found is None:
            raise HttpProblem(UNKNOWN_V3, f"group {group} has no committed offset in {topic}/{partition}")
        return self._answer(group, self._shapes(request).lag(group, found))

    async def _member(self, target: Target) -> MemberDescription:
        group, member_id = target.args[1:3]
        described = await self._broker.groups.describe(group, deadline=target.deadline())
        found = next((member for member in described.members if member.member_id == member_id), None)
        if found is None:
            raise HttpProblem(NOT_FOUND, f"group {group} has no member {member_id!r}")
        return found

    async def _lags(self, target: Target) -> list[LagReport]:
        return await self._broker.groups.lag(target.args[1], deadline=target.deadline())

    def _shapes(self, request: web.BaseRequest) -> GroupShapes:
        cluster_id = self._broker.cluster_id
        return GroupShapes(cluster_url(base_url(request), cluster_id), cluster_id)

    def _answer(self, group: str, found: Value) -> web.Response:
        return with_coordinator(value_answer(found), self._broker, group)
