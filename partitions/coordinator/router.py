"""Router from any broker to the coordinator of a key: by a direct call in this process, otherwise by one hop.

Every request names the internal topic by its uuid and the partition, as `routing.data_requests` does. A request
that was definitely refused because another broker coordinates is sent to that broker; one whose answer was lost is
sent again only if it is repeatable. Called by the services of the machine (`groups.service`, `consumers.service`)."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from functools import partial
from typing import Any, Final, Generic, NamedTuple, Self
from uuid import UUID

from raftlog.errors import InvalidArgument, NoLeader, NotLeader, RaftlogError
from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.coordinator.coordinators import C, Coordinators
from raftlog.partitions.coordinator.operation import A, CoordinatorOperation, Q
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.node import Node
from raftlog.partitions.node.requests import Request
from raftlog.partitions.replica import Replica
from raftlog.partitions.routing.finder import Finder
from raftlog.partitions.routing.partition import Partition
from raftlog.partitions.routing.router import PartitionRouter
from raftlog.partitions.routing.topics import Topic, Topics
from raftlog.partitions.topic_changes import TopicChanges
from raftlog.records.partitioner import murmur2
from raftlog.runtime.rpc.calls import Answer
from raftlog.types import NodeId

WAIT_MS_MAX: Final = 600_000


class InternalTopic(NamedTuple):
    """Internal topic that contains the logs of coordinators. It is created with the first key."""

    name: str
    partitions: int
    config: Mapping[str, str]
    check_key: Callable[[str], None]
    """Function that raises `InvalidArgument` for an invalid key."""
    unknown: Callable[[str], RaftlogError]
    """Function that returns the error for a key while the topic does not exist."""


class ClusterParts(NamedTuple):
    """Components of a broker that a router uses."""

    node: Node
    metadata: ControllerHost
    topics: Topics
    finder: Finder
    router: PartitionRouter
    changes: TopicChanges
    check_ready: Callable[[], None]
    """Function that raises `Unavailable` while the broker starts or stops."""


class CoordinatorRouter(Generic[C]):
    """Router to the coordinators of one internal topic; one instance for each such topic in a process."""

    def __init__(self, parts: ClusterParts, topic: InternalTopic, coordinators: Coordinators[C]) -> None:
        """Create a router to the coordinators of one internal topic, without operations."""
        self._parts, self._topic, self._coordinators = parts, topic, coordinators
        self._topics, self._router, self._check_ready = parts.topics, parts.router, parts.check_ready
        self._serving: dict[str, Callable[..., Any]] = {}
        self._forwards = True

    def without_forwarding(self) -> Self:
        """Return a router that calls coordinators of this node only, and otherwise raises `NotLeader`."""
        router = copy(self)
        router._forwards = False
        return router

    def register(self, operations: Iterable[CoordinatorOperation[Any, Any]], *bound: object) -> None:
        """Serve these operations to this node and others; their functions take `bound` before the coordinator."""
        for operation in operations:
            self._serving[operation.name] = partial(operation.serve, *bound) if bound else operation.serve
            self._parts.node.on_request(operation.name, partial(self._serve, operation))

    async def call(
        self,
        operation: CoordinatorOperation[Q, A],
        key: str,
        request: Q,
        deadline: Deadline,
        *,
        is_repeatable: bool | None = None,
        creates: bool = False,
    ) -> A:
        """Call `operation` at the key's coordinator; look it up again until the deadline.

        Raises the errors of the operation, `NoLeader` if no coordinator is found by the deadline, and `OutcomeUnknown`
        if the answer is lost. If the internal topic is missing, create it with `creates`; otherwise raise the topic's
        error for an unknown key."""
        if creates:
            partition = await self.partition_for(key, deadline)
        else:
            self._topic.check_key(key)
            if not await self.has_topic(deadline):
                raise self._topic.unknown(key)
            partition = self.partition_of(key)
        return await self.call_at(operation, partition, key, request, deadline, is_repeatable)

    async def call_at(
        self,
        operation: CoordinatorOperation[Q, A],
        partition: Partition,
        key: str,
        request: Q,
        deadline: Deadline,
        is_repeatable: bool | None = None,
    ) -> A:
        """Call `operation` at the coordinator of a partition; `key` may be empty."""
        if not self._forwards:
            found: A = await self._serving[operation.name](self._coordinators.find(partition), request, deadline)
            return found

        async def call_local(_: Replica) -> A:
            """Execute the operation at the coordinator in this process."""
            served: A = await self._serving[operation.name](self._coordinators.find(partition), request, deadline)
            return served

        async def call_remote(node: NodeId) -> A:
            """Execute the operation at the coordinator on another node."""
            packed = operation.pack_request(request)
            answer = await self._router.read(node, operation.name, partition, {"key": key, "is": packed}, deadline)
            return operation.unpack_answer(answer)

        return await self._router.call(
            partition,
            deadline,
            call_local,
            call_remote,
            is_repeatable=operation.is_repeatable if is_repeatable is None else is_repeatable,
            only_reads=operation.only_reads,
        )

    async def _serve(self, operation: CoordinatorOperation[Any, Any], request: Request) -> Answer:
        """Serve an operation that another broker forwarded to this coordinator."""
        match request.header:
            case [bytes(topic_id), int(number), int(wait_ms), {"key": str(key), "is": bytes(packed)}] if (
                len(topic_id) == 16
            ):
                topic = self._topics.by_id(UUID(bytes=topic_id))
                if topic is None or not 0 <= number < len(topic.partitions):
                    raise NotLeader(f"this broker has no replica of partition {number} of the topic {topic_id.hex()}")
                partition = topic.partitions[number]
                if not key or _hash_partition(topic, key) is partition:
                    asked = operation.unpack_request(packed)
                    deadline = deadline_in(min(max(wait_ms, 0), WAIT_MS_MAX))
                    served = self._serving[operation.name](self._coordinators.find(partition), asked, deadline)
                    return operation.pack_answer(await served)
        raise InvalidArgument(
            f"the request {operation.name!r} cannot be decoded; check that the other broker runs a compatible release"
        )

    # the internal topic

    async def has_topic(self, deadline: Deadline) -> bool:
        """Return whether the internal topic exists; ask the controller if it is unknown here.

        Another node may have created it just now, for a request that was answered."""
        self._check_ready()
        if self._topic.name in self._topics:
            return True
        await self._parts.metadata.barrier(deadline)
        return self._topic.name in self._topics

    async def partition_for(self, key: str, deadline: Deadline) -> Partition:
        """Return the partition of a key; create the internal topic if it is missing."""
        self._check_ready()
        self._topic.check_key(key)
        topic = self._topics.get(self._topic.name)
        if topic is None:
            topic = await self._parts.changes.ensure_internal(*self._topic[:3], deadline)
        return _hash_partition(topic, key)

    def partition_of(self, key: str) -> Partition:
        """Return the partition of a key in the existing internal topic."""
        return _hash_partition(self._topics.find(self._topic.name), key)

    def partitions(self) -> list[Partition]:
        """Return all partitions of the internal topic; none while it does not exist."""
        topic = self._topics.get(self._topic.name)
        return [] if topic is None else topic.partitions

    def coordinator_id(self, partition: Partition) -> int:
        """Return the node id of the partition's leader; −1 if it is unknown."""
        leader = self._router.leader_of(partition)
        return -1 if leader is None else int(leader)

    async def find_coordinator(self, key: str, deadline: Deadline) -> NodeId:
        """Return the node that coordinates a key; create the internal topic if it is missing.

        Raises `NoLeader` if no leader is known by the deadline."""
        partition = await self.partition_for(key, deadline)
        loop = asyncio.get_running_loop()
        while (leader := self._router.leader_of(partition)) is None:
            if loop.time() >= deadline:
                raise NoLeader(f"{partition.name} has no leader yet, which would coordinate {key!r}; retry")
            await self._router.wait_for_leader_change(partition, deadline)
        return leader

    def leader_of(self, key: str) -> NodeId | None:
        """Return the node that coordinates a key, as known here; None if it is unknown."""
        return self._router.leader_of(self.partition_of(key)) if self._topic.name in self._topics else None


def _hash_partition(topic: Topic, key: str) -> Partition:
    """Return the partition of a key by its murmur2 hash, as Kafka's clients do."""
    return topic.partitions[(murmur2(key.encode()) & 0x7FFFFFFF) % len(topic.partitions)]
