"""Clusters and topics in the format of Confluent's v3 API: create, delete, settings. `-` also means this cluster."""

from functools import wraps

from aiohttp import web

from raftlog.api.codes import BAD_REQUEST, INVALID_JSON, NOT_FOUND, UNKNOWN_V3
from raftlog.api.http import v3_shapes as shapes
from raftlog.api.http.requests import NewTopicBody, SettingChange, SettingOfTopic, TopicSettingsBody
from raftlog.api.http.server.answers import no_content, value_answer
from raftlog.api.http.server.bodies import BodyReader
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.request_headers import base_url
from raftlog.api.http.server.routing import Handler, HttpRouter, Target
from raftlog.api.http.topics import find_partition
from raftlog.config import TopicConfig
from raftlog.errors import UnknownPartition, UnknownTopic
from raftlog.partitions.broker import Broker
from raftlog.partitions.results import TopicState
from raftlog.records.json_record import shown
from raftlog.values.v3 import TopicSummary

_CLUSTER = "/v3/clusters/{cluster}"
_TOPIC = _CLUSTER + "/topics/{topic}"
_SETTINGS = tuple(sorted(TopicConfig().as_strings()))


class ClusterHandlers:
    """Handlers for clusters and their topics."""

    def __init__(self, broker: Broker, bodies: BodyReader) -> None:
        self._broker = broker
        self._bodies = bodies

    def add_to(self, router: HttpRouter) -> None:
        for pattern, read in (
            ("/v3/clusters", self.clusters),
            (_CLUSTER, self.cluster),
            (_CLUSTER + "/topics", self.topics),
        ):
            router.add("GET", pattern, in_this_cluster(self._broker, read), query=())
        for method, pattern, handler in (
            ("POST", _CLUSTER + "/topics", self.create),
            ("GET", _TOPIC, self.topic),
            ("DELETE", _TOPIC, self.delete),
            ("GET", _TOPIC + "/configs", self.configs),
            ("POST", _TOPIC + "/configs:alter", self.alter),
            ("GET", _TOPIC + "/configs/{name}", self.config),
            ("GET", _TOPIC + "/partitions", self.partitions),
            ("GET", _TOPIC + "/partitions/{partition}", self.partition),
        ):
            router.add(method, pattern, in_this_cluster(self._broker, handler))

    async def clusters(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        path, base = "/v3/clusters", base_url(request)
        one = shapes.cluster(base, self._broker.cluster_id, self._broker.controller_id)
        return value_answer(shapes.many("KafkaClusterList", base + path, [one]))

    async def cluster(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        return value_answer(shapes.cluster(base_url(request), self._broker.cluster_id, self._broker.controller_id))

    async def topics(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        base = shapes.cluster_url(base_url(request), self._broker.cluster_id)
        described = [self._topic(request, topic) for topic in self._broker.outline_topics()]
        return value_answer(shapes.many("KafkaTopicList", base + "/topics", described))

    async def topic(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        return value_answer(self._topic(request, await self._described(target)))

    async def create(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        body = await self._bodies.read(request, NewTopicBody)
        if body.replicas_assignments not in (None, []):
            raise HttpProblem(BAD_REQUEST, "replicas_assignments is not supported; send a replication_factor instead")
        configs = {each.name: text for each in body.configs or () if (text := _text(each)) is not None}
        described = await self._broker.create_topic(
            body.topic_name,
            1 if body.partitions_count is None else body.partitions_count,
            body.replication_factor,
            configs,
            deadline=target.deadline(),
            validate_only=body.validate_only,
        )
        return value_answer(self._topic(request, described), status=200 if body.validate_only else 201)

    async def delete(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        await self._broker.delete_topic(target.args[1], deadline=target.deadline())
        return no_content()

    async def configs(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        described = await self._described(target)
        url = self._topic_url(request, described.name)
        rows = [shapes.config(url, self._broker.cluster_id, described, name) for name in described.config]
        return value_answer(shapes.many("KafkaTopicConfigList", url + "/configs", rows))

    async def config(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        described = await self._described(target)
        name = target.args[2]
        if name not in described.config:
            raise HttpProblem(NOT_FOUND, f"topic {described.name} has no setting {name!r}")
        url = self._topic_url(request, described.name)
        return value_answer(shapes.config(url, self._broker.cluster_id, described, name))

    async def alter(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Change settings, all or nothing.

        The body is `{"data": [{"name", "value"} or {"name", "operation": "DELETE"}], "validate_only"?}`."""
        body = await self._bodies.read(request, TopicSettingsBody)
        changes = dict(map(_change, body.data))
        await self._broker.alter_topic_config(
            target.args[1], changes, deadline=target.deadline(), validate_only=body.validate_only
        )
        return no_content()

    async def partitions(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        described = await self._described(target)
        url = self._topic_url(request, described.name)
        cluster, name = self._broker.cluster_id, described.name
        rows = [shapes.partition(url, cluster, name, one) for one in described.partitions]
        return value_answer(shapes.many("KafkaPartitionList", url + "/partitions", rows))

    async def partition(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        topic = target.args[1]
        found = await find_partition(self._broker, topic, target.args[2], target.deadline())
        return value_answer(shapes.partition(self._topic_url(request, topic), self._broker.cluster_id, topic, found))

    async def _described(self, target: Target) -> TopicState:
        return await self._broker.describe_topic(target.args[1], deadline=target.deadline())

    def _topic(self, request: web.BaseRequest, described: TopicState) -> TopicSummary:
        return shapes.topic(self._topic_url(request, described.name), self._broker.cluster_id, described)

    def _topic_url(self, request: web.BaseRequest, topic: str) -> str:
        return f"{shapes.cluster_url(base_url(request), self._broker.cluster_id)}/topics/{topic}"


def in_this_cluster(broker: Broker, handler: Handler) -> Handler:
    """Wrap a handler: check the cluster id in the path, and return v3's own code for unknown topics and partitions."""

    @wraps(handler)
    async def checked(request: web.BaseRequest, target: Target) -> web.StreamResponse:
        if target.args and target.args[0] not in ("-", broker.cluster_id):
            raise HttpProblem(NOT_FOUND, f"cluster {target.args[0]} does not exist here; use {broker.cluster_id} or -")
        try:
            return await handler(request, target)
        except (UnknownTopic, UnknownPartition) as error:
            raise HttpProblem(UNKNOWN_V3, str(error)) from None

    return checked


def _change(entry: SettingChange) -> tuple[str, str | None]:
    """Return name and new value of a setting; None for the default. Raises `HttpProblem`."""
    if entry.operation not in (None, "SET", "DELETE"):
        raise HttpProblem(INVALID_JSON, f"operation {shown(entry.operation)} is unknown; it can be SET or DELETE")
    if entry.operation == "DELETE":
        if entry.name not in _SETTINGS:
            known = ", ".join(_SETTINGS)
            raise HttpProblem(BAD_REQUEST, f"unknown setting {shown(entry.name)}; the settings are {known}")
        return entry.name, None
    value = _text(entry)
    if value is None:
        raise HttpProblem(INVALID_JSON, f"setting {entry.name!r} has no value")
    return entry.name, value


def _text(entry: SettingOfTopic) -> str | None:
    """Return a value as text. Raises `HttpProblem`."""
    value = str(entry.value) if type(entry.value) is int else entry.value
    if value is not None and type(value) is not str:
        raise HttpProblem(INVALID_JSON, f"the value of setting {entry.name!r} is not a string")
    return value
