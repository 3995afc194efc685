"""Handlers of ElectLeaders, AlterPartitionReassignments and ListPartitionReassignments.

Only preferred leaders are elected on request: an unclean election would lose acknowledged records."""

from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from raftlog import errors
from raftlog.api.kafka.api import ApiKey, KafkaApi, KafkaRequest
from raftlog.api.kafka.context import KafkaContext
from raftlog.api.kafka.error_codes import ErrorCode
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
from raftlog.api.kafka.permissions import topic_resource
from raftlog.api.kafka.wire.schemas import answer_class
from raftlog.errors import RaftlogError, UnknownPartition
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.results import PartitionState, TopicState
from raftlog.security.permissions import CLUSTER, AclOperation
from raftlog.values.placement import Reconfiguration

_UNCLEAN: Final = 1
_ELECTIONS: Final = (0, _UNCLEAN)
_ELECTING: Final[Meanings] = MappingProxyType(
    {
        **CONTROLLER,
        errors.ChangeRefused: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        errors.NoLeader: ErrorCode.LEADER_NOT_AVAILABLE,
    }
)
_ASSIGNING: Final[Meanings] = MappingProxyType(
    {**CONTROLLER, errors.InvalidArgument: ErrorCode.INVALID_REPLICA_ASSIGNMENT}
)


class _RequestedPartition(NamedTuple):
    """Partition that a request names."""

    topic: str
    partition: int


class PlacementRequests:
    """Handlers of requests about leaders and reassignments."""

    def __init__(self, context: KafkaContext) -> None:
        self._broker, self._authorizer = context.broker, context.broker.security.authorizer

    def apis(self) -> list[KafkaApi]:
        """Return the APIs that this class serves."""
        return [
            KafkaApi(ApiKey.ELECT_LEADERS, (0, 2), self.elect_leaders),
            KafkaApi(ApiKey.ALTER_PARTITION_REASSIGNMENTS, (0, 0), self.reassign),
            KafkaApi(ApiKey.LIST_PARTITION_REASSIGNMENTS, (0, 0), self.list_reassignments),
        ]

    # elections

    async def elect_leaders(self, request: KafkaRequest) -> Any:
        """Transfer leaderships to preferred leaders that do not lead; null in the request means all partitions."""
        message, answer = request.message, answer_class(request.key)
        deadline = deadline_of(message.timeout_ms)
        is_all = message.topic_partitions is None
        if not self._authorizer.permits(request.caller, AclOperation.ALTER, CLUSTER):
            denied = Outcome(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
            named = () if is_all else _places((each.topic, each.partitions) for each in message.topic_partitions)
            return _election_answer(answer, denied.code, [(place, denied) for place in named])
        if request.version >= 1 and message.election_type not in _ELECTIONS:
            return answer(error_code=ErrorCode.INVALID_REQUEST, replica_election_results=[])
        is_unclean = request.version >= 1 and message.election_type == _UNCLEAN
        if not is_unclean:
            await self._broker.operations.leadership.refresh(deadline=deadline)
        if is_all:
            described = await self._broker.describe_topics(deadline=deadline)
            places = [
                _RequestedPartition(topic.name, each.partition) for topic in described for each in topic.partitions
            ]
        else:
            places = _places((each.topic, each.partitions) for each in message.topic_partitions)
            described = await self._describe_topics({place.topic for place in places}, deadline)
        states = {
            _RequestedPartition(topic.name, each.partition): each for topic in described for each in topic.partitions
        }

        async def elect(place: _RequestedPartition) -> Outcome:
            """Elect the leader of one partition; return the outcome."""
            return await attempt(self._elect(place, states.get(place), is_unclean, deadline), _ELECTING)

        outcomes = await run_in_parallel(places, elect)
        results = [
            (place, outcome)
            for place, outcome in zip(places, outcomes, strict=True)
            if not (is_all and outcome.code is ErrorCode.ELECTION_NOT_NEEDED)
        ]
        return _election_answer(answer, ErrorCode.NONE, results)

    async def _describe_topics(self, topics: Iterable[str], deadline: Deadline) -> list[TopicState]:
        """Return the state of the topics that exist, with the leaders that their partitions report."""

        async def describe(topic: str) -> TopicState | None:
            """Return the state of a topic; None if it does not exist."""
            try:
                return await self._broker.describe_topic(topic, deadline=deadline)
            except errors.UnknownTopic:
                return None

        return [topic for topic in await run_in_parallel(sorted(topics), describe) if topic is not None]

    async def _elect(
        self, place: _RequestedPartition, state: PartitionState | None, is_unclean: bool, deadline: Deadline
    ) -> None:
        """Transfer a partition's leadership to its preferred leader. Raises `AdminRefusal` for unclean elections."""
        if state is None:
            raise UnknownPartition(f"There is no partition {place.topic}/{place.partition}")
        preferred = state.replicas[0]
        if state.leader == preferred or (is_unclean and state.leader is not None):
            raise AdminRefusal(ErrorCode.ELECTION_NOT_NEEDED, f"Broker {state.leader} leads the partition already")
        if is_unclean:
            raise AdminRefusal(
                ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
                "An unclean election would lose acknowledged records; start the brokers that have replicas, or see "
                f"`raftlog partition recover {place.topic}/{place.partition}`",
            )
        await self._broker.operations.leadership.transfer_leadership(*place, preferred, deadline=deadline)

    # reassignments

    async def reassign(self, request: KafkaRequest) -> Any:
        """Begin reassignments of partitions; null in place of brokers cancels a reassignment."""
        message, answer = request.message, answer_class(request.key)
        self._authorizer.authorize(request.caller, AclOperation.ALTER, CLUSTER)
        deadline = deadline_of(message.timeout_ms)
        wanted = [
            (_RequestedPartition(topic.name, each.partition_index), each.replicas)
            for topic in message.topics
            for each in topic.partitions
        ]
        counts = Counter(place for place, _ in wanted)

        async def reassign_partition(change: tuple[_RequestedPartition, list[int] | None]) -> Outcome:
            """Assign replicas to a partition, or cancel its reassignment; return the outcome."""
            place, replicas = change
            if counts[place] > 1:
                return Outcome(ErrorCode.INVALID_REQUEST, "The request names this partition twice; name it once")
            work = self._cancel(place, deadline) if replicas is None else self._assign(place, replicas, deadline)
            return await attempt(work, _ASSIGNING)

        outcomes = iter(await run_in_parallel(wanted, reassign_partition))
        rows = answer.ReassignableTopicResponse
        return answer(
            error_code=ErrorCode.NONE,
            error_message=None,
            responses=[
                rows(
                    name=topic.name,
                    partitions=[
                        rows.ReassignablePartitionResponse(
                            partition_index=each.partition_index, error_code=outcome.code, error_message=outcome.message
                        )
                        for each, outcome in zip(topic.partitions, outcomes, strict=False)
                    ],
                )
                for topic in message.topics
            ],
        )

    async def _assign(self, place: _RequestedPartition, replicas: list[int], deadline: Deadline) -> None:
        """Assign the partition to these node ids."""
        await self._broker.operations.partitions.set_replicas(*place, replicas, deadline=deadline)

    async def _cancel(self, place: _RequestedPartition, deadline: Deadline) -> None:
        """Cancel a reassignment. Raises `AdminRefusal` if none is pending."""
        orders = self._broker.operations.partitions
        moving = await orders.reconfigurations(deadline=deadline)
        await orders.cancel_reconfiguration(*place, deadline=deadline)
        if not any((each.topic, each.partition) == place for each in moving):
            raise AdminRefusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "The partition is not being reassigned")

    async def list_reassignments(self, request: KafkaRequest) -> Any:
        """Return pending reassignments; null in the request means all partitions."""
        message, answer = request.message, answer_class(request.key)
        visible = self._authorizer.allows
        try:
            self._authorizer.authorize(request.caller, AclOperation.DESCRIBE, CLUSTER)
            moves = await self._broker.operations.partitions.reconfigurations(deadline=deadline_of(message.timeout_ms))
        except RaftlogError as error:
            outcome = outcome_of(error)
            return answer(error_code=outcome.code, error_message=outcome.message, topics=[])
        wanted = (
            None
            if message.topics is None
            else {*_places((each.name, each.partition_indexes) for each in message.topics)}
        )
        rows = answer.OngoingTopicReassignment
        moves = sorted(
            (
                move
                for move in moves
                if (wanted is None or _RequestedPartition(move.topic, move.partition) in wanted)
                and visible(request.caller, AclOperation.DESCRIBE, topic_resource(move.topic))
            ),
            key=lambda move: (move.topic, move.partition),
        )
        return answer(
            error_code=ErrorCode.NONE,
            error_message=None,
            topics=[
                rows(
                    name=topic,
                    partitions=[_describe_reassignment(rows.OngoingPartitionReassignment, move) for move in group],
                )
                for topic, group in groupby(moves, key=lambda move: move.topic)
            ],
        )


def _election_answer(answer: Any, code: ErrorCode, results: Iterable[tuple[_RequestedPartition, Outcome]]) -> Any:
    """Return the answer to an election request; `code` is an error of the whole request."""
    rows = answer.ReplicaElectionResult
    return answer(
        error_code=code,
        replica_election_results=[
            rows(
                topic=topic,
                partition_result=[
                    rows.PartitionResult(
                        partition_id=place.partition, error_code=outcome.code, error_message=outcome.message
                    )
                    for place, outcome in group
                ],
            )
            for topic, group in groupby(results, key=lambda each: each[0].topic)
        ],
    )


def _places(topics: Iterable[tuple[str, Iterable[int]]]) -> list[_RequestedPartition]:
    """Return the partitions of a request, each once, in order."""
    return list(dict.fromkeys(_RequestedPartition(topic, number) for topic, numbers in topics for number in numbers))


def _describe_reassignment(row: Any, move: Reconfiguration) -> Any:
    """Return the row of a reassignment: present replicas, and those that are added and removed."""
    before, after = move.from_nodes, move.to_nodes
    return row(
        partition_index=move.partition,
        replicas=list(dict.fromkeys([*after, *before])),
        adding_replicas=[node for node in after if node not in before],
        removing_replicas=[node for node in before if node not in after],
    )
