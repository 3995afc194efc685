"""Handlers that create, subscribe, assign and delete consumer instances, as in the REST Proxy's v2.

`records` has their polls, `offsets` their positions and committed offsets.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from aiohttp import web

from raftlog.api.codes import EMPTY_REQUEST, INVALID_JSON
from raftlog.api.http.bounds import PLACES_MAX
from raftlog.api.http.openapi.parts import ref
from raftlog.api.http.requests import AssignBody, PartitionPlace, SubscribeBody
from raftlog.api.http.server.connection import caller_of
from raftlog.api.http.server.endpoint import LEADER, HttpEndpoint
from raftlog.api.http.server.handlers import GroupAnswers
from raftlog.api.http.server.media import JSON_TYPE
from raftlog.api.http.server.permissions import LISTED_TOPICS, READ_GROUP, TOPICS_READ
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.request_headers import base_url
from raftlog.api.http.server.routing import Target
from raftlog.errors import InvalidConsumer
from raftlog.records.json_record import shorten_json
from raftlog.types import TopicPartition
from raftlog.values.consumers import ConsumerInstance, InstancePartition, InstancePartitions, InstanceSubscription

CONSUMERS = "/consumers/{group}"
INSTANCE = CONSUMERS + "/instances/{instance}"
DONE = partial(HttpEndpoint, text="Done and durable.", headers=LEADER)
"""HttpEndpoint without a value in its answer."""
READ = partial(HttpEndpoint, headers=LEADER)


class ConsumerHandlers(GroupAnswers):
    """Handlers of POST /consumers/{group}, DELETE …/instances/{instance}, …/subscription and …/assignments."""

    kind = tag = "consumers"

    @READ(
        f"POST {CONSUMERS}",
        ConsumerInstance,
        body={"required": False, "content": {JSON_TYPE: {"schema": ref("NewConsumer")}}},
        text="Where it is.",
        permissions=READ_GROUP,
    )
    async def create_consumer(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Create a consumer instance in a consumer group.

        The body, `{"name"?, "format"?, "auto.offset.reset"?, …}`, may be omitted."""
        given: dict[str, Any] = await self._bodies.json_object_if_any(request) or {}
        group, name = target.args[0], given.pop("name", None)
        if name is None:
            name = f"rest-consumer-{self._broker.node_id}-{uuid4()}"
        elif type(name) is not str:
            raise InvalidConsumer(f"the name of a consumer instance cannot be {shorten_json(name)}: it is a string")
        await self._broker.consumers.create(group, name, given, caller=caller_of(request), deadline=target.deadline())
        return self._answer(group, ConsumerInstance(name, self._base_uri(request, group, name)))

    def _base_uri(self, request: web.BaseRequest, group: str, name: str) -> str:
        """Return the URI of an instance, with the host of the request; every broker can serve the instance."""
        return f"{base_url(request)}/consumers/{quote(group, safe='')}/instances/{quote(name, safe='')}"

    @DONE(f"DELETE {INSTANCE}", permissions=READ_GROUP)
    async def delete_consumer(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Delete a consumer instance."""
        await self._broker.consumers.delete(*instance_of(target), deadline=target.deadline())
        return self._answer(target.args[0])

    @DONE(f"POST {INSTANCE}/subscription", body=SubscribeBody, permissions=(*READ_GROUP, *TOPICS_READ))
    async def subscribe(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Subscribe a consumer instance to topics, by names or by a pattern.

        The body is `{"topics": […]}` or `{"topic_pattern": "…"}`."""
        body = await self._bodies.read(request, SubscribeBody)
        topics, pattern = body.topics or [], body.topic_pattern
        if (body.topics is None) == (pattern is None):
            raise HttpProblem(INVALID_JSON, 'the body must have either "topics" or "topic_pattern"')
        if pattern is None and not topics:
            raise HttpProblem(EMPTY_REQUEST, 'the list "topics" is empty; DELETE the subscription to read nothing')
        check_count(len(topics), "topics")
        self._authorize_read(request, topics)
        await self._broker.consumers.subscribe(*instance_of(target), topics, pattern, deadline=target.deadline())
        return self._answer(target.args[0])

    @READ(f"GET {INSTANCE}/subscription", InstanceSubscription, permissions=(*READ_GROUP, *LISTED_TOPICS))
    async def subscription(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the subscription of a consumer instance."""
        topics, pattern = await self._broker.consumers.subscription(*instance_of(target), deadline=target.deadline())
        return self._answer(target.args[0], InstanceSubscription(self._visibility(request).topics(topics), pattern))

    @DONE(f"DELETE {INSTANCE}/subscription", permissions=READ_GROUP)
    async def unsubscribe(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Remove the subscription and the assignment of a consumer instance."""
        await self._broker.consumers.unsubscribe(*instance_of(target), deadline=target.deadline())
        return self._answer(target.args[0])

    @DONE(f"POST {INSTANCE}/assignments", body=AssignBody, permissions=(*READ_GROUP, *TOPICS_READ))
    async def assign_partitions(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Assign partitions to a consumer instance, without a subscription.

        The body is `{"partitions": [{"topic", "partition"}]}`; an empty list removes all."""
        partitions = places_of((await self._bodies.read(request, AssignBody)).partitions)
        self._authorize_read(request, (place.topic for place in partitions))
        await self._broker.consumers.assign(*instance_of(target), partitions, deadline=target.deadline())
        return self._answer(target.args[0])

    @READ(f"GET {INSTANCE}/assignments", InstancePartitions, permissions=(*READ_GROUP, *LISTED_TOPICS))
    async def assigned_partitions(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the partitions that are assigned to a consumer instance."""
        found = await self._broker.consumers.assignment(*instance_of(target), deadline=target.deadline())
        visible = self._visibility(request)
        shown = [InstancePartition(*each) for each in found if visible.has_topic(each.topic)]
        return self._answer(target.args[0], InstancePartitions(shown))


def instance_of(target: Target) -> tuple[str, str]:
    """Return the consumer group and the name of the instance in a path."""
    group, name = target.args
    return group, name


def check_count(count: int, label: str) -> None:
    """Raise `HttpProblem` if `count` exceeds `PLACES_MAX`; `label` names the rows in the error."""
    if count > PLACES_MAX:
        raise HttpProblem(EMPTY_REQUEST, f"{count} {label} in one request are too many; {PLACES_MAX} are possible")


def places_of(rows: Sequence[PartitionPlace] | None) -> list[TopicPartition]:
    """Return the topic and partition of each row. Raises `HttpProblem` for too many rows."""
    check_count(len(rows or ()), "partitions")
    return [each.place for each in rows or ()]
