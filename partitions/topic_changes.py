"""Creation, growth, change and deletion of topics: this node chooses brokers, the controller accepts or refuses.

The local copy of the controller's state is brought up to date first, so that refusals here are correct. A change that
was sent and not answered in time may have happened: `DeadlineExceeded`. Called by the broker."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from uuid import UUID

from raftlog.errors import InvalidArgument, TopicExists, VersionConflict
from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.controller.machine import (
    AddPartitions,
    AlterTopicConfigs,
    ControllerState,
    CreateTopic,
    DeleteTopic,
    PlacementCandidate,
    check_level,
    place_replicas,
    settings_of,
)
from raftlog.partitions.controller.machine.naming import check_topic_name
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.node import Node
from raftlog.partitions.routing.topics import Topic, Topics
from raftlog.partitions.settings import BrokerSettings
from raftlog.raft import ReplicaId
from raftlog.topic_config import TopicConfig
from raftlog.types import NodeId

_LOOK_S = 0.05
_ATTEMPTS_MAX = 5
"""Attempts to add partitions when another addition came first."""
REPLICATION_FACTOR = 3
"""Default replication factor of topics; lower in a cluster with fewer hosts."""


class TopicChanges:
    """Changes of topics; `random` chooses between equally loaded hosts and draws uuids. One instance per process."""

    def __init__(
        self,
        settings: BrokerSettings,
        node: Node,
        metadata: ControllerHost,
        topics: Topics,
        random: Random,
        wall_ms: Callable[[], int],
        free_bytes: Callable[[], Mapping[NodeId, int]] = dict,
    ) -> None:
        """Store the components that changes of topics use.

        `free_bytes`: free disk space by node id, as gossip reports it; it decides only between hosts with equal
        loads."""
        self._settings, self._node, self._metadata, self._topics = settings, node, metadata, topics
        self._random, self._wall_ms, self._free_bytes = random, wall_ms, free_bytes

    async def create(
        self,
        name: str,
        count: int | None,
        replication_factor: int | None,
        overrides: Mapping[str, str],
        deadline: Deadline,
        assignments: Sequence[Sequence[int]] | None = None,
        *,
        validate_only: bool = False,
    ) -> CreateTopic:
        """Create a topic and return the command. Raises `TopicExists`, `InvalidArgument`, `InvalidTopic`.

        `assignments` has the node ids of each partition's replicas; None: chosen here. With `validate_only` the command
        is not submitted."""
        check_topic_name(name)
        count = self._settings.default_partitions if count is None else count
        self._check(count, replication_factor, overrides)
        await self._metadata.barrier(deadline)
        if self._metadata.state.has_topic(name):
            raise TopicExists(f"topic {name!r} exists already")
        if assignments is None:
            factor = await self._wait_for_hosts(replication_factor, deadline)
            placed = place_replicas(count, factor, self._candidates(factor), self._random)
        else:
            placed = _assigned_replicas(self._metadata.state, name, assignments, range(count), len(assignments[0]))
        command = self._make_command(name, placed, overrides)
        if not validate_only:
            await self._metadata.submit(command, deadline)
        return command

    async def ensure_internal(self, name: str, count: int, config: Mapping[str, str], deadline: Deadline) -> Topic:
        """Return the internal topic of this name; create it if it is missing."""
        if name not in self._topics:
            await self._metadata.barrier(deadline)
        if name not in self._topics:
            try:
                factor = await self._wait_for_hosts(None, deadline)
                placed = place_replicas(count, factor, self._candidates(factor), self._random)
                await self._metadata.submit(self._make_command(name, placed, config), deadline)
            except TopicExists:  # another node created it first
                await self._metadata.barrier(deadline)
        return self._topics.find(name)

    def _check(self, count: int, factor: int | None, overrides: Mapping[str, str]) -> None:
        """Raise `InvalidArgument` for an invalid partition count, replication factor or setting."""
        if not 1 <= count <= self._settings.partitions_per_topic_max:
            raise InvalidArgument(
                f"a topic cannot have {count} partitions; set 1 to {self._settings.partitions_per_topic_max}"
            )
        if factor is not None and factor < 1:
            raise InvalidArgument(f"replication factor {factor} is out of range: it must be at least 1")
        self._settings.topic_config.override(overrides)

    async def _wait_for_hosts(self, factor: int | None, deadline: Deadline) -> int:
        """Return the replication factor, once as many hosts have a registered broker, or at the deadline.

        `factor` None: the default, or fewer in a cluster with fewer hosts. Waits only for seeds that are still to
        register."""
        while True:
            state = self._metadata.state
            present, absent = _host_count(state.candidates()), len(list(state.absent_seeds()))
            wanted = factor or max(1, min(REPLICATION_FACTOR, present + absent))
            if present >= wanted or not absent or self._node.loop.time() >= deadline:
                return wanted
            await self._node.pause(Deadline(min(deadline, self._node.loop.time() + _LOOK_S)))

    def _make_command(
        self, name: str, placed: tuple[tuple[ReplicaId, ...], ...], overrides: Mapping[str, str]
    ) -> CreateTopic:
        """Return the command that creates a topic with these replicas. Raises `InvalidArgument`."""
        is_internal = name.startswith("__")
        defaults = self._settings.internal_topic_config() if is_internal else self._settings.topic_config
        self._check_insync(defaults.override(overrides), len(placed[0]))
        return CreateTopic(
            name,
            UUID(int=self._random.getrandbits(128), version=4),
            placed,
            settings_of(overrides),
            self._wall_ms(),
            is_internal,
        )

    def _candidates(self, factor: int) -> list[PlacementCandidate]:
        """Return the brokers that may get new replicas, without unreachable ones if the others have `factor` hosts."""
        candidates = self._metadata.state.candidates()
        alive = [candidate for candidate in candidates if self._is_alive(candidate.replica.node_id)]
        if _host_count(alive) >= factor:  # new partitions need not wait for a broker that does not answer
            candidates = alive
        free = self._free_bytes()
        return [each._replace(free_bytes=free.get(each.replica.node_id, 0)) for each in candidates]

    def _is_alive(self, node: NodeId) -> bool:
        """Return whether the node is this one, or connected."""
        return node == self._node.identity.node_id or self._node.is_connected(node)

    def _check_insync(self, config: TopicConfig, factor: int) -> None:
        """Raise `InvalidArgument` if `min.insync.replicas` exceeds the replication factor."""
        if config.min_insync_replicas > factor:
            raise InvalidArgument(
                f"min.insync.replicas={config.min_insync_replicas} can never be met with {factor} replicas; "
                f"set it to at most {factor}"
            )

    async def add_partitions(
        self,
        name: str,
        total: int,
        assignments: Sequence[Sequence[int]] | None,
        deadline: Deadline,
        *,
        validate_only: bool,
    ) -> AddPartitions:
        """Add partitions to a topic, so that it has `total`, and return the command.

        `assignments` has the node ids of each new partition's replicas; None: chosen as for a new topic. Raises
        `UnknownTopic`, `InvalidArgument`, and `PlacementImpossible`."""
        check_topic_name(name)
        await self._metadata.barrier(deadline)
        for attempt in range(_ATTEMPTS_MAX):
            command = await self._make_addition(name, total, assignments, deadline)
            check_level(command, self._metadata.state.feature_level)
            if validate_only:
                return command
            try:
                await self._metadata.submit(command, deadline)
            except VersionConflict:  # another addition came first
                if attempt == _ATTEMPTS_MAX - 1:
                    raise
                await self._metadata.barrier(deadline)
            else:
                return command
        raise AssertionError("the last attempt returns or raises")

    async def _make_addition(
        self, name: str, total: int, assignments: Sequence[Sequence[int]] | None, deadline: Deadline
    ) -> AddPartitions:
        """Return the command that adds partitions up to `total`. Raises `InvalidArgument`, `UnknownTopic`."""
        factor = len(self._metadata.state.replicas_of(self._metadata.state.topic(name))[0])
        if assignments is None:
            await self._wait_for_hosts(factor, deadline)
        state = self._metadata.state
        topic = state.topic(name)
        present, most = topic.partition_count, self._settings.partitions_per_topic_max
        if total <= present:
            raise InvalidArgument(f"topic {name!r} has {present} partitions; partitions can only be added")
        if total > most:
            raise InvalidArgument(f"topic {name!r} cannot have {total} partitions; set {present + 1} to {most}")
        if assignments is None:
            led = Counter(replicas[0] for replicas in state.replicas_of(topic))
            placed = place_replicas(total - present, factor, self._candidates(factor), self._random, led)
        else:
            placed = _assigned_replicas(state, name, assignments, range(present, total), factor)
        return AddPartitions(name, topic.topic_id, present, placed, self._wall_ms())

    async def delete(self, name: str, deadline: Deadline) -> None:
        """Delete a topic. Raises `UnknownTopic` if it does not exist."""
        check_topic_name(name)
        await self._metadata.barrier(deadline)
        topic = self._topics.find(name)
        await self._metadata.submit(DeleteTopic(name, topic.row.topic_id), deadline)

    async def alter(
        self, name: str, changes: Mapping[str, str | None], deadline: Deadline, *, validate_only: bool
    ) -> None:
        """Change settings of a topic.

        Raises `UnknownTopic`, `InvalidArgument`, and `VersionConflict` when the topic was changed concurrently."""
        check_topic_name(name)
        await self._metadata.barrier(deadline)
        topic = self._topics.find(name)
        if not changes:
            return
        overrides = {key: value for key, value in topic.known_overrides.items() if key not in changes}
        new = {key: value for key, value in changes.items() if value is not None}
        config = self._settings.topic_config.override({**overrides, **new})
        self._check_insync(config, min(map(len, self._metadata.state.replicas_of(topic.row))))
        unset = tuple(sorted(key for key, value in changes.items() if value is None and key in topic.overrides))
        if validate_only or (not new and not unset):
            return
        command = AlterTopicConfigs(name, topic.row.topic_id, settings_of(new), unset, topic.row.version)
        await self._metadata.submit(command, deadline)


def _assigned_replicas(
    state: ControllerState, topic: str, assignments: Sequence[Sequence[int]], numbers: range, factor: int
) -> tuple[tuple[ReplicaId, ...], ...]:
    """Return the replicas of the new partitions `numbers` on the assigned nodes. Raises `InvalidArgument`.

    Each assignment must name `factor` different brokers. The controller checks that they run on different hosts."""
    if len(assignments) != len(numbers):
        raise InvalidArgument(
            f"topic {topic!r} gets {len(numbers)} partitions, and {len(assignments)} assignments are given"
        )
    for number, nodes in zip(numbers, assignments, strict=True):
        if len(nodes) != factor or len(set(nodes)) != factor:
            raise InvalidArgument(
                f"{topic}/{number} needs {factor} brokers, as the other partitions have, each once; not {[*nodes]}"
            )
        for node in nodes:
            if node not in state.brokers:
                known = ", ".join(str(broker.node_id) for broker in state.all_brokers())
                raise InvalidArgument(f"{topic}/{number}: no broker has the node id {node}; the brokers are {known}")
            if state.is_excluded(NodeId(node)):
                raise InvalidArgument(
                    f"{topic}/{number}: broker {node} is draining or in maintenance and gets no new replicas"
                )
    return tuple(tuple(state.brokers[node].replica for node in nodes) for nodes in assignments)


def _host_count(candidates: Sequence[PlacementCandidate]) -> int:
    """Return the number of different hosts."""
    return len({candidate.host for candidate in candidates})
