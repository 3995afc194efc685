"""Handlers that describe topics in the format of the REST Proxy's v2; `clusters` has those that change topics."""

from aiohttp import web

from raftlog.api.http.server.answers import json_answer, value_answer
from raftlog.api.http.server.connection import caller_of
from raftlog.api.http.server.endpoint import HttpEndpoint
from raftlog.api.http.server.handlers import Handlers
from raftlog.api.http.server.permissions import DESCRIBE_CLUSTER, DESCRIBE_TOPIC, LISTED_TOPICS
from raftlog.api.http.server.routing import Target, partition_number
from raftlog.errors import UnknownPartition
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.results import PartitionState
from raftlog.security.permissions import AclOperation, AclResourceType, Resource
from raftlog.values.topics import BrokerIds, PartitionDescription, TopicDescription, TopicReplica
from raftlog.values.value import UNSET, leader_number


class TopicHandlers(Handlers):
    """Handlers of GET /topics, /topics/{t}, /topics/{t}/partitions[/{p}], /brokers."""

    kind = tag = "topics"

    @HttpEndpoint("GET /topics", list[str], (), permissions=LISTED_TOPICS)
    async def topic_names(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the names of all topics."""
        return json_answer(self._visibility(request).topics(self._broker.topics()))

    @HttpEndpoint("GET /topics/{topic}", TopicDescription, permissions=DESCRIBE_TOPIC)
    async def topic(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the settings and partitions of a topic.

        Without the permission DESCRIBE_CONFIGS the answer has no settings."""
        described = await self._broker.describe_topic(target.args[0], deadline=target.deadline())
        partitions = [_describe_partition(partition) for partition in described.partitions]
        topic = Resource(AclResourceType.TOPIC, described.name)
        is_shown = self._authorizer.allows(caller_of(request), AclOperation.DESCRIBE_CONFIGS, topic)
        return value_answer(TopicDescription(described.name, described.config if is_shown else {}, partitions))

    @HttpEndpoint("GET /topics/{topic}/partitions", list[PartitionDescription], permissions=DESCRIBE_TOPIC)
    async def partitions(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the descriptions of all partitions of a topic."""
        described = await self._broker.describe_topic(target.args[0], deadline=target.deadline())
        return value_answer([_describe_partition(partition) for partition in described.partitions])

    @HttpEndpoint("GET /topics/{topic}/partitions/{partition}", PartitionDescription, permissions=DESCRIBE_TOPIC)
    async def partition(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the description of one partition."""
        deadline = target.deadline()
        return value_answer(
            _describe_partition(await find_partition(self._broker, target.args[0], target.args[1], deadline))
        )

    @HttpEndpoint("GET /brokers", BrokerIds, (), tag="operators", permissions=DESCRIBE_CLUSTER)
    async def broker_ids(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the node ids of all brokers."""
        return value_answer(BrokerIds(self._broker.broker_ids()))


async def find_partition(broker: Broker, topic: str, number_text: str, deadline: Deadline) -> PartitionState:
    """Return a partition's state; raises `UnknownTopic`, `UnknownPartition`."""
    number = partition_number(number_text)
    partitions = (await broker.describe_topic(topic, deadline=deadline)).partitions
    if number >= len(partitions):
        raise UnknownPartition(f"topic {topic} has no partition {number}; it has partitions 0 to {len(partitions) - 1}")
    return partitions[number]


def _describe_partition(partition: PartitionState) -> PartitionDescription:
    """Return the description of a partition with its replicas."""
    return PartitionDescription(
        partition=partition.partition,
        leader_id=leader_number(partition.leader),
        replica_rows=[
            TopicReplica(broker=broker, leader=broker == partition.leader, in_sync=broker in partition.in_sync)
            for broker in partition.replicas
        ],
        leader_epoch=partition.leader_epoch,
        high_watermark=partition.high_watermark,
        log_start_offset=partition.log_start_offset,
        reported_problem=UNSET if partition.problem is None else partition.problem,
    )
