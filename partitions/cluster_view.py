"""View of the cluster for operators and clients: topics with leaders, brokers, and health with reasons.

Leaders and replicas in sync are requested from all nodes at once, with one request each; a node that does not answer in
time counts as down. The controller's state comes from the copy here. Called by the broker."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final
from uuid import UUID

from msgspec.structs import asdict

import raftlog
from raftlog.errors import InvalidArgument, RaftlogError
from raftlog.partitions.broker_description import describe_broker
from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.controller.machine import AddPartitions, CreateTopic, GroupName
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.gossip.service import Gossip
from raftlog.partitions.kafka_addresses import kafka_listener_warning
from raftlog.partitions.node import Node
from raftlog.partitions.node.requests import Request
from raftlog.partitions.node.status import describe_damage, problems_of
from raftlog.partitions.operations.places import allocation_failures
from raftlog.partitions.placement.moves import Moves, lost_majority
from raftlog.partitions.results import PartitionState, ReplicaLag, TopicState, planned_states
from raftlog.partitions.routing.partition import Partition
from raftlog.partitions.routing.topics import Topic, Topics
from raftlog.partitions.security.listener_security import ListenerSecurities
from raftlog.partitions.unhealthy_partitions import UnhealthyPartitions
from raftlog.runtime.rpc.calls import Answer, row_of
from raftlog.topic_config import TopicConfig
from raftlog.types import NodeId
from raftlog.values.brokers import HEALTH_NAMES_MAX, BrokerDescription, ClusterHealth, DiskSpace
from raftlog.values.value import leader_number

_DESCRIBE: Final = "view.partitions"
_STATUS: Final = "view.broker"
ASK_MS: Final = 1_500
"""Time to answer, in ms, after which a node counts as down."""
DOUBTED_ASK_MS: Final = 500
"""Time to answer, in ms, of a node that gossip reports as suspect, dead or left."""
_ASKED_AT_ONCE: Final = 4_000
_SLICE: Final = 64
"""Replicas described in one turn of the loop."""
LEADERLESS_S: Final = 1.5
"""Seconds without a leader after which a partition is unhealthy; a leadership transfer and two elections take less."""


class ClusterObserver:
    """Collector of the state of topics, brokers and the cluster; server of `view.partitions` and `view.broker`."""

    def __init__(
        self,
        node: Node,
        metadata: ControllerHost,
        topics: Topics,
        disk: Callable[[], DiskSpace],
        moves: Moves,
        gossip: Gossip,
        listeners: ListenerSecurities,
    ) -> None:
        self._listeners = listeners
        self._node, self._metadata, self._topics, self._disk = node, metadata, topics, disk
        self._moves, self._gossip = moves, gossip
        self._me = node.identity.node_id
        self._began_at = asyncio.get_running_loop().time()
        node.on_request(_DESCRIBE, self._serve_partitions)
        node.on_request(_STATUS, self._serve_status)

    def outline(self, topic: Topic) -> TopicState:
        """Return the state of a topic as known here, without requests to other nodes."""
        return _topic_state(topic, self._add_versions(topic, map(self._local_state, topic.partitions)))

    def _local_state(self, partition: Partition) -> PartitionState:
        """Return the state of a partition as the replica here reports it."""
        row = self._local_row(partition)
        if row is None:
            return _partition_state(partition, None)
        *rest, _, damage, size = row
        damaged = () if damage is None else ((self._me, damage),)
        return _partition_state(partition, [*rest, size, damaged], is_local=True)

    def describe_planned(self, creation: CreateTopic, config: TopicConfig) -> TopicState:
        """Return the state that a topic would have after its creation."""
        return _make_topic_state(creation, config, dict(creation.configs), planned_states(creation.partitions))

    def describe_grown(self, topic: Topic, command: AddPartitions) -> TopicState:
        """Return the state that a topic would have after an addition of partitions."""
        before, added = self.outline(topic), planned_states(command.partitions, command.partition_count)
        return before._replace(partitions=[*before.partitions, *added])

    async def describe(self, topics: Sequence[Topic], deadline: Deadline) -> list[TopicState]:
        """Describe topics from reports of the partitions' leaders; each broker gets one request."""
        rows, _ = await self._ask_leaders([each for topic in topics for each in topic.partitions], deadline)
        described = []
        for topic in topics:
            described.append(_topic_state(topic, self._merge_rows(topic, topic.partitions, rows)))
            await asyncio.sleep(0)
        return described

    async def describe_partitions(
        self, topic: Topic, partitions: Sequence[Partition], deadline: Deadline
    ) -> list[PartitionState]:
        """Describe some partitions of a topic, as `describe` does."""
        rows, _ = await self._ask_leaders(partitions, deadline)
        return self._merge_rows(topic, partitions, rows)

    def _merge_rows(
        self, topic: Topic, partitions: Iterable[Partition], rows: Mapping[bytes, list[Any]]
    ) -> list[PartitionState]:
        return self._add_versions(topic, [self._merge_row(each, rows.get(each.group_id.bytes)) for each in partitions])

    def _add_versions(self, topic: Topic, described: Iterable[PartitionState]) -> list[PartitionState]:
        """Add the versions of the assignments, unless the topic was just deleted."""
        row = self._metadata.state.topics.get(topic.row.topic_id)
        if row is None:
            return list(described)
        assignment = self._metadata.state.assignment
        return [
            each._replace(version=assignment(GroupName(row.topic_id, each.partition)).version) for each in described
        ]

    def _merge_row(self, partition: Partition, row: list[Any] | None) -> PartitionState:
        """Return the state of a partition from a reported row, with a problem if its data may be lost."""
        described = _partition_state(partition, row)
        if row is not None or not self._has_replaced_disk(partition):
            return described
        return described._replace(
            problem="no broker that answers has a replica of it, and disks that had one were replaced; "
            f"see `raftlog partition recover {partition.name}`"
        )

    def _has_replaced_disk(self, partition: Partition) -> bool:
        """Return whether a disk on which the partition was created was replaced."""
        state = self._metadata.state
        topic = state.topics.get(partition.topic_id)
        first = () if topic is None else topic.origin(partition.number).replicas
        return any(replica.disk_uuid in state.retired for replica in first)

    async def _ask_leaders(
        self, partitions: Sequence[Partition], deadline: Deadline
    ) -> tuple[dict[bytes, list[Any]], dict[bytes, int]]:
        """Return by group id the leader's row (or a follower's), and the ms for which no replica has known a leader."""
        nodes = sorted({replica.node_id for partition in partitions for replica in partition.assigned})
        answers = await asyncio.gather(
            *(self._ask_about(node, partitions, self._limit_deadline(node, deadline)) for node in nodes)
        )
        best: dict[bytes, list[Any]] = {}
        leaderless: dict[bytes, int] = {}
        damaged: dict[bytes, list[list[Any]]] = {}
        for node, rows in zip(nodes, answers, strict=True):
            for key, (*row, leaderless_ms, damage, size) in rows.items():
                leaderless[key] = min(leaderless_ms, leaderless.get(key, leaderless_ms))
                if key not in best or _rank(row) > _rank(best[key]):
                    best[key] = [*row, size]
                if damage is not None:
                    damaged.setdefault(key, []).append([node, damage])
        return {key: [*row, damaged.get(key, ())] for key, row in best.items()}, leaderless

    async def leaders(self, partitions: Sequence[Partition], deadline: Deadline) -> dict[bytes, list[Any]]:
        """Return leader, term and in-sync replicas (None: reported by a follower) of each partition, by group id."""
        rows, _ = await self._ask_leaders(partitions, deadline)
        return {key: row[:3] for key, row in rows.items()}

    def _limit_deadline(self, node: NodeId, deadline: Deadline) -> Deadline:
        """Return the deadline for a node's answer; an earlier one if gossip reports it as suspect, dead or left."""
        timeout_ms = DOUBTED_ASK_MS if self._gossip.is_doubtful(node) else ASK_MS
        return Deadline(min(deadline, deadline_in(timeout_ms)))

    async def _ask_about(
        self, node: NodeId, partitions: Sequence[Partition], deadline: Deadline
    ) -> dict[bytes, list[Any]]:
        """Return the rows that a node reports of its replicas of these partitions, by group id; fewer if it fails."""
        asked = [each for each in partitions if any(replica.node_id == node for replica in each.assigned)]
        rows: dict[bytes, list[Any]] = {}
        if node == self._me:
            for each, row in zip(asked, await self._local_rows(asked), strict=True):
                if row is not None:
                    rows[each.group_id.bytes] = row
            return rows
        for at in range(0, len(asked), _ASKED_AT_ONCE):
            some = asked[at : at + _ASKED_AT_ONCE]
            header = [each.group_id.bytes for each in some]
            try:
                answer = await self._node.ask(node, _DESCRIBE, header, (), deadline)
            except RaftlogError:
                return rows  # it counts as down
            for key, row in zip(header, answer.value, strict=True):
                if row is not None:
                    rows[key] = [*row[:11], *[None] * (11 - len(row))]  # others may have more or fewer
        return rows

    async def _local_rows(self, partitions: Sequence[Partition]) -> list[list[Any] | None]:
        """Return the rows of the replicas here; yield to the event loop between slices."""
        rows = []
        for number, partition in enumerate(partitions):
            rows.append(self._local_row(partition))
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
        return rows

    def _local_row(self, partition: Partition) -> list[Any] | None:
        """Return the row of `view.partitions` for the replica here; None if there is no replica."""
        replica = partition.replica
        if replica is None:
            return None
        own = replica.describe()
        in_sync = None if own.in_sync is None else list(own.in_sync)
        problem = own.problem or lost_majority(replica.group, self._metadata.state.retired, partition.name)
        rate_of = self._node.driver.supplier.rate_of
        behind = [[*lag, rate_of(replica.group, lag.node_id)] for lag in own.behind]
        damage = describe_damage(replica.group)
        bounds = (own.high_watermark, own.log_start_offset)
        leaderless_ms = int(self._node.leader_statistics.leaderless_s(replica.group) * 1000)
        row = [own.leader, own.term, in_sync, list(own.caught_up), *bounds, problem, behind]
        return [*row, leaderless_ms, damage, own.size_bytes]

    async def _serve_partitions(self, request: Request) -> Answer:
        """Answer another broker with the states of partitions here, None for an unknown one."""
        match request.header:
            case [*keys] if all(type(key) is bytes and len(key) == 16 for key in keys):
                wanted = dict.fromkeys(keys)
            case _:
                raise InvalidArgument(
                    f"the request {_DESCRIBE!r} cannot be decoded; check that the other broker runs a compatible "
                    "release"
                )
        partitions = [each for key in wanted if (each := self._find_partition(key)) is not None]
        rows = zip([each.group_id.bytes for each in partitions], await self._local_rows(partitions), strict=True)
        found = dict(rows)
        return Answer([found.get(key) for key in wanted])

    def _find_partition(self, key: bytes) -> Partition | None:
        """Return the partition with this group id; None if it is unknown here."""
        name = self._metadata.state.group(UUID(bytes=key))
        topic = None if name is None else self._topics.by_id(name.topic_id)
        found = [] if name is None or topic is None else topic.partitions[name.partition : name.partition + 1]
        return found[0] if found else None

    # brokers

    async def brokers(self, deadline: Deadline) -> list[BrokerDescription]:
        """Return all registered brokers with their state."""
        return (await self._collect_brokers(deadline))[0]

    async def _collect_brokers(self, deadline: Deadline) -> tuple[list[BrokerDescription], int, list[str]]:
        """Return all brokers, the number of pending reassignments that they lead, and their notes to operators."""
        rows = self._metadata.state.all_brokers()
        statuses = await self._statuses([row.node_id for row in rows], deadline)
        racks = self._gossip.racks()
        in_maintenance = self._metadata.state.in_maintenance()
        brokers = [
            describe_broker(row, row.node_id in in_maintenance, statuses[row.node_id], racks.get(row.node_id))
            for row in rows
        ]
        alive = {node: status for node, status in statuses.items() if status is not None}
        # Earlier releases report no notes.
        notes = [f"node {node}: {note}" for node, status in alive.items() for note in status.get("notes", ())]
        return brokers, sum(status["moving"] for status in alive.values()), notes

    async def _statuses(self, nodes: Sequence[NodeId], deadline: Deadline) -> dict[NodeId, dict[str, Any] | None]:
        """Return the status of each node; None for one that does not answer in time."""
        answers = await asyncio.gather(*(self._status_of(node, self._limit_deadline(node, deadline)) for node in nodes))
        return dict(zip(nodes, answers, strict=True))

    async def _status_of(self, node: NodeId, deadline: Deadline) -> dict[str, Any] | None:
        """Return the status of a node; None if it does not answer in time."""
        try:
            status: dict[str, Any] = (await self._node.ask(node, _STATUS, None, (), deadline)).value
        except RaftlogError:
            return None
        return status

    def _status(self) -> dict[str, Any]:
        """Return release, disk space, problems, notes and pending moves of this broker for `view.broker`."""
        problems = [*self._node.fitness_exchange.problems(), *problems_of(self._node.driver.groups.values())]
        problem = self._metadata.freshness().problem
        if problem:
            problems.append(problem)
        problems += self._listeners.problems()
        stuck = self._moves.stuck_reasons()
        if stuck:
            problems.append(f"{len(stuck)} reassignments of partitions that it leads are stuck: {'; '.join(stuck[:3])}")
        return {
            "version": raftlog.__version__,
            "disk": asdict(self._disk()),
            "is_working": self._node.is_working,
            "problem": "; ".join(problems) or None,
            "notes": self._listeners.notes(),
            "moving": self._moves.moving_count,
            "uptime_s": round(asyncio.get_running_loop().time() - self._began_at, 3),
        }

    async def _serve_status(self, request: Request) -> Answer:
        return Answer(self._status())

    async def health(self, deadline: Deadline) -> ClusterHealth:
        """Return the problems of the cluster with their reasons."""
        brokers, moving, notes = await self._collect_brokers(deadline)
        kafka_note = kafka_listener_warning(self._metadata.state.all_brokers())
        found = await self._find_unhealthy(deadline)
        leaderless, under_replicated = found.leaderless, found.under_replicated
        down = [broker.node_id for broker in brokers if not broker.is_alive]
        in_maintenance = [broker.node_id for broker in brokers if broker.in_maintenance]
        draining = [broker.node_id for broker in brokers if broker.is_draining]
        freshness = self._metadata.freshness()
        reasons = [f"node {node} does not answer" for node in down]
        reasons += [
            f"node {broker.node_id}: {broker.problem}" for broker in brokers if broker.is_alive and broker.problem
        ]
        if freshness.leader is None and self._is_controller_leaderless():
            reasons.append("the controller has no leader: topics cannot be created or changed now")
        unfinished = self._metadata.degraded_reason()
        if unfinished is not None:
            reasons.append(unfinished)
        if leaderless:
            reasons.append(f"{len(leaderless)} partitions have no leader and cannot be written: {_shorten(leaderless)}")
        if under_replicated:
            reasons.append(f"{len(under_replicated)} partitions lack replicas in sync: {_shorten(under_replicated)}")
        reasons += self._decommission_problems(draining)
        reasons += _describe_lag(found.behind)
        reasons += found.problems[:HEALTH_NAMES_MAX]
        return ClusterHealth(
            not reasons,
            reasons,
            leader_number(freshness.leader),
            [broker.node_id for broker in brokers],
            down,
            leaderless[:HEALTH_NAMES_MAX],
            len(leaderless),
            under_replicated[:HEALTH_NAMES_MAX],
            len(under_replicated),
            in_maintenance,
            draining,
            moving,
            found.lagging[:HEALTH_NAMES_MAX],
            len(found.lagging),
            found.electing[:HEALTH_NAMES_MAX],
            len(found.electing),
            [*notes, *([] if kafka_note is None else [kafka_note])],
        )

    async def _find_unhealthy(self, deadline: Deadline) -> UnhealthyPartitions:
        """Return the partitions with problems; yield to the event loop between slices."""
        partitions = [(topic, partition) for topic in self._topics for partition in topic.partitions]
        rows, leaderless_ms = await self._ask_leaders([partition for _, partition in partitions], deadline)
        found = UnhealthyPartitions()
        for number, (topic, partition) in enumerate(partitions):
            key = partition.group_id.bytes
            described = self._merge_row(partition, rows.get(key))
            found.add(partition, described, partial(self._is_leaderless, topic, partition, leaderless_ms.get(key)))
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
        return found

    def _is_controller_leaderless(self) -> bool:
        """Return whether the controller has had no leader known here for too long."""
        group_id = self._metadata.group_id
        group = None if group_id is None else self._node.find_replica(group_id)
        return group is None or self._node.leader_statistics.leaderless_s(group) > LEADERLESS_S

    def _is_leaderless(self, topic: Topic, partition: Partition, leaderless_ms: int | None) -> bool:
        """Return whether a partition has had no leader for more than `LEADERLESS_S`.

        `leaderless_ms` is None if no replica answers; then the age of the partition decides, because the replicas of a
        new one may not exist yet."""
        if leaderless_ms is None:
            age_ms = self._node.environment.wall_ms() - topic.row.origin(partition.number).created_ms
            leaderless_ms = age_ms if age_ms >= 0 else None
        return leaderless_ms is None or leaderless_ms > LEADERLESS_S * 1000

    def _decommission_problems(self, draining: Iterable[int]) -> list[str]:
        """Return the reasons why draining brokers cannot be emptied: no other broker can get their replicas."""
        state = self._metadata.state
        rows = [row for node in draining if (row := state.brokers.get(node)) is not None]
        summaries = [(row.node_id, allocation_failures(state, state.groups_of(row.replica)).summary) for row in rows]
        return [f"node {node} cannot be emptied: {summary}" for node, summary in summaries if summary is not None]


def _rank(row: list[Any]) -> tuple[bool, int]:
    """Return a sort key for reports of a partition: leaders above followers, later terms above earlier ones."""
    _, term, in_sync, *_ = row
    return (in_sync is not None, term)


def _partition_state(partition: Partition, row: list[Any] | None, *, is_local: bool = False) -> PartitionState:
    """Convert a row (None: no answer) to a partition's state; a follower's leader is used only with `is_local`."""
    replicas = [replica.node_id for replica in partition.assigned]
    if row is None:
        return PartitionState(partition.number, None, replicas, (), None)
    leader, term, in_sync, caught_up, high_watermark, log_start, problem, lags, size, damaged = row
    if in_sync is None:
        hint = leader if is_local else None
        return PartitionState(partition.number, hint, replicas, (), problem, damaged=dict(damaged))
    behind = [row_of(ReplicaLag, lag) for lag in lags]
    return PartitionState(
        partition.number,
        leader,
        replicas,
        in_sync,
        problem,
        term,
        high_watermark,
        log_start,
        behind,
        dict(damaged),
        caught_up=caught_up,
        size_bytes=size,
    )


def _describe_lag(behind: Iterable[ReplicaLag]) -> list[str]:
    """Return a line for each node that catches up."""
    by_node: dict[int, list[ReplicaLag]] = {}
    for lag in behind:
        if lag.bytes_per_s:
            by_node.setdefault(lag.node_id, []).append(lag)
    return [
        f"node {node} catches up: {sum(lag.bytes for lag in lags) / 1e6:,.0f} MB are missing in {len(lags)} "
        f"partitions, {sum(lag.bytes_per_s for lag in lags) / 1e6:,.1f} MB/s"
        for node, lags in sorted(by_node.items())
    ]


def _shorten(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")


def _topic_state(topic: Topic, partitions: Iterable[PartitionState]) -> TopicState:
    """Return the description of a topic with the states of its partitions."""
    return _make_topic_state(topic.row.creation, topic.config, topic.overrides, partitions)


def _make_topic_state(
    creation: CreateTopic, config: TopicConfig, overrides: Mapping[str, str], partitions: Iterable[PartitionState]
) -> TopicState:
    """Return the description of a topic with the states of its partitions."""
    return TopicState(
        creation.name,
        str(creation.topic_id),
        creation.replication_factor,
        config.as_strings(),
        overrides,
        creation.created_ms,
        creation.is_internal,
        list(partitions),
    )
