"""Handlers for the partitions of a topic, or of all topics, as the leaders report them."""

from aiohttp import web

from raftlog.api.http.admin.parameters import topic_in_namespace
from raftlog.api.http.openapi.parts import string
from raftlog.api.http.server.answers import value_answer
from raftlog.api.http.server.connection import caller_of
from raftlog.api.http.server.endpoint import HttpEndpoint, in_query
from raftlog.api.http.server.handlers import Handlers
from raftlog.api.http.server.permissions import DESCRIBE_TOPIC, LISTED_TOPICS
from raftlog.api.http.server.routing import Target
from raftlog.api.http.topics import find_partition
from raftlog.partitions.results import PartitionState
from raftlog.security.permissions import AclOperation
from raftlog.values.placement import ListedPartition, NamespacePartition, NamespaceReplica, make_places
from raftlog.values.value import leader_number

_TOPIC = "/v1/partitions/{namespace}/{topic}"
_ONLY = in_query("topic", string(minLength=1), "Only this topic.")


class PartitionHandlers(Handlers):
    """Handlers of GET /v1/partitions/kafka/{topic}[/{partition}] and /v1/cluster/partitions."""

    @HttpEndpoint(f"GET {_TOPIC}", list[NamespacePartition], permissions=DESCRIBE_TOPIC)
    async def namespace_partitions(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the state of all partitions of a topic, by their leaders."""
        topic = topic_in_namespace(target)
        described = await self._broker.describe_topic(topic, deadline=target.deadline())
        return value_answer([_to_partition(topic, one) for one in described.partitions])

    @HttpEndpoint(f"GET {_TOPIC}/{{partition}}", NamespacePartition, permissions=DESCRIBE_TOPIC)
    async def namespace_partition(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the state of one partition, by its leader."""
        topic = topic_in_namespace(target)
        found = await find_partition(self._broker, topic, target.args[2], target.deadline())
        return value_answer(_to_partition(topic, found))

    @HttpEndpoint("GET /v1/cluster/partitions", list[ListedPartition], (_ONLY, "timeout"), permissions=LISTED_TOPICS)
    async def all_partitions(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return all partitions, or those of a topic, with their leaders.

        This broker has no information about leaders of partitions of which it has no replica."""
        only, deadline = target.query.get("topic"), target.deadline()
        if only is None:
            visible = self._visibility(request)
            described = await self._broker.describe_topics(deadline=deadline)
            topics = [topic for topic in described if visible.has_topic(topic.name)]
        else:
            self._authorizer.authorize_topics(caller_of(request), AclOperation.DESCRIBE, (only,))
            topics = [await self._broker.describe_topic(only, deadline=deadline)]
        return value_answer([_to_listed_partition(topic.name, one) for topic in topics for one in topic.partitions])


def _to_listed_partition(topic: str, partition: PartitionState) -> ListedPartition:
    """Return the row of a partition in a list, without its log's offsets."""
    return ListedPartition(
        topic=topic,
        partition_id=partition.partition,
        leader_id=leader_number(partition.leader),
        replicas=make_places(partition.replicas),
        version=partition.version,
    )


def describe_replica(node: int, state: PartitionState) -> NamespaceReplica:
    """Return the description of a replica; its lag is None if the leader has no information about it."""
    is_in_sync = node in state.in_sync
    lag = next((each for each in state.behind if each.node_id == node), None)
    unknown = 0 if is_in_sync else None
    return NamespaceReplica(
        node_id=node,
        in_sync=is_in_sync,
        entries_behind=lag.entries if lag else unknown,
        bytes_behind=lag.bytes if lag else unknown,
        catch_up_bytes_per_s=lag.bytes_per_s if lag else 0,
        problem=state.damaged.get(node),
    )


def _to_partition(topic: str, partition: PartitionState) -> NamespacePartition:
    """Return the description of a partition; its status is "failed" if it has a problem."""
    return NamespacePartition(
        topic=topic,
        partition_id=partition.partition,
        status="done" if partition.problem is None else "failed",
        leader_id=leader_number(partition.leader),
        replicas=[describe_replica(node, partition) for node in partition.replicas],
        leader_epoch=partition.leader_epoch,
        high_watermark=partition.high_watermark,
        log_start_offset=partition.log_start_offset,
        version=partition.version,
        problem=partition.problem,
    )
