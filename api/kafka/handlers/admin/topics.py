"""Handlers of CreateTopics, DeleteTopics and CreatePartitions; any broker serves them."""

import math
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import Any, Final

from raftlog import errors
from raftlog.api.kafka.api import ApiKey, KafkaApi, KafkaRequest
from raftlog.api.kafka.context import KafkaContext
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.handlers.admin.broker_config_names import describe_topic_configs
from raftlog.api.kafka.handlers.admin.outcomes import (
    CONTROLLER,
    AdminRefusal,
    Meanings,
    Outcome,
    attempt,
    deadline_of,
    outcome_of,
    run_in_parallel,
)
from raftlog.api.kafka.handlers.admin.topic_config_names import parse_overrides
from raftlog.api.kafka.mutation_quota import is_strict
from raftlog.api.kafka.permissions import topic_resource
from raftlog.api.kafka.wire.schemas import answer_class
from raftlog.errors import RaftlogError
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.results import TopicState
from raftlog.partitions.security.client_rates import MUTATIONS
from raftlog.security.permissions import AclOperation

_DEFAULT: Final = -1
"""Number of partitions or replicas that stands for the default."""
_TWICE: Final = Outcome(ErrorCode.INVALID_REQUEST, "The request names this topic twice; name it once")


def _meanings(of_invalid_argument: ErrorCode) -> Meanings:
    """Return the error codes in changes of topics; `InvalidArgument` has the code `of_invalid_argument`."""
    return MappingProxyType({**CONTROLLER, errors.InvalidArgument: of_invalid_argument})


_ASSIGNED: Final = _meanings(ErrorCode.INVALID_REPLICA_ASSIGNMENT)
_COUNTED: Final = _meanings(ErrorCode.INVALID_PARTITIONS)
_CONFIGURED: Final = _meanings(ErrorCode.INVALID_CONFIG)


class TopicAdministration:
    """Handlers that create, grow and delete topics, with a result for each topic."""

    def __init__(self, context: KafkaContext) -> None:
        self._broker, self._authorizer = context.broker, context.broker.security.authorizer
        self._rates = context.broker.security.rates

    def apis(self) -> list[KafkaApi]:
        """Return the APIs that this class serves."""
        return [
            KafkaApi(ApiKey.CREATE_TOPICS, (2, 6), self.create),
            KafkaApi(ApiKey.DELETE_TOPICS, (1, 5), self.delete),
            KafkaApi(ApiKey.CREATE_PARTITIONS, (0, 3), self.create_partitions),
        ]

    # creation

    async def create(self, request: KafkaRequest) -> Any:
        """Create topics, or with `validate_only` only check whether that is possible."""
        message, answer = request.message, answer_class(request.key)
        deadline = deadline_of(message.timeout_ms)
        counts = Counter(topic.name for topic in message.topics)
        topics = {topic.name: topic for topic in message.topics}

        async def create_one(topic: Any) -> Any:
            """Create a topic; return its result."""
            if counts[topic.name] > 1:
                return _error_row(answer, topic.name, _TWICE)
            try:
                self._authorizer.authorize_creation(request.caller, topic.name)
                with self._mutation(request, self._count_new(topic)):
                    state = await self._create(topic, message.validate_only, deadline)
            except RaftlogError as error:
                meanings = _ASSIGNED if topic.assignments else _CONFIGURED
                return _error_row(answer, topic.name, outcome_of(error, meanings))
            resource = topic_resource(topic.name)
            is_shown = self._authorizer.allows(request.caller, AclOperation.DESCRIBE_CONFIGS, resource)
            return self._success_row(answer, state, is_shown=is_shown)

        rows = await run_in_parallel(list(topics.values()), create_one)
        return answer(topics=rows, throttle_time_ms=self._retry_after_ms(request, rows))

    def _count_new(self, topic: Any) -> int:
        """Return the number of partitions that a topic will be created with."""
        if topic.assignments:
            return len(topic.assignments)
        return topic.num_partitions if topic.num_partitions > 0 else self._broker.settings.default_partitions

    def _mutation(self, request: KafkaRequest, partitions: int) -> AbstractContextManager[None]:
        """Return a context manager that charges the changed partitions to the caller's quota; with 0, do nothing."""
        if partitions <= 0 or getattr(request.message, "validate_only", False):
            return nullcontext()
        strict = is_strict(request.key, request.version)
        return self._rates.mutation(request.caller, partitions, is_strict=strict)

    def _retry_after_ms(self, request: KafkaRequest, rows: Sequence[Any]) -> int:
        """Return the milliseconds after which the client may retry; 0 if no change was refused because of its quota."""
        if not any(row.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED for row in rows):
            return 0
        return math.ceil(self._rates.delay_s(request.caller, MUTATIONS) * 1000)

    async def _create(self, topic: Any, validate_only: bool, deadline: Deadline) -> TopicState:
        """Create one topic, unless `validate_only`; return its state. Raises `AdminRefusal`."""
        _check_numbers(topic, self._broker.settings.partitions_per_topic_max)
        config = parse_overrides((each.name, each.value) for each in topic.configs)
        assignments = _assignments(topic)
        partitions = None if topic.num_partitions == _DEFAULT else topic.num_partitions
        factor = None if topic.replication_factor == _DEFAULT else topic.replication_factor
        return await self._broker.create_topic(
            topic.name,
            partitions if assignments is None else len(assignments),
            factor,
            config,
            assignments=assignments,
            deadline=deadline,
            validate_only=validate_only,
        )

    def _success_row(self, answer: Any, state: TopicState, *, is_shown: bool) -> Any:
        """Return the row of a created topic, with all of its configurations if these may be shown."""
        result = answer.CreatableTopicResult
        if not is_shown:
            denied = Outcome(ErrorCode.NONE, None)
            return _error_row(answer, state.name, denied, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        described = describe_topic_configs(state.config, state.overrides, self._broker.settings.topic_config)
        return result(
            name=state.name,
            error_code=ErrorCode.NONE,
            error_message=None,
            topic_config_error_code=ErrorCode.NONE,
            num_partitions=len(state.partitions),
            replication_factor=state.replication_factor,
            configs=[
                result.CreatableTopicConfigs(
                    name=each.known.name,
                    value=each.value,
                    read_only=False,
                    config_source=each.source,
                    is_sensitive=False,
                )
                for each in described
            ],
        )

    # deletion

    async def delete(self, request: KafkaRequest) -> Any:
        """Delete topics."""
        message, answer = request.message, answer_class(request.key)
        deadline = deadline_of(message.timeout_ms)

        async def delete_one(name: str) -> Any:
            """Delete one topic of the request; return its row."""
            outcome = await attempt(self._delete(name, request, deadline))
            return answer.DeletableTopicResult(name=name, error_code=outcome.code, error_message=outcome.message)

        names = list(dict.fromkeys(message.topic_names))
        rows = await run_in_parallel(names, delete_one)
        return answer(responses=rows, throttle_time_ms=self._retry_after_ms(request, rows))

    async def _delete(self, name: str, request: KafkaRequest, deadline: Deadline) -> None:
        """Delete a topic; its number of partitions counts for the caller's quota of changes."""
        self._authorizer.authorize(request.caller, AclOperation.DELETE, topic_resource(name))
        count = 0
        if self._rates.is_on:
            count = len((await self._broker.outline_topic(name, deadline=deadline)).partitions)
        with self._mutation(request, count):
            await self._broker.delete_topic(name, deadline=deadline)

    # partitions

    async def create_partitions(self, request: KafkaRequest) -> Any:
        """Add partitions to topics."""
        message, answer = request.message, answer_class(request.key)
        deadline = deadline_of(message.timeout_ms)
        counts = Counter(topic.name for topic in message.topics)
        topics = {topic.name: topic for topic in message.topics}

        async def grow_one(topic: Any) -> Any:
            """Add partitions to a topic; return the result."""
            outcome = _TWICE
            if counts[topic.name] == 1:
                work = self._grow(topic, request, deadline)
                outcome = await attempt(work, _COUNTED if topic.assignments is None else _ASSIGNED)
            return answer.CreatePartitionsTopicResult(
                name=topic.name, error_code=outcome.code, error_message=outcome.message
            )

        rows = await run_in_parallel(list(topics.values()), grow_one)
        return answer(results=rows, throttle_time_ms=self._retry_after_ms(request, rows))

    async def _grow(self, topic: Any, request: KafkaRequest, deadline: Deadline) -> None:
        """Add partitions to one topic up to `topic.count`, unless `validate_only`. Raises `AdminRefusal`."""
        self._authorizer.authorize(request.caller, AclOperation.ALTER, topic_resource(topic.name))
        present = len((await self._broker.outline_topic(topic.name, deadline=deadline)).partitions)
        if topic.count <= present:
            raise AdminRefusal(
                ErrorCode.INVALID_PARTITIONS,
                f"Topic {topic.name!r} has {present} partitions, and {topic.count} are requested; "
                "partitions can only be added",
            )
        assignments = None if topic.assignments is None else [each.broker_ids for each in topic.assignments]
        with self._mutation(request, topic.count - present):
            await self._broker.create_partitions(
                topic.name, topic.count, assignments, deadline=deadline, validate_only=request.message.validate_only
            )


def _check_numbers(topic: Any, partitions_max: int) -> None:
    """Raise `AdminRefusal` if the numbers of partitions and replicas in a creation are invalid."""
    if topic.assignments:
        if topic.num_partitions != _DEFAULT or topic.replication_factor != _DEFAULT:
            raise AdminRefusal(
                ErrorCode.INVALID_REQUEST,
                "Assignments decide the numbers of partitions and replicas; set both numbers to -1, or leave out the "
                "assignments",
            )
        return
    if topic.num_partitions != _DEFAULT and not 1 <= topic.num_partitions <= partitions_max:
        raise AdminRefusal(
            ErrorCode.INVALID_PARTITIONS,
            f"A topic cannot have {topic.num_partitions} partitions; set 1 to {partitions_max}, or -1 for the default",
        )
    if topic.replication_factor != _DEFAULT and topic.replication_factor < 1:
        raise AdminRefusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor {topic.replication_factor} is out of range; set at least 1, or -1 for the default",
        )


def _assignments(topic: Any) -> list[list[int]] | None:
    """Return the brokers of each partition; raises `AdminRefusal` unless partitions 0, 1, … all have brokers."""
    if not topic.assignments:
        return None
    brokers = {each.partition_index: list(each.broker_ids) for each in topic.assignments}
    if len(brokers) != len(topic.assignments) or sorted(brokers) != list(range(len(brokers))):
        raise AdminRefusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Assign the partitions from 0 on, each once and without gaps"
        )
    if not brokers[0]:
        raise AdminRefusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Partition 0 is assigned to no broker; name at least one"
        )
    return [brokers[number] for number in range(len(brokers))]


def _error_row(answer: Any, name: str, outcome: Outcome, config_code: ErrorCode = ErrorCode.NONE) -> Any:
    """Return the row of a topic that was not created."""
    return answer.CreatableTopicResult(
        name=name,
        error_code=outcome.code,
        error_message=outcome.message,
        topic_config_error_code=config_code,
        num_partitions=-1,
        replication_factor=-1,
        configs=None,
    )
