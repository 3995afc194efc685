"""Placement of leaders: groups move to fit preferred leaders, and away from a process that stops.

    moving ≤ transfers_max,   pause of a group after n further failed transfers: transfer_retry_ms · 2^n

A process whose disk or loop stalled, whose disk is full, or that operators have excluded, transfers all leaderships to
fit processes; a leader with a full disk keeps its group while a majority of the voters' disks is full, since no other
voter could lead better.

Only leaders act, each for its own groups: no process commands another. A callback returns the preferred leader. A
transfer stops the group's writes for a moment, so it begins only when it should succeed: the preferred voter has been
connected for `settle_ms`, is not about to stop, and holds nearly everything. A target that does not take over (for
example because its entry is damaged) costs an election timeout, and the group's next transfer waits. Called by the
node: with every change of a role, and by its timer."""

import asyncio
import logging
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from raftlog.errors import RaftlogError
from raftlog.events import event
from raftlog.partitions.node.fitness import Fitness
from raftlog.partitions.node.settings import NodeSettings
from raftlog.raft import ReplicaId, Role
from raftlog.raft.ready import FollowerStatus
from raftlog.runtime.journal.operations import GroupKey
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.types import NodeId

_logger = logging.getLogger(__name__)

_DOUBLINGS_MAX = 6
_EVIDENCE_S = 3.0
"""Seconds for which a stall of the disk here, and a faster disk elsewhere, count as current."""
_SLICE = 64
"""Groups examined in one turn of the loop."""
_STOP_TRANSFERS_MAX = 256
"""Concurrent transfers while the process stops."""

Preferred = Callable[[uuid.UUID], ReplicaId | None]
"""Function that returns the preferred leader of a group; None if it is unknown."""


class _Move(NamedTuple):
    """Leadership transfer that was begun here."""

    target: ReplicaId
    until: float
    """Time by which the core has abandoned the transfer."""


class _Pause(NamedTuple):
    """Time until the next transfer of a group, after failed ones."""

    failures: int
    until: float


class RemainingLeaderships(NamedTuple):
    """Leaderships that a process still has to transfer.

    `eligible` counts groups with another voter that could lead now. `stuck` names groups that have other voters, but
    none that could lead now. A group with one voter is in neither."""

    led: int
    eligible: int
    transferring: int
    failed: int
    stuck: list[uuid.UUID]


class LedGroups:
    """Raft groups that this process leads, and the transfers of their leaderships. Times are of the loop's clock."""

    def __init__(self, me: ReplicaId, settings: NodeSettings, fitness: Fitness) -> None:
        """Begin without led groups."""
        raft = settings.driver.raft
        self.preferred: Preferred = lambda group_id: None
        """First voter of the group's assignment that may lead; set by the façade."""
        self.balances_leaders: Callable[[], bool] = lambda: True
        """Whether groups return to their preferred leaders while this process is fit; set by the façade."""
        self.me = me
        self._settings, self._fitness = settings, fitness
        self.transfer_timeout_s = (raft.election_ticks_min + 2) * settings.driver.tick_ms / 1000
        """Seconds after which the core has abandoned a transfer."""
        self._led: dict[GroupKey, PartitionReplica] = {}
        self._moving: dict[GroupKey, _Move] = {}
        self._paused: dict[GroupKey, _Pause] = {}
        self._connected_at: dict[NodeId, float] = {}
        self._draining: dict[NodeId, None] = {}
        """Nodes that have announced their stop."""
        self.transfers_begun = self.transfers_failed = 0
        """Totals since the start of the process; a failed transfer was not completed in time."""
        self._disk_stalled_at = -_EVIDENCE_S
        self._ahead_at: dict[NodeId, float] = {}
        """Time at which a disk was last seen to be faster than the stalled one here."""
        self._moved = asyncio.Event()
        """Event set when this process has lost a leadership."""
        self._are_full = False
        """Whether there is a group led here in which no majority of the voters has room on the disk."""

    @property
    def led_count(self) -> int:
        """Number of groups that this process leads."""
        return len(self._led)

    # events

    def record_role(self, group: PartitionReplica, role: Role) -> None:
        """Record the new role of a group's replica here."""
        group.is_majority_full = False  # `count_room` decides again with the next tick
        if role is Role.LEADER:
            self._led[group.key] = group
        elif self._led.pop(group.key, None) is not None:
            self._moved.set()

    def is_transferring(self, key: GroupKey) -> bool:
        """Return whether a leadership transfer of the group is under way."""
        return key in self._moving

    def forget(self, key: GroupKey) -> None:
        """Remove the data of a group that this process no longer has."""
        for table in (self._led, self._moving, self._paused):
            table.pop(key, None)

    def record_connected(self, node: NodeId, now: float) -> None:
        """Record a new connection to the node, which may have restarted."""
        self._connected_at[node] = now
        self._draining.pop(node, None)
        self._fitness.forget(node)

    def record_disconnected(self, node: NodeId) -> None:
        """Record that the connection to the node was lost."""
        self._connected_at.pop(node, None)

    def is_connected(self, node: NodeId) -> bool:
        """Return whether the node is connected."""
        return node in self._connected_at

    def mark_draining(self, node: NodeId) -> None:
        """Record that the node is draining: no leadership is transferred to it until it reconnects."""
        self._draining[node] = None

    def record_disk_stall(self, now: float) -> None:
        """Record a slow sync here. A follower that has synced more entries than this disk counts as faster."""
        self._disk_stalled_at = now
        for group in self._led.values():
            status = group.core.status()
            for each in status.followers:
                if each.match_index > status.durable_index:
                    self._ahead_at[each.member.node_id] = now

    # better leaders

    def tick(self, now: float) -> None:
        """Begin the transfers that are due."""
        self.count_room(now)
        self._check_transfers(now)
        is_fit = self._fitness.is_fit(self.me.node_id, now)
        moving_max = self._settings.transfers_max if is_fit else _STOP_TRANSFERS_MAX
        for group in list(self._led.values()):
            if len(self._moving) >= moving_max:
                return
            target = self._due_target(group, now) if is_fit else self._fallback_target(group, now)
            if target is not None:
                self._begin_transfer(group, target, now)

    def count_room(self, now: float) -> None:
        """Set `is_majority_full` of each group led here: no majority of its voters has room on the disk."""
        if not self._fitness.is_any_full(now) and not self._are_full:
            return
        self._are_full = False
        for group in self._led.values():
            voters = group.core.configuration.voters
            full = sum(self._fitness.is_full(voter.node_id, now) for voter in voters)
            group.is_majority_full = len(voters) - full < len(voters) // 2 + 1
            self._are_full |= group.is_majority_full

    def _fallback_target(self, group: PartitionReplica, now: float) -> ReplicaId | None:
        """Return a voter that is fitter to lead than this process; None if there is none now."""
        pause = self._paused.get(group.key)
        if group.key in self._moving or group.is_majority_full or (pause is not None and now < pause.until):
            return None
        if now < self._disk_stalled_at + _EVIDENCE_S and not self._is_majority_faster(group, now):
            return None
        target = self._find_target(group, now)
        return target if target is not None and self._fitness.is_fit(target.node_id, now) else None

    def _is_majority_faster(self, group: PartitionReplica, now: float) -> bool:
        """Return whether a majority of fit voters has faster disks.

        Otherwise no other leader would commit sooner, and an election, whose votes are synced, might not end."""
        voters = group.core.configuration.voters
        faster = sum(
            now < self._ahead_at.get(voter.node_id, -_EVIDENCE_S) + _EVIDENCE_S
            and self._fitness.is_fit(voter.node_id, now)
            for voter in voters
        )
        return faster >= len(voters) // 2 + 1

    def _check_transfers(self, now: float) -> None:
        """Record completed and failed transfers; the next transfer of a group waits after a failure."""
        for key, move in list(self._moving.items()):
            if key not in self._led:
                del self._moving[key]
                self._paused.pop(key, None)
            elif now >= move.until:
                del self._moving[key]
                self._record_failure(key, move.target, now)
                if now < self._disk_stalled_at + _EVIDENCE_S:
                    self._led[key].step_down("its disk is stalled")

    def _record_failure(self, key: GroupKey, target: ReplicaId, now: float) -> None:
        """Record a failed transfer; the group's next one waits twice as long."""
        self.transfers_failed += 1
        pause = self._paused.get(key)
        failures = min(pause.failures + 1, _DOUBLINGS_MAX) if pause else 0
        pause_s = self._settings.transfer_retry_ms / 1000 * 2**failures
        self._paused[key] = _Pause(failures, now + pause_s)
        name = self._led[key].name
        event(_logger, "transfer_failed", group=name, target=target.node_id, pause_s=pause_s)

    def _due_target(self, group: PartitionReplica, now: float) -> ReplicaId | None:
        """Return the replica to which the group is to be transferred now; None without one."""
        if group.key in self._moving or not self.balances_leaders():
            return None
        target = self.preferred(group.group_id)
        if target is None or target == self.me or not self._is_settled(target.node_id, now):
            return None
        if not self._fitness.is_fit(target.node_id, now):
            return None
        pause = self._paused.get(group.key)
        if pause is not None and now < pause.until:
            return None
        followers = group.core.status().followers
        return target if any(each.member == target and self._is_near(group, each) for each in followers) else None

    def _is_settled(self, node: NodeId, now: float) -> bool:
        """Return whether a node has been connected for `settle_ms` and is not draining."""
        connected_at = self._connected_at.get(node)
        return (
            connected_at is not None
            and node not in self._draining
            and now - connected_at >= self._settings.settle_ms / 1000
        )

    def _is_near(self, group: PartitionReplica, follower: FollowerStatus) -> bool:
        """Return whether the follower has nearly all entries; in a quiesced group its last answer may be old."""
        core = group.core
        is_there = follower.is_active or core.is_quiesced
        lag = core.last_id.index - follower.match_index
        return (
            is_there
            and core.configuration.has_voter(follower.member)
            and (lag <= self._settings.transfer_lag_entries_max)
        )

    def _begin_transfer(self, group: PartitionReplica, target: ReplicaId, now: float) -> None:
        """Begin a leadership transfer; a refusal is logged and retried later."""
        try:
            group.transfer_leadership(target)
        except RaftlogError as refusal:
            _logger.debug("%s is not handed to node %s now: %s", group.path, target.node_id, refusal)
            return
        self.transfers_begun += 1
        self._moving[group.key] = _Move(target, now + self.transfer_timeout_s)

    async def remaining_leaderships(self) -> "RemainingLeaderships":
        """Return the leaderships that this process still has, by their prospects of transfer."""
        led = len(self._led)
        shared = self._groups_with_other_voters()
        stuck = []
        for number, group in enumerate(shared, 1):
            if group.key not in self._moving and self.find_fit_target(group) is None:
                stuck.append(group.group_id)
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        failed = sum(group.key in self._paused for group in shared)
        return RemainingLeaderships(led, len(shared) - len(stuck), len(self._moving), failed, stuck)

    def find_fit_target(self, group: PartitionReplica) -> ReplicaId | None:
        """Return a fit replica that could lead the group now instead of this process; None without one."""
        now = asyncio.get_running_loop().time()
        target = self._find_target(group, now)
        return target if target is not None and self._fitness.is_fit(target.node_id, now) else None

    # stop

    async def hand_over_all(self, seconds: float) -> int:
        """Transfer all leaderships within `seconds`; return the number of groups still led that have other voters.

        Ends early when all connected nodes are draining."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while (
            (now := loop.time()) < until
            and self._groups_with_other_voters()
            and self._connected_at.keys() - self._draining.keys()
        ):
            self._check_transfers(now)
            for group in self._groups_with_other_voters():
                if len(self._moving) >= _STOP_TRANSFERS_MAX:
                    break
                target = self._find_target(group, now) if group.key not in self._moving else None
                if target is not None:
                    self._begin_transfer(group, target, now)
            self._moved.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(self.transfer_timeout_s / 4, until - now)):
                    await self._moved.wait()
        return len(self._groups_with_other_voters())

    def _groups_with_other_voters(self) -> list[PartitionReplica]:
        """Return the groups led here that have other voters."""
        return [group for group in self._led.values() if len(group.core.configuration.all_voters()) > 1]

    def _find_target(self, group: PartitionReplica, now: float) -> ReplicaId | None:
        """Return the voter that should lead the group next; None without one.

        It is connected, not draining, and has nearly all entries. Fit voters come first, then the preferred leader,
        then the voter with the most entries."""
        candidates = [
            each
            for each in group.core.status().followers
            if each.member.node_id in self._connected_at
            and each.member.node_id not in self._draining
            and self._is_near(group, each)
        ]
        preferred = self.preferred(group.group_id)
        best = max(
            candidates,
            key=lambda each: (
                self._fitness.is_fit(each.member.node_id, now),
                each.member == preferred,
                each.match_index,
            ),
            default=None,
        )
        return best.member if best is not None else None
