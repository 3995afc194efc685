"""Operators that change topics within milliseconds of their creation, often before the first replicas exist.

Each creates a topic of a new name, also with one replica. Meanwhile other requests for it arrive at any broker that has
just applied the creation: moves, a deletion, a second topic of the same name, more partitions, a decommission or a
maintenance of one of its brokers (`STORIES`). One of these brokers may crash at that moment. Created by the nemesis;
`EarlyTopic.check` is the final check of each topic.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from enum import Enum
from functools import partial
from typing import Any, Final
from uuid import UUID

from jepsen.simulation.brokers.cluster import BrokerCluster, Machine
from jepsen.simulation.brokers.faults import Faults
from jepsen.simulation.brokers.options import EarlyChangeOptions
from jepsen.simulation.brokers.workload.clients import RETRY_NS, TIMEOUTS_MS, Attempt, Client
from jepsen.simulation.brokers.workload.operators import AcceptedRequests, is_broker_spare
from jepsen.simulation.network.links import SECOND_NS
from jepsen.simulation.verdicts import PropertyBroken
from raftlog.errors import RaftlogError, TopicExists
from raftlog.partitions.broker import Broker
from raftlog.partitions.controller.machine import ControllerState, GroupName
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.types import NodeId


class Change(Enum):
    """Kinds of changes of a new topic."""

    MOVE = "move"
    RETURN = "return"
    """A move to the brokers of the partition's creation."""
    CANCEL = "cancel"
    DELETE = "delete"
    RECREATE = "recreate"
    ADD = "add"
    DECOMMISSION = "decommission"
    MAINTENANCE = "maintenance"


STORIES: Final = (
    (Change.MOVE,),
    (Change.MOVE, Change.MOVE),
    (Change.MOVE, Change.RETURN),
    (Change.MOVE, Change.CANCEL),
    (Change.DELETE,),
    (Change.MOVE, Change.DELETE),
    (Change.RECREATE,),
    (Change.RECREATE, Change.MOVE),
    (Change.MOVE, Change.RECREATE, Change.MOVE),
    (Change.ADD,),
    (Change.ADD, Change.MOVE),
    (Change.MOVE, Change.ADD),
    (Change.ADD, Change.DELETE),
    (Change.DECOMMISSION,),
    (Change.MOVE, Change.DECOMMISSION),
    (Change.DECOMMISSION, Change.MOVE),
    (Change.MAINTENANCE, Change.MOVE),
)
"""Changes of one topic, in their order."""
DELAYS_S: Final = (0.0, 0.003, 0.02, 0.1)
"""Bounds of the random delay before each change."""
LOOK_S: Final = 0.001
KNOWN_S: Final = 1.0
"""Time within which the called broker must know the topic; otherwise nothing is changed there."""
PARTITIONS_MAX: Final = 4
RECOMMISSIONS: Final = 0.4
"""Share of decommissions that are cancelled soon."""


class EarlyTopic:
    """Topics of one name, each created after the deletion of the one before, and the outcomes of their requests."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.created: dict[int, UUID] = {}
        """Acknowledged topics, by the number of the request."""
        self.partitions: dict[UUID, int] = {}
        """Acknowledged partition counts."""
        self.deleted = 0
        """Number of acknowledged deletions."""
        self.unknown = 0
        """Number of requests that may have happened or may still happen."""
        self._requests = 0

    def begin_creation(self) -> int:
        """Record that a creation is sent; return its number."""
        self.unknown += 1
        self._requests += 1
        return self._requests

    def record_creation(self, number: int, topic_id: UUID, partitions: int) -> None:
        """Record that a creation was acknowledged."""
        self.unknown -= 1
        self.created[number] = topic_id
        self.record_partitions(topic_id, partitions)

    def record_partitions(self, topic_id: UUID, count: int) -> None:
        """Record that the topic has at least so many partitions."""
        self.partitions[topic_id] = max(count, self.partitions.get(topic_id, 0))

    def record_error(self, error: RaftlogError) -> None:
        """Record the error of a creation or deletion, whose outcome may be unknown."""
        if error.outcome == "failed":
            self.unknown -= 1

    def check(self, state: ControllerState) -> None:
        """Raise `PropertyBroken` if the state contradicts acknowledged requests."""
        found = state.topic(self.name) if state.has_topic(self.name) else None
        numbers = {"topic": self.name, "id": None if found is None else found.topic_id, "known": self.created}
        if found is not None and found.partition_count < self.partitions.get(found.topic_id, 0):
            raise PropertyBroken("added-partitions-missing", {**numbers, "added": self.partitions})
        if self.unknown:
            return
        if len(self.created) == self.deleted:
            if found is not None:
                raise PropertyBroken("deleted-topic-back", numbers)
        elif found is None or found.topic_id != self.created[max(self.created)]:
            raise PropertyBroken("created-topic-gone", numbers)


def _open_nodes(state: ControllerState) -> list[NodeId]:
    """Return the nodes that may get new replicas."""
    return [each.node_id for each in state.all_brokers() if not state.is_excluded(each.node_id)]


class EarlyOperator(Client):
    """Simulated operator that creates topics, has them changed at once, and deletes them later.

    `slot` is the position of its present topic's name in the clients' list."""

    def __init__(
        self,
        cluster: BrokerCluster,
        place: int,
        options: EarlyChangeOptions,
        faults: Faults,
        taken: AcceptedRequests,
    ) -> None:
        super().__init__(cluster, cluster.random(f"early operator {place}"))
        self.options, self.faults, self.taken = options, faults, taken
        self.topics: list[EarlyTopic] = []
        self.changed = 0
        """Number of accepted early changes."""
        self._place = place
        self._slot = len(cluster.names)
        cluster.names.append(self._next_name())
        self._kept: list[EarlyTopic] = []
        self._changes: dict[Change, Callable[[EarlyTopic, Broker, Deadline], Coroutine[Any, Any, str]]] = {
            Change.MOVE: self._move,
            Change.RETURN: self._return,
            Change.CANCEL: self._cancel,
            Change.DELETE: self._delete,
            Change.RECREATE: self._recreate,
            Change.ADD: self._add,
            Change.DECOMMISSION: self._decommission,
            Change.MAINTENANCE: self._maintain,
        }

    def _next_name(self) -> str:
        """Return the name of the next topic."""
        return f"early-{self._place}-{len(self.topics)}"

    def step(self) -> None:
        """Create a topic and have it changed at once, or delete the oldest one if there are too many."""
        if len(self._kept) > self.options.kept_max:
            self.ask(partial(self._delete_oldest, self._kept.pop(0)))
            return
        self.ask(self._create)

    def _change_from_any(self, topic: EarlyTopic, story: Sequence[Change]) -> None:
        """Send these changes to a random broker that serves, as soon as it knows the topic."""
        serving = [machine for machine, _ in self.cluster.serving()]
        if serving:
            self.random.choice(serving).spawn(partial(self._change, topic, story), "an early change")

    # creation and late deletion

    async def _create(self, attempt: Attempt, broker: Broker) -> None:
        """Create the next topic, which others change meanwhile."""
        topic = EarlyTopic(self._next_name())
        self.cluster.names[self._slot] = topic.name
        self.topics.append(topic)
        self._kept.append(topic)
        self._change_from_any(topic, self.random.choice(STORIES))
        if self.random.random() < self.options.rivals:
            self._change_from_any(topic, (Change.MOVE,))
        outcome = await self._try_to_create(topic, broker, attempt.deadline())
        self._note(broker, outcome)
        if self.is_answer_received(attempt):
            self.finish(attempt, int(self.random.expovariate(1 / self.options.pause_s) * SECOND_NS))

    async def _try_to_create(self, topic: EarlyTopic, broker: Broker, deadline: Deadline) -> str:
        """Create a topic of this name on random brokers; return a description for the timeline.

        Raises `PropertyBroken` if a topic of this name exists: the one before was deleted."""
        nodes = _open_nodes(broker.metadata.state)
        if not nodes or (self.cluster.options.loses_disks and len(nodes) < self._draw_factor()):
            return f"too few brokers for {topic.name}"
        count = self.random.randint(1, 2)
        factor = min(len(nodes), self._draw_factor())
        is_placed = self.random.random() < 0.5
        assignments = [self.random.sample(nodes, factor) for _ in range(count)] if is_placed else None
        config = {"segment.bytes": str(self.cluster.options.segment_bytes)}
        number = topic.begin_creation()
        try:
            described = await broker.create_topic(
                topic.name, count, None if is_placed else factor, config, assignments=assignments, deadline=deadline
            )
        except TopicExists as error:
            numbers = {"topic": topic.name, "known": topic.created, "broker": broker.node_id, "error": error}
            raise PropertyBroken("deleted-topic-exists", numbers) from error
        except RaftlogError as error:
            topic.record_error(error)
            return f"did not create {topic.name}: {type(error).__name__} {error}"
        topic.record_creation(number, UUID(described.topic_id), count)
        return f"created {topic.name} ({described.topic_id[:8]}) on {assignments or factor}"

    async def _delete_oldest(self, topic: EarlyTopic, attempt: Attempt, broker: Broker) -> None:
        """Delete a topic that was kept for a while."""
        try:
            outcome = await self._delete(topic, broker, attempt.deadline())
        except RaftlogError as error:
            outcome = f"{topic.name} is not deleted: {type(error).__name__} {error}"
        self._note(broker, outcome)
        if self.is_answer_received(attempt):
            self.finish(attempt, RETRY_NS)

    def _draw_factor(self) -> int:
        """Return a random number of replicas."""
        return 3 if self.cluster.options.loses_disks else self.random.choice((1, 1, 2, 3))

    # early changes

    async def _change(self, topic: EarlyTopic, story: Sequence[Change], broker: Broker) -> None:
        """Wait until this broker knows the topic, and send the changes, each after a short delay."""
        deadline = deadline_in(int(KNOWN_S * 1000))
        while not broker.metadata.state.has_topic(topic.name):
            if asyncio.get_running_loop().time() >= deadline:
                return
            await asyncio.sleep(LOOK_S)
        self._maybe_strike(self._first_nodes(topic, broker))
        for change in story:
            await asyncio.sleep(self._draw_delay_s())
            if self.is_stopped:
                return
            try:
                outcome = await self._changes[change](topic, broker, deadline_in(self.random.choice(TIMEOUTS_MS)))
                self.changed += 1
            except RaftlogError as error:
                outcome = f"{topic.name}: {type(error).__name__} {error}"
            self._note(broker, f"{change.value}: {outcome}")

    def _draw_delay_s(self) -> float:
        """Return a random delay before a change, most often of a few milliseconds."""
        return self.random.choice(DELAYS_S) * self.random.random()

    def _maybe_strike(self, nodes: list[NodeId]) -> None:
        """Strike one of the nodes soon, by chance."""
        machines = [self.cluster.machines[node] for node in nodes if node in self.cluster.machines]
        if machines and self.random.random() < self.options.strikes:
            delay_ns = int(self._draw_delay_s() * SECOND_NS)
            self.loop.call_at_ns(self.loop.now_ns + delay_ns, self._strike, self.random.choice(machines))

    def _strike(self, machine: Machine) -> None:
        """Crash the machine, cut its power, or isolate it."""
        if not self.is_stopped:
            machine.note("it is struck while a topic is new")
            self.faults.strike(machine)

    def _first_nodes(self, topic: EarlyTopic, broker: Broker) -> list[NodeId]:
        """Return the nodes of the first replicas of the topic in this broker's metadata."""
        state = broker.metadata.state
        rows = state.topic(topic.name).first_replicas if state.has_topic(topic.name) else ()
        return sorted({replica.node_id for replicas in rows for replica in replicas})

    def _draw_groups(self, topic: EarlyTopic, broker: Broker) -> list[GroupName]:
        """Return one partition or all partitions of the topic. Raises `UnknownTopic`."""
        row = broker.metadata.state.topic(topic.name)
        numbers = range(row.partition_count)
        chosen = [self.random.choice(numbers)] if self.random.random() < 0.5 else numbers
        return [GroupName(row.topic_id, number) for number in chosen]

    def _draw_nodes(self, broker: Broker, group: GroupName) -> list[NodeId]:
        """Return random nodes for a partition, most often none of its present ones. Raises `UnknownTopic`."""
        state = broker.metadata.state
        present = [replica.node_id for replica in state.assignment(group).replicas]
        nodes = _open_nodes(state)
        others = [node for node in nodes if node not in present]
        count = self._draw_factor()
        if self.random.random() < 0.7:
            nodes = others if len(others) >= count or not self.cluster.options.loses_disks else nodes
        return self.random.sample(nodes, min(len(nodes), count)) or present

    async def _move(self, topic: EarlyTopic, broker: Broker, deadline: Deadline) -> str:
        """Move one partition or all partitions of the topic to random brokers."""
        wanted = [(group, self._draw_nodes(broker, group)) for group in self._draw_groups(topic, broker)]
        return await self._assign(topic, wanted, broker, deadline)

    async def _return(self, topic: EarlyTopic, broker: Broker, deadline: Deadline) -> str:
        """Move one partition or all partitions of the topic to the brokers of their creation."""
        row = broker.metadata.state.topic(topic.name)
        wanted = [
            (group, [replica.node_id for replica in row.origin(group.partition).replicas])
            for group in self._draw_groups(topic, broker)
        ]
        return await self._assign(topic, wanted, broker, deadline)

    async def _assign(
        self, topic: EarlyTopic, wanted: list[tuple[GroupName, list[NodeId]]], broker: Broker, deadline: Deadline
    ) -> str:
        """Assign the partitions to these nodes, one after another."""
        for group, nodes in wanted:
            version = await broker.operations.partitions.set_replicas(
                topic.name, group.partition, nodes, deadline=deadline
            )
            self.taken.record_assignment(group, version)
        return f"{topic.name} to {[(group.partition, nodes) for group, nodes in wanted]}"

    async def _cancel(self, topic: EarlyTopic, broker: Broker, deadline: Deadline) -> str:
        """Cancel the moves of one partition or of all partitions of the topic."""
        for group in self._draw_groups(topic, broker):
            version = await broker.operations.partitions.cancel_reconfiguration(
                topic.name, group.partition, deadline=deadline
            )
            self.taken.record_assignment(group, version)
        return topic.name

    async def _delete(self, topic: EarlyTopic, broker: Broker, deadline: Deadline) -> str:
        """Delete the topic."""
        topic.unknown += 1
        try:
            await broker.delete_topic(topic.name, deadline=deadline)
        except RaftlogError as error:
            topic.record_error(error)
            raise
        topic.unknown -= 1
        topic.deleted += 1
        return f"{topic.name} is deleted"

    async def _recreate(self, topic: EarlyTopic, broker: Broker, deadline: Deadline) -> str:
        """Delete the topic and create another one of its name."""
        outcome = await self._delete(topic, broker, deadline)
        await asyncio.sleep(self._draw_delay_s())
        return f"{outcome}, {await self._try_to_create(topic, broker, deadline)}"

    async def _add(self, topic: EarlyTopic, broker: Broker, deadline: Deadline) -> str:
        """Add partitions to the topic."""
        total = broker.metadata.state.topic(topic.name).partition_count + self.random.randint(1, 2)
        if total > PARTITIONS_MAX:
            return f"{topic.name} has enough partitions"
        described = await broker.create_partitions(topic.name, total, deadline=deadline)
        topic.record_partitions(UUID(described.topic_id), total)
        return f"{topic.name} has {total} partitions"

    async def _decommission(self, topic: EarlyTopic, broker: Broker, deadline: Deadline) -> str:
        """Decommission one of the first brokers of the topic if it can be spared; by chance cancel that soon."""
        nodes = self._first_nodes(topic, broker)
        if not nodes or not is_broker_spare(broker.metadata.state, self.cluster.options.least_brokers):
            return "no broker can be spared"
        node = self.random.choice(nodes)
        await broker.operations.brokers.decommission(node, deadline=deadline)
        if self.random.random() >= RECOMMISSIONS:
            return f"{node} shall go"
        await asyncio.sleep(self._draw_delay_s())
        await broker.operations.brokers.recommission(node, deadline=deadline)
        return f"{node} stays after all"

    async def _maintain(self, topic: EarlyTopic, broker: Broker, deadline: Deadline) -> str:
        """Begin the maintenance of one of the first brokers of the topic, and end it soon."""
        nodes = self._first_nodes(topic, broker)
        if not nodes:
            return "no broker to maintain"
        node = self.random.choice(nodes)
        await broker.operations.brokers.set_maintenance(node, True, deadline=deadline)
        await asyncio.sleep(self._draw_delay_s())
        await broker.operations.brokers.set_maintenance(node, False, deadline=deadline)
        return f"{node} on and off"

    def _note(self, broker: Broker, text: str) -> None:
        """Add an event of this operator to the timeline."""
        self.loop.note("early", f"at n{broker.node_id}: {text}")
