"""From any node to the coordinator of a group: found, asked by one hop, and found again until the deadline.

Every request names the internal topic by its uuid and the partition, as `routing.serving` does. What was definitely
refused because another broker coordinates is asked again there; what was lost is asked again only where that is the
same. Called by the service.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias
from uuid import UUID

from raftlog.errors import NotLeader, OutcomeUnknown, RaftlogError
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.groups.coordinator import Coordinator
from raftlog.partitions.groups.coordinators import Coordinators
from raftlog.partitions.groups.wire import malformed
from raftlog.partitions.node import Node
from raftlog.partitions.node.requests import Request
from raftlog.partitions.replica import Replica
from raftlog.partitions.routing.partition import Partition
from raftlog.partitions.routing.router import PartitionRouter
from raftlog.partitions.routing.topics import Topic, Topics
from raftlog.records.partitioner import murmur2
from raftlog.runtime.rpc import Answer, NotConnected
from raftlog.types import NodeId

AtCoordinator: TypeAlias = Callable[[Coordinator, Any, Deadline], Awaitable[Answer]]
"""Serves a request at the coordinator; the header is a mapping made of numbers, text, bytes, lists and mappings."""
WAIT_MS_MAX: Final = 600_000


class _Lost(Exception):
    """Carries an unknown outcome past the router, which would ask again."""

    def __init__(self, error: OutcomeUnknown) -> None:
        super().__init__()
        self.error = error


class Asking:
    """One for each process."""

    def __init__(self, node: Node, router: PartitionRouter, topics: Topics, coordinators: Coordinators) -> None:
        self._node, self._router, self._topics, self._coordinators = node, router, topics, coordinators
        self._handlers: dict[str, AtCoordinator] = {}

    def serve(self, name: str, handler: AtCoordinator) -> None:
        """Requests of this name go to `handler`, here and from other nodes."""
        self._handlers[name] = handler
        self._node.on_request(name, partial(self._served_for_others, name))

    async def ask(
        self,
        name: str,
        partition: Partition,
        header: Mapping[str, Any],
        *,
        deadline: Deadline,
        is_repeatable: bool,
        only_reads: bool = False,
    ) -> Answer:
        """The coordinator's answer. Raises what it raises, `NoLeader` when there is none until the deadline, and
        `OutcomeUnknown` for an answer that was lost unless `is_repeatable`; then that is raised only where no later
        attempt got an answer either. `only_reads`: what happened to a lost one does not matter."""
        lost: OutcomeUnknown | None = None

        async def here(replica: Replica) -> Answer:
            return await attempt(self._at_coordinator(name, partition, header, deadline))

        async def there(node: NodeId) -> Answer:
            return await attempt(self._router.read(node, name, partition, header, deadline))

        async def attempt(asked: Awaitable[Answer]) -> Answer:
            try:
                return await asked
            except NotConnected:
                raise
            except OutcomeUnknown as error:
                nonlocal lost
                lost = error
                if is_repeatable:
                    raise
                raise _Lost(error) from None

        try:
            return await self._router.call(partition, deadline, here, there)
        except _Lost as once:
            raise once.error from None
        except RaftlogError as error:
            if lost is None or only_reads:
                raise
            raise OutcomeUnknown(
                f"an attempt whose answer was lost may have succeeded ({lost}); then: {error}"
            ) from None

    async def _at_coordinator(
        self, name: str, partition: Partition, header: Mapping[str, Any], deadline: Deadline
    ) -> Answer:
        coordinator = self._coordinators.of(partition)
        await coordinator.ready(deadline)
        return await self._handlers[name](coordinator, header, deadline)

    async def _served_for_others(self, name: str, request: Request) -> Answer:
        match request.header:
            case [bytes(topic_id), int(number), int(wait_ms), {"group": str(group)} as header] if len(topic_id) == 16:
                topic = self._topics.by_id(UUID(bytes=topic_id))
                if topic is None or not 0 <= number < len(topic.partitions):
                    raise NotLeader(f"there is no replica of partition {number} of the topic {topic_id.hex()} here")
                partition = topic.partitions[number]
                if group and partition_of(topic, group) is not partition:
                    raise malformed(name)
                deadline = deadline_in(min(max(wait_ms, 0), WAIT_MS_MAX))
                return await self._at_coordinator(name, partition, header, deadline)
        raise malformed(name)


def partition_of(topic: Topic, group: str) -> Partition:
    """The partition of the internal topic that keeps a group."""
    return topic.partitions[(murmur2(group.encode()) & 0x7FFFFFFF) % len(topic.partitions)]
