"""Clusters and topics in the format of Confluent's v3 API: create, grow, delete, configure. `-` is this cluster."""

from contextlib import AbstractContextManager, nullcontext
from functools import wraps

from aiohttp import web

from raftlog.api.codes import BAD_REQUEST, INVALID_JSON, NOT_FOUND, UNKNOWN_V3
from raftlog.api.http import v3_shapes as shapes
from raftlog.api.http.requests import GrownTopicBody, NewTopicBody, SettingChange, SettingOfTopic, TopicSettingsBody
from raftlog.api.http.server.answers import no_content, value_answer
from raftlog.api.http.server.connection import caller_of
from raftlog.api.http.server.endpoint import HttpEndpoint
from raftlog.api.http.server.handlers import Handlers
from raftlog.api.http.server.permissions import DESCRIBE_CLUSTER, DESCRIBE_TOPIC, IN_REQUEST, LISTED_TOPICS, on_topic
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.request_headers import base_url
from raftlog.api.http.server.routing import Handler, Target
from raftlog.api.http.topics import find_partition
from raftlog.errors import UnknownPartition, UnknownTopic
from raftlog.partitions.results import TopicState
from raftlog.records.json_record import shorten_json
from raftlog.security.permissions import AclOperation
from raftlog.topic_config import TopicConfig
from raftlog.values.v3 import ClusterLinks, ClusterPartition, ObjectList, TopicSetting, TopicSummary

_CLUSTER = "/v3/clusters/{cluster}"
_TOPIC = _CLUSTER + "/topics/{topic}"
_SETTINGS = tuple(sorted(TopicConfig().as_strings()))


class V3Handlers(Handlers):
    """Base of handlers below /v3/clusters/{cluster}."""

    def wrap_handler(self, handler: Handler) -> Handler:
        """Return the handler with a check of the cluster id, and v3's own code for unknown topics and partitions."""

        @wraps(handler)
        async def check_and_handle(request: web.BaseRequest, target: Target) -> web.StreamResponse:
            """Refuse requests for another cluster, then call the handler."""
            here = self._broker.cluster_id
            if target.args and target.args[0] not in ("-", here):
                raise HttpProblem(NOT_FOUND, f"cluster {target.args[0]} does not exist here; use {here} or -")
            try:
                return await handler(request, target)
            except (UnknownTopic, UnknownPartition) as error:
                raise HttpProblem(UNKNOWN_V3, str(error)) from None

        return check_and_handle


class ClusterHandlers(V3Handlers):
    """Handlers for clusters and their topics."""

    kind = tag = "topics"

    @HttpEndpoint("GET /v3/clusters", ObjectList[ClusterLinks], (), permissions=DESCRIBE_CLUSTER)
    async def clusters(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return a list with this cluster."""
        path, base = "/v3/clusters", base_url(request)
        one = shapes.cluster(base, self._broker.cluster_id, self._broker.controller_id)
        return value_answer(shapes.object_list("KafkaClusterList", base + path, [one]))

    @HttpEndpoint(f"GET {_CLUSTER}", ClusterLinks, (), permissions=DESCRIBE_CLUSTER)
    async def cluster(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the description of this cluster."""
        return value_answer(shapes.cluster(base_url(request), self._broker.cluster_id, self._broker.controller_id))

    @HttpEndpoint(f"GET {_CLUSTER}/topics", ObjectList[TopicSummary], (), permissions=LISTED_TOPICS)
    async def cluster_topics(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the descriptions of all topics."""
        base = shapes.cluster_url(base_url(request), self._broker.cluster_id)
        visible = self._visibility(request)
        topics = [topic for topic in self._broker.outline_topics() if visible.has_topic(topic.name)]
        described = [self._summarize(request, topic) for topic in topics]
        return value_answer(shapes.object_list("KafkaTopicList", base + "/topics", described))

    @HttpEndpoint(f"GET {_TOPIC}", TopicSummary, permissions=DESCRIBE_TOPIC)
    async def cluster_topic(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the description of one topic."""
        return value_answer(self._summarize(request, await self._describe_topic(target)))

    @HttpEndpoint(
        f"POST {_CLUSTER}/topics",
        TopicSummary,
        body=NewTopicBody,
        text="Valid (`validate_only`).",
        more={201: ("Created.", TopicSummary)},
        permissions=on_topic(AclOperation.CREATE, IN_REQUEST),
    )
    async def create_topic(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Create a topic, or with `validate_only` only check the request."""
        body = await self._bodies.read(request, NewTopicBody)
        self._authorizer.authorize_creation(caller_of(request), body.topic_name)
        if body.replicas_assignments not in (None, []):
            raise HttpProblem(BAD_REQUEST, "replicas_assignments is not supported; send a replication_factor instead")
        configs = {each.name: text for each in body.configs or () if (text := _to_text(each)) is not None}
        count = 0 if body.validate_only else body.partitions_count or self._broker.settings.default_partitions
        with self._mutation(request, count):
            described = await self._broker.create_topic(
                body.topic_name,
                body.partitions_count,
                body.replication_factor,
                configs,
                deadline=target.deadline(),
                validate_only=body.validate_only,
            )
        return value_answer(self._summarize(request, described), status=200 if body.validate_only else 201)

    @HttpEndpoint(
        f"PATCH {_TOPIC}",
        TopicSummary,
        body=GrownTopicBody,
        text="The topic with its new partitions.",
        permissions=on_topic(AclOperation.ALTER),
    )
    async def update_topic(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Add partitions to a topic, so that it has `partitions_count` of them.

        Later records of a key can go to another partition."""
        body = await self._bodies.read(request, GrownTopicBody)
        present = 0 if body.validate_only else await self._count_partitions(target)
        with self._mutation(request, 0 if body.validate_only else max(0, body.partitions_count - present)):
            described = await self._broker.create_partitions(
                target.args[1], body.partitions_count, deadline=target.deadline(), validate_only=body.validate_only
            )
        return value_answer(self._summarize(request, described))

    @HttpEndpoint(f"DELETE {_TOPIC}", permissions=on_topic(AclOperation.DELETE))
    async def delete_topic(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Delete a topic with its records."""
        with self._mutation(request, await self._count_partitions(target)):
            await self._broker.delete_topic(target.args[1], deadline=target.deadline())
        return no_content()

    def _mutation(self, request: web.BaseRequest, partitions: int) -> AbstractContextManager[None]:
        """Return a context that counts changed partitions against the client's quota. Raises `QuotaExceeded`."""
        if not partitions:
            return nullcontext()
        return self._broker.security.rates.mutation(caller_of(request), partitions)

    async def _count_partitions(self, target: Target) -> int:
        """Return the number of a topic's partitions if a quota may limit its changes, else 0. Raises `UnknownTopic`."""
        if not self._broker.security.rates.is_on:
            return 0
        return len((await self._broker.outline_topic(target.args[1], deadline=target.deadline())).partitions)

    @HttpEndpoint(
        f"GET {_TOPIC}/configs", ObjectList[TopicSetting], permissions=on_topic(AclOperation.DESCRIBE_CONFIGS)
    )
    async def configs(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return all settings of a topic."""
        described = await self._describe_topic(target)
        url = self._topic_url(request, described.name)
        rows = [shapes.config(url, self._broker.cluster_id, described, name) for name in described.config]
        return value_answer(shapes.object_list("KafkaTopicConfigList", url + "/configs", rows))

    @HttpEndpoint(f"GET {_TOPIC}/configs/{{name}}", TopicSetting, permissions=on_topic(AclOperation.DESCRIBE_CONFIGS))
    async def config(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return one setting of a topic."""
        described = await self._describe_topic(target)
        name = target.args[2]
        if name not in described.config:
            raise HttpProblem(NOT_FOUND, f"topic {described.name} has no setting {name!r}")
        url = self._topic_url(request, described.name)
        return value_answer(shapes.config(url, self._broker.cluster_id, described, name))

    @HttpEndpoint(
        f"POST {_TOPIC}/configs:alter", body=TopicSettingsBody, permissions=on_topic(AclOperation.ALTER_CONFIGS)
    )
    async def alter_configs(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Change settings of a topic, all or none.

        The body is `{"data": [{"name", "value"} or {"name", "operation": "DELETE"}], "validate_only"?}`."""
        body = await self._bodies.read(request, TopicSettingsBody)
        changes = dict(map(_parse_change, body.data))
        await self._broker.alter_topic_config(
            target.args[1], changes, deadline=target.deadline(), validate_only=body.validate_only
        )
        return no_content()

    @HttpEndpoint(f"GET {_TOPIC}/partitions", ObjectList[ClusterPartition], permissions=DESCRIBE_TOPIC)
    async def cluster_partitions(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the descriptions of all partitions of a topic."""
        described = await self._describe_topic(target)
        url = self._topic_url(request, described.name)
        cluster, name = self._broker.cluster_id, described.name
        rows = [shapes.partition(url, cluster, name, one) for one in described.partitions]
        return value_answer(shapes.object_list("KafkaPartitionList", url + "/partitions", rows))

    @HttpEndpoint(f"GET {_TOPIC}/partitions/{{partition}}", ClusterPartition, permissions=DESCRIBE_TOPIC)
    async def cluster_partition(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the description of one partition."""
        topic = target.args[1]
        found = await find_partition(self._broker, topic, target.args[2], target.deadline())
        return value_answer(shapes.partition(self._topic_url(request, topic), self._broker.cluster_id, topic, found))

    async def _describe_topic(self, target: Target) -> TopicState:
        """Return the state of the topic that the path names."""
        return await self._broker.describe_topic(target.args[1], deadline=target.deadline())

    def _summarize(self, request: web.BaseRequest, described: TopicState) -> TopicSummary:
        """Return the summary of a topic, as REST Proxy v3 shows it."""
        return shapes.topic(self._topic_url(request, described.name), self._broker.cluster_id, described)

    def _topic_url(self, request: web.BaseRequest, topic: str) -> str:
        """Return the URL of a topic, at the address to which the request was sent."""
        return f"{shapes.cluster_url(base_url(request), self._broker.cluster_id)}/topics/{topic}"


def _parse_change(entry: SettingChange) -> tuple[str, str | None]:
    """Return name and new value of a setting; None for the default. Raises `HttpProblem`."""
    if entry.operation not in (None, "SET", "DELETE"):
        raise HttpProblem(
            INVALID_JSON, f"operation {shorten_json(entry.operation)} is unknown; it can be SET or DELETE"
        )
    if entry.operation == "DELETE":
        if entry.name not in _SETTINGS:
            known = ", ".join(_SETTINGS)
            raise HttpProblem(BAD_REQUEST, f"unknown setting {shorten_json(entry.name)}; the settings are {known}")
        return entry.name, None
    value = _to_text(entry)
    if value is None:
        raise HttpProblem(INVALID_JSON, f"setting {entry.name!r} has no value")
    return entry.name, value


def _to_text(entry: SettingOfTopic) -> str | None:
    """Return the value of a setting as text; None for null. Raises `HttpProblem` if it is no string or integer."""
    value = str(entry.value) if type(entry.value) is int else entry.value
    if value is not None and type(value) is not str:
        raise HttpProblem(INVALID_JSON, f"the value of setting {entry.name!r} is not a string")
    return value
