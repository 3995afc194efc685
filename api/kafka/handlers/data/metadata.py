"""Handler of Metadata: the brokers of this listener, and the leaders of topics.

A partition without a leader has the error LEADER_NOT_AVAILABLE, and leader and epoch -1: an epoch is only returned
together with its leader. While leaders of named topics are being elected, the answer waits up to `HOLD_MS`, so that
clients need no second request. Unknown topics are created if the setting and the request allow it."""

from collections.abc import Sequence
from typing import Any, Final

from raftlog.api.kafka.api import NO_DEADLINE_MS, ApiKey, KafkaApi, KafkaRequest
from raftlog.api.kafka.context import KafkaContext
from raftlog.api.kafka.error_codes import ErrorCode, code_of
from raftlog.api.kafka.permissions import authorized_operations, topic_resource
from raftlog.api.kafka.wire import schemas
from raftlog.errors import RaftlogError, TopicExists, UnknownTopic
from raftlog.partitions.caller import Caller
from raftlog.partitions.controller.machine.naming import INTERNAL_PREFIX, check_topic_name
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.leader.topic_leaders import PartitionLeader, TopicLeader
from raftlog.partitions.security.client_rates import QuotaExceeded
from raftlog.security.permissions import CLUSTER, AclOperation

VERSIONS: Final = (0, 9)
HOLD_MS: Final = 500
"""Maximum time that an answer waits for elections of leaders."""
_ALL_TOPICS_IS_NULL_FROM: Final = 1
_NOTHING: Final = -1
NOT_ASKED: Final = None
"""Field of the authorized operations, which are not returned; kafka-python encodes None as -2147483648."""


class MetadataHandler:
    """Handler of Metadata."""

    def __init__(self, context: KafkaContext) -> None:
        self._broker, self._listener = context.broker, context.listener
        self._creates_topics = context.settings.auto_create_topics
        self._authorizer = context.broker.security.authorizer

    async def handle(self, request: KafkaRequest) -> Any:
        """Return the brokers and the requested topics."""
        message, authorizer, caller = request.message, self._authorizer, request.caller
        names = None if message.topics is None else [topic.name for topic in message.topics]
        if names is None or (not names and request.version < _ALL_TOPICS_IS_NULL_FROM):
            topics = await self._broker.leader.topics.describe_all()
            if authorizer.is_on:
                topics = [each for each in topics if self._may_describe(caller, each.name)]
        else:
            topics = await self._describe_named(
                list(dict.fromkeys(names)), message.allow_auto_topic_creation, request.caller
            )
        answer = self._make_answer(topics)
        if message.include_topic_authorized_operations:
            for each in answer.topics:
                if each.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    each.authorized_operations = authorized_operations(authorizer, caller, topic_resource(each.name))
        if message.include_cluster_authorized_operations:
            answer.authorized_operations = authorized_operations(authorizer, caller, CLUSTER)
        return answer

    def _may_describe(self, caller: Caller, topic: str) -> bool:
        """Return whether the caller may describe the topic."""
        return self._authorizer.allows(caller, AclOperation.DESCRIBE, topic_resource(topic))

    async def _describe_named(self, names: Sequence[str], may_create: bool, caller: Caller) -> list[TopicLeader]:
        """Return the topics in the order of `names`; create unknown ones if `may_create` and the setting allow it.

        A topic that is unknown, hidden or cannot be created has an error."""
        refused = {name: error for name in names if (error := self._refusal(name, caller)) is not None}
        valid = [name for name in names if name not in refused]
        found = {each.name: each for each in await self._broker.leader.topics.describe(valid, HOLD_MS)}
        if self._creates_topics and may_create:
            unknown = [name for name, each in found.items() if isinstance(each.error, UnknownTopic)]
            refused |= await self._create([name for name in unknown if not name.startswith(INTERNAL_PREFIX)], caller)
            created = [name for name in unknown if name not in refused]
            if created:
                found |= {each.name: each for each in await self._broker.leader.topics.describe(created, HOLD_MS)}
        found |= {name: TopicLeader(name, False, (), error) for name, error in refused.items()}
        return [found[name] for name in names]

    def _refusal(self, name: str, caller: Caller) -> RaftlogError | None:
        """Return the error for a topic that the caller may not describe, or whose name is invalid."""
        try:
            self._authorizer.authorize(caller, AclOperation.DESCRIBE, topic_resource(name))
        except RaftlogError as error:
            return error
        return _check_name(name)

    async def _create(self, names: Sequence[str], caller: Caller) -> dict[str, RaftlogError]:
        """Create topics; return the errors by name, except those after which clients retry."""
        problems: dict[str, RaftlogError] = {}
        security = self._broker.security
        for name in names:
            try:
                self._authorizer.authorize_creation(caller, name)
                with security.rates.mutation(caller, self._broker.settings.default_partitions):
                    await self._broker.create_topic(name, None, deadline=deadline_in(NO_DEADLINE_MS))
            except (TopicExists, QuotaExceeded):  # clients ask again for a topic that is unknown
                continue
            except RaftlogError as error:
                problems[name] = error
        return problems

    def _make_answer(self, topics: Sequence[TopicLeader]) -> Any:
        """Return the answer with these topics, all brokers, and a broker that accepts requests to the controller."""
        broker = self._broker
        addresses = broker.kafka_addresses(self._listener)
        known = {node_id for node_id, *_ in addresses}
        controller = broker.controller_id
        if controller not in known:  # any broker takes requests for the controller
            controller = broker.node_id if broker.node_id in known else None
        answer = schemas.answer_class(ApiKey.METADATA)
        return answer(
            brokers=[
                answer.MetadataResponseBroker(node_id=node_id, host=host, port=port, rack=rack)
                for node_id, host, port, rack in addresses
            ],
            cluster_id=broker.cluster_id or None,
            controller_id=_NOTHING if controller is None else controller,
            topics=[_describe_topic(answer.MetadataResponseTopic, each, known) for each in topics],
            authorized_operations=NOT_ASKED,
        )


def _check_name(name: str) -> RaftlogError | None:
    """Return the error of a name that no topic can have; None for a valid name."""
    try:
        check_topic_name(name.removeprefix(INTERNAL_PREFIX) if name != INTERNAL_PREFIX else name)
    except RaftlogError as error:
        return error
    return None


def _describe_topic(topic_answer: Any, topic: TopicLeader, known: set[Any]) -> Any:
    """Return the row of a topic; `known` are the node ids of the brokers in the answer."""
    return topic_answer(
        error_code=ErrorCode.NONE if topic.error is None else _topic_code(topic.error),
        name=topic.name,
        is_internal=topic.is_internal,
        partitions=[
            _describe_partition(topic_answer.MetadataResponsePartition, each, known) for each in topic.partitions
        ],
        authorized_operations=NOT_ASKED,
    )


def _topic_code(error: RaftlogError) -> ErrorCode:
    """Return the error code of a topic; LEADER_NOT_AVAILABLE, which clients retry, if the controller did not answer."""
    code = code_of(error)
    return ErrorCode.LEADER_NOT_AVAILABLE if code is ErrorCode.NOT_LEADER_OR_FOLLOWER else code


def _describe_partition(partition_answer: Any, partition: PartitionLeader, known: set[Any]) -> Any:
    """Return the row of a partition; a leader without an address for this listener counts as unavailable."""
    has_leader = partition.leader is not None and partition.leader in known
    return partition_answer(
        error_code=ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=partition.partition,
        leader_id=partition.leader if has_leader else _NOTHING,
        leader_epoch=partition.leader_epoch if has_leader else _NOTHING,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.in_sync),
        offline_replicas=list(partition.offline),
    )


def apis(context: KafkaContext) -> list[KafkaApi]:
    """Return the declaration of Metadata."""
    return [KafkaApi(ApiKey.METADATA, VERSIONS, MetadataHandler(context).handle)]
