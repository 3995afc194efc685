"""Handlers of DescribeCluster, DescribeLogDirs and DescribeProducers."""

from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final

from raftlog.api.kafka.api import NO_DEADLINE_MS, ApiKey, KafkaApi, KafkaRequest
from raftlog.api.kafka.context import KafkaContext
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.handlers.admin.outcomes import DONE, outcome_of, run_in_parallel
from raftlog.api.kafka.permissions import authorized_operations, topic_resource
from raftlog.api.kafka.wire.schemas import answer_class
from raftlog.errors import RaftlogError
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.security.permissions import CLUSTER, AclOperation
from raftlog.values.placement import LocalReplica

NOT_ASKED: Final = None
"""Value of the field for authorized operations if the client did not request them."""
_BROKERS: Final = 1
"""Kafka's number for endpoints of brokers."""


class ClusterDescriptions:
    """Handlers of requests for descriptions of the cluster, and of this broker's disk and producers."""

    def __init__(self, context: KafkaContext) -> None:
        self._broker, self._listener = context.broker, context.listener
        self._authorizer = context.broker.security.authorizer

    def apis(self) -> list[KafkaApi]:
        """Return the APIs that this class serves."""
        return [
            KafkaApi(ApiKey.DESCRIBE_CLUSTER, (0, 1), self.describe_cluster),
            KafkaApi(ApiKey.DESCRIBE_LOG_DIRS, (1, 4), self.describe_log_dirs),
            KafkaApi(ApiKey.DESCRIBE_PRODUCERS, (0, 0), self.describe_producers),
        ]

    async def describe_cluster(self, request: KafkaRequest) -> Any:
        """Return the brokers that this listener advertises, and which of them is the controller."""
        broker, answer = self._broker, answer_class(request.key)
        broker.check_ready()
        try:
            self._authorizer.authorize(request.caller, AclOperation.DESCRIBE, CLUSTER)
        except RaftlogError as error:
            outcome = outcome_of(error, {})
            return answer(error_code=outcome.code, error_message=outcome.message, cluster_id="", brokers=[])
        if request.version >= 1 and request.message.endpoint_type != _BROKERS:
            return answer(
                error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
                error_message="Controllers have no endpoints of their own; ask for brokers (1)",
                endpoint_type=_BROKERS,
                cluster_id="",
                brokers=[],
            )
        addresses = broker.kafka_addresses(self._listener)
        controller = broker.controller_id
        operations: frozenset[int] | None = NOT_ASKED
        if request.message.include_cluster_authorized_operations:
            operations = authorized_operations(self._authorizer, request.caller, CLUSTER)
        return answer(
            error_code=ErrorCode.NONE,
            error_message=None,
            endpoint_type=_BROKERS,
            cluster_id=broker.cluster_id,
            authorized_operations=operations,
            # Any broker serves requests to the controller, so that clients need not wait for an election.
            controller_id=controller if any(each.node_id == controller for each in addresses) else broker.node_id,
            brokers=[
                answer.DescribeClusterBroker(broker_id=each.node_id, host=each.host, port=each.port, rack=each.rack)
                for each in addresses
            ],
        )

    # this broker's disk

    async def describe_log_dirs(self, request: KafkaRequest) -> Any:
        """Return the replica sizes on this broker and its disk space; null in the request means all partitions."""
        message, answer = request.message, answer_class(request.key)
        if not self._authorizer.permits(request.caller, AclOperation.DESCRIBE, CLUSTER):
            return answer(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, results=[])
        replicas = await self._broker.operations.replicas.local_replicas(deadline=deadline_in(NO_DEADLINE_MS))
        if self._authorizer.is_on:
            visible = self._authorizer.allows
            replicas = [
                each for each in replicas if visible(request.caller, AclOperation.DESCRIBE, topic_resource(each.topic))
            ]
        if message.topics is not None:
            wanted = {(topic.topic, number) for topic in message.topics for number in topic.partitions}
            replicas = [each for each in replicas if (each.topic, each.partition) in wanted]
        disk = self._broker.measuring.disk_space()
        is_readable = disk.total >= 0
        directory = answer.DescribeLogDirsResult(
            error_code=ErrorCode.NONE if is_readable else ErrorCode.KAFKA_STORAGE_ERROR,
            log_dir=disk.path,
            topics=_sizes(answer.DescribeLogDirsResult.DescribeLogDirsTopic, replicas),
            total_bytes=disk.total,
            usable_bytes=disk.free,
        )
        return answer(error_code=ErrorCode.NONE, results=[directory])

    # producers

    async def describe_producers(self, request: KafkaRequest) -> Any:
        """Return the idempotent producers of partitions that this broker leads."""
        message, answer = request.message, answer_class(request.key)
        deadline = deadline_in(NO_DEADLINE_MS)
        result = answer.TopicResponse.PartitionResponse

        async def describe_partition_producers(place: tuple[str, int]) -> Any:
            """Return the row of a partition with its active producers, or with an error."""
            outcome, producers = DONE, []
            try:
                self._authorizer.authorize(request.caller, AclOperation.READ, topic_resource(place[0]))
                producers = await self._list_producers(result, *place, deadline)
            except RaftlogError as error:
                outcome = outcome_of(error, {})
            return result(
                partition_index=place[1],
                error_code=outcome.code,
                error_message=outcome.message,
                active_producers=producers,
            )

        places = [(topic.name, number) for topic in message.topics for number in topic.partition_indexes]
        found = iter(await run_in_parallel(places, describe_partition_producers))
        return answer(
            topics=[
                answer.TopicResponse(name=topic.name, partitions=[next(found) for _ in topic.partition_indexes])
                for topic in message.topics
            ]
        )

    async def _list_producers(self, result: Any, topic: str, partition: int, deadline: Deadline) -> list[Any]:
        """Return the rows of the active producers of a partition; `result` is the class of the answer's partition."""
        return [
            result.ProducerState(
                producer_id=each.producer_id,
                producer_epoch=each.epoch,
                last_sequence=each.last_sequence,
                last_timestamp=each.last_timestamp,
                coordinator_epoch=each.coordinator_epoch,
                current_txn_start_offset=each.transaction_start_offset,
            )
            for each in await self._broker.operations.replicas.active_producers(topic, partition, deadline=deadline)
        ]


def _sizes(result: Any, replicas: Iterable[LocalReplica]) -> list[Any]:
    """Return the rows with the sizes of replicas; `replicas` are sorted by topic."""
    return [
        result(
            name=topic,
            partitions=[
                result.DescribeLogDirsPartition(
                    partition_index=each.partition, partition_size=each.bytes, offset_lag=0, is_future_key=False
                )
                for each in rows
            ],
        )
        for topic, rows in groupby(replicas, key=lambda each: each.topic)
    ]
