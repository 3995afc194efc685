"""Figures of a broker for metrics: computed when metrics are read, and not stored.

Thousands of Raft groups are read in slices, so the figures come from several turns of the loop. Counters of events
(`counters`, histograms, traffic) are read where they are counted. Made by the broker."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from raftlog.partitions.budget import Budget
from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.counters import Counters
from raftlog.partitions.gossip.service import Gossip
from raftlog.partitions.node import Node
from raftlog.partitions.placement.moves import Moves
from raftlog.partitions.replica import Replica
from raftlog.partitions.replica.description import voters_in_sync
from raftlog.partitions.routing.router import PartitionRouter
from raftlog.raft import Role
from raftlog.raft.ready import Status
from raftlog.runtime.journal.operations import GroupKey
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.types import NodeId
from raftlog.values.brokers import DiskSpace

_SLICE: Final = 64
"""Raft groups read in one turn of the loop: about a millisecond."""


class ReplicaFigures(NamedTuple):
    """Values for the metrics of one replica on this broker; `log_bytes` is the size of its segments."""

    topic: str
    partition: int
    high_watermark: int
    log_start_offset: int
    log_bytes: int
    is_led: bool
    lags: tuple[tuple[NodeId, int], ...]
    """Missing log entries of each other replica, as known to the leader; empty on followers."""


@dataclass(slots=True)
class Figures:
    """Values for the metrics of all Raft groups on this broker.

    `replicas` are those of topics, without the controller's, in order."""

    replicas: list[ReplicaFigures] = field(default_factory=list)
    led: int = 0
    leaderless: int = 0
    asleep: int = 0
    """Quiesced Raft groups."""
    quarantined: int = 0
    unavailable: int = 0
    """Replicas of partitions that are damaged or stopped."""
    under_replicated: int = 0
    """Raft groups led here with a voter that is not in sync."""
    moving: int = 0
    """Raft groups led here with a pending reassignment."""
    waiting_fetches: int = 0
    forwarded: int = 0
    """Requests that were forwarded to leaders on other brokers since the start of the process."""
    forwarding: int = 0
    """Forwarded requests that have no answer yet."""
    pending_bytes: int = 0
    """Bytes used of the budget of all producers."""


class MetricSources:
    """Components of a broker from which the metrics are read.

    `replicas` are those of topics on this broker, `budget` is that of all producers. The public attributes are
    components that count events."""

    def __init__(
        self,
        node: Node,
        router: PartitionRouter,
        moves: Moves,
        replicas: Mapping[GroupKey, Replica],
        budget: Budget,
        lag_ticks_max: int,
        metadata: ControllerHost,
        gossip: Gossip,
        counters: Counters,
    ) -> None:
        """Collect the sources; `replicas` has this broker's replicas by Raft group."""
        self.driver, self.transport, self.replica = node.driver, node.transport, node.identity.replica
        self.leader_statistics, self.leaders, self.stalls = (
            node.leader_statistics,
            node.leaders,
            node.fitness_exchange.stalls,
        )
        self.metadata, self.gossip, self.counters = metadata, gossip, counters
        self._lag_ticks_max = lag_ticks_max
        self._router, self._moves, self._replicas, self._budget = router, moves, replicas, budget

    def disk_space(self) -> DiskSpace:
        """Return the space on the data directory's file system; −1 for numbers that cannot be read."""
        disk, path, room = self.driver.disk, self.driver.data_dir, self.driver.room
        try:
            free, total = disk.free_bytes(path), disk.total_bytes(path)
        except OSError:
            free = total = -1
        return DiskSpace(path, free, total, room.min_free_bytes, room.trend.shrinking_bytes_per_s())

    async def read_figures(self) -> Figures:
        """Return the figures of all Raft groups; yield to the event loop between slices."""
        figures = Figures()
        groups = list(self.driver.groups.values())
        for number, group in enumerate(groups, 1):
            core, replica = group.core, self._replicas.get(group.key)
            status = core.status() if core.role is Role.LEADER else None
            if status is not None:
                figures.led += 1
                figures.under_replicated += not _has_all_voters_in_sync(status, self._lag_ticks_max)
            figures.leaderless += core.leader is None
            figures.asleep += core.is_quiesced
            figures.quarantined += group.damage is not None
            if replica is not None:
                figures.unavailable += group.damage is not None or group.is_closed or group.stopped is not None
                figures.waiting_fetches += replica.waiting_count
                figures.replicas.append(_replica_figures(group, replica.name, status))
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        figures.replicas.sort()
        figures.moving, figures.pending_bytes = self._moves.moving_count, self._budget.used
        figures.forwarded, figures.forwarding = self._router.forwarded, self._router.forwarding
        return figures


def _has_all_voters_in_sync(status: Status, lag_ticks_max: int) -> bool:
    """Return whether every voter is in sync."""
    in_sync = voters_in_sync(status, lag_ticks_max)
    return all(voter in in_sync for voter in status.configuration.voters)


def _replica_figures(group: PartitionReplica, name: str, status: Status | None) -> ReplicaFigures:
    """Return the figures of a replica; `status` is that of a leader, None for others."""
    topic, _, number = name.rpartition("/")
    last = group.log.last_index
    lags = (
        () if status is None else tuple(_lag(last, each.member.node_id, each.match_index) for each in status.followers)
    )
    return ReplicaFigures(
        topic,
        int(number),
        group.high_watermark,
        group.log_start_offset,
        group.log.segments.size_bytes,
        status is not None,
        lags,
    )


def _lag(last: int, node: NodeId, match: int) -> tuple[NodeId, int]:
    """Return a follower's node, and the number of entries that it lacks: `last - match`, at least 0."""
    return node, max(0, last - match)
