"""Clusters and topics as Confluent's v3 API has them: creating, deleting, settings. `-` names this cluster too."""

from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import web

from raftlog.api.codes import BAD_REQUEST, INVALID_JSON, NOT_FOUND, UNKNOWN_V3
from raftlog.api.http import v3_shapes as shapes
from raftlog.api.http.json_fields import refuse_unknown
from raftlog.api.http.records.produce import timeout_ms
from raftlog.api.http.server.answers import no_content, value_answer
from raftlog.api.http.server.bodies import BodyReader
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.request_headers import base_url
from raftlog.api.http.server.routing import Handler, HttpRouter, Target
from raftlog.api.http.topics import find_partition
from raftlog.config import TopicConfig
from raftlog.errors import UnknownPartition, UnknownTopic
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.results import TopicState
from raftlog.records.json_record import shown
from raftlog.values.v3 import TopicSummary

_CLUSTER = "/v3/clusters/{cluster}"
_TOPIC = _CLUSTER + "/topics/{topic}"
_SETTINGS = tuple(sorted(TopicConfig().as_strings()))
_NEW_TOPIC = (
    "topic_name",
    "partitions_count",
    "replication_factor",
    "replicas_assignments",
    "configs",
    "validate_only",
)


class ClusterHandlers:
    """Clusters and their topics."""

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
            router.add(method, pattern, in_this_cluster(self._broker, handler), query=("timeout",))

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
        body = await self._bodies.json_object(request)
        refuse_unknown(body, _NEW_TOPIC)
        name = body.get("topic_name")
        if type(name) is not str:
            raise HttpProblem(INVALID_JSON, 'the body has no string "topic_name"')
        validate_only = _validate_only(body)
        if body.get("replicas_assignments") not in (None, []):
            raise HttpProblem(
                BAD_REQUEST, "replicas_assignments are not possible; name a replication_factor, and brokers are chosen"
            )
        count = _whole(body, "partitions_count")
        described = await self._broker.create_topic(
            name,
            1 if count is None else count,
            _whole(body, "replication_factor"),
            _configs(body),
            deadline=deadline_in(timeout_ms(target)),
            validate_only=validate_only,
        )
        return value_answer(self._topic(request, described), status=200 if validate_only else 201)

    async def delete(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        await self._broker.delete_topic(target.args[1], deadline=deadline_in(timeout_ms(target)))
        return no_content()

    async def configs(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        described = await self._described(target)
        url = self._topic_url(request, described.name)
        return value_answer(
            shapes.many(
                "KafkaTopicConfigList",
                url + "/configs",
                [shapes.config(url, self._broker.cluster_id, described, name) for name in described.config],
            )
        )

    async def config(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        described = await self._described(target)
        name = target.args[2]
        if name not in described.config:
            raise HttpProblem(NOT_FOUND, f"topic {described.name} has no setting {name!r}")
        url = self._topic_url(request, described.name)
        return value_answer(shapes.config(url, self._broker.cluster_id, described, name))

    async def alter(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """`{"data": [{"name", "value"} or {"name", "operation": "DELETE"}], "validate_only"?}`; all or nothing."""
        body = await self._bodies.json_object(request)
        refuse_unknown(body, ("data", "validate_only"))
        if body.get("data") is None:
            raise HttpProblem(INVALID_JSON, 'the body has no list "data"')
        changes: dict[str, str | None] = {}
        for entry in _list_of_objects(body, "data", ("name", "value", "operation")):
            operation = "SET" if entry.get("operation") is None else entry["operation"]
            if operation not in ("SET", "DELETE"):
                raise HttpProblem(INVALID_JSON, f"operation {shown(operation)} is unknown; it can be SET or DELETE")
            name, value = _setting(entry if operation == "SET" else {"name": entry.get("name")})
            if operation == "DELETE" and name not in _SETTINGS:
                known = ", ".join(_SETTINGS)
                raise HttpProblem(BAD_REQUEST, f"unknown setting {shown(name)}; the settings are {known}")
            changes[name] = value if operation == "SET" else None
            if operation == "SET" and value is None:
                raise HttpProblem(INVALID_JSON, f"setting {name!r} has no value")
        await self._broker.alter_topic_config(
            target.args[1], changes, deadline=deadline_in(timeout_ms(target)), validate_only=_validate_only(body)
        )
        return no_content()

    async def partitions(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        described = await self._described(target)
        url = self._topic_url(request, described.name)
        return value_answer(
            shapes.many(
                "KafkaPartitionList",
                url + "/partitions",
                [shapes.partition(url, self._broker.cluster_id, described.name, one) for one in described.partitions],
            )
        )

    async def partition(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        topic = target.args[1]
        found = await find_partition(self._broker, topic, target.args[2], deadline_in(timeout_ms(target)))
        return value_answer(shapes.partition(self._topic_url(request, topic), self._broker.cluster_id, topic, found))

    async def _described(self, target: Target) -> TopicState:
        return await self._broker.describe_topic(target.args[1], deadline=deadline_in(timeout_ms(target)))

    def _topic(self, request: web.BaseRequest, described: TopicState) -> TopicSummary:
        return shapes.topic(self._topic_url(request, described.name), self._broker.cluster_id, described)

    def _topic_url(self, request: web.BaseRequest, topic: str) -> str:
        return f"{shapes.cluster_url(base_url(request), self._broker.cluster_id)}/topics/{topic}"


def in_this_cluster(broker: Broker, handler: Handler) -> Handler:
    """Before: is this the cluster meant? After: v3's own code for what is not there."""

    async def checked(request: web.BaseRequest, target: Target) -> web.StreamResponse:
        if target.args and target.args[0] not in ("-", broker.cluster_id):
            raise HttpProblem(NOT_FOUND, f"cluster {target.args[0]} is not here; this is {broker.cluster_id}")
        try:
            return await handler(request, target)
        except (UnknownTopic, UnknownPartition) as error:
            raise HttpProblem(UNKNOWN_V3, str(error)) from None

    return checked


def _whole(body: Mapping[str, Any], name: str) -> int | None:
    value = body.get(name)
    if value is not None and type(value) is not int:
        raise HttpProblem(INVALID_JSON, f"{name} is no whole number")
    return value


def _validate_only(body: Mapping[str, Any]) -> bool:
    found = body.get("validate_only", False)
    if type(found) is not bool:
        raise HttpProblem(INVALID_JSON, '"validate_only" is neither true nor false')
    return found


def _list_of_objects(body: Mapping[str, Any], name: str, known: Sequence[str]) -> list[dict[str, Any]]:
    value = body.get(name)
    if value is None:
        return []
    if type(value) is not list or any(type(entry) is not dict for entry in value):
        raise HttpProblem(INVALID_JSON, f"{name!r} is no list of objects")
    for number, entry in enumerate(value):
        refuse_unknown(entry, known, f"{name!r}[{number}]")
    return value


def _setting(entry: Mapping[str, Any]) -> tuple[str, str | None]:
    name, value = entry.get("name"), entry.get("value")
    if type(name) is not str:
        raise HttpProblem(INVALID_JSON, 'a setting has no string "name"')
    if type(value) is int:
        value = str(value)
    if value is not None and type(value) is not str:
        raise HttpProblem(INVALID_JSON, f"the value of setting {name!r} is no string")
    return name, value


def _configs(body: Mapping[str, Any]) -> dict[str, str]:
    configs = {}
    for entry in _list_of_objects(body, "configs", ("name", "value")):
        name, value = _setting(entry)
        if value is not None:
            configs[name] = value
    return configs
