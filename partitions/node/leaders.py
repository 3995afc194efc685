"""Where groups are led: by their preferred leaders, while these are well; by others, when this process stops.

    moving ≤ transfers_max,   a group that could not be moved rests: transfer_retry_ms · 2^n

A process whose disk or loop stood still, whose disk is full, or that operators want to lead nothing, hands everything
to others that are fit; a leader with a full disk keeps its group while a majority of the voters' disks is full, for
then nobody could lead better.

Only leaders act, each for its own groups: no process tells another one what to lead. Who is preferred is handed in. A
hand-over stops the group's writes for a moment, so it is begun only when it should succeed: the preferred voter is
connected since `settle_ms`, is not about to stop, and holds nearly everything. One that then does not take over (its
entry is damaged, say) costs an election timeout, and the group is left alone for a while. Called by the node: with
every change of a role, and by its timer.
"""

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
"""For so long a stall of the disk here, and a faster one elsewhere, are taken for what still is."""
_SLICE = 64
"""Groups judged in one turn of the loop."""
_STOP_TRANSFERS_MAX = 256
"""Hand-overs at the same time when the process stops."""

Preferred = Callable[[uuid.UUID], ReplicaId | None]
"""Who should lead a group, if anybody knows."""


class _Move(NamedTuple):
    target: ReplicaId
    until: float
    """The core has given up by then."""


class _Rest(NamedTuple):
    failures: int
    until: float


class HandingOver(NamedTuple):
    """What a process leads still. `eligible` groups have a voter that could lead them now, `stuck` ones have other
    voters and none of these can; a group with one voter is neither."""

    led: int
    eligible: int
    transferring: int
    failed: int
    stuck: list[uuid.UUID]


class LedGroups:
    """The groups that are led here. Times are the loop's."""

    def __init__(self, me: ReplicaId, settings: NodeSettings, fitness: Fitness) -> None:
        raft = settings.driver.raft
        self.preferred: Preferred = lambda group_id: None
        """Set by the façade: the first voter of the group's assignment that is to lead anything."""
        self.gives_back: Callable[[], bool] = lambda: True
        """Set by the façade: whether groups go to their preferred leaders while this process is fit."""
        self.me = me
        self._settings, self._fitness = settings, fitness
        self.patience_s = (raft.election_ticks_min + 2) * settings.driver.tick_ms / 1000
        """A transfer that has not happened by then was given up by the core."""
        self._led: dict[GroupKey, PartitionReplica] = {}
        self._moving: dict[GroupKey, _Move] = {}
        self._resting: dict[GroupKey, _Rest] = {}
        self._connected_at: dict[NodeId, float] = {}
        self._leaving: dict[NodeId, None] = {}
        """Nodes that said that they stop."""
        self.transfers_begun = self.transfers_failed = 0
        """Since the start of the process; a failed one was not taken over in time."""
        self._disk_stalled_at = -_EVIDENCE_S
        self._ahead_at: dict[NodeId, float] = {}
        """When a disk was last seen to be faster than the one here, which stood still."""
        self._moved = asyncio.Event()
        self._are_full = False
        """Some group led here was told that a majority has no room."""

    @property
    def led_count(self) -> int:
        return len(self._led)

    # what happens

    def note_role(self, group: PartitionReplica, role: Role) -> None:
        """The group's role here changed."""
        group.is_majority_full = False  # looked at again with the next tick, if it is led here
        if role is Role.LEADER:
            self._led[group.key] = group
        elif self._led.pop(group.key, None) is not None:
            self._moved.set()

    def is_moving(self, key: GroupKey) -> bool:
        """Whether a hand-over of the group was begun, and has no outcome yet."""
        return key in self._moving

    def forget(self, key: GroupKey) -> None:
        """The group is gone."""
        for table in (self._led, self._moving, self._resting):
            table.pop(key, None)

    def note_connected(self, node: NodeId, now: float) -> None:
        """The node is there, in a new life perhaps."""
        self._connected_at[node] = now
        self._leaving.pop(node, None)
        self._fitness.forget(node)

    def note_gone(self, node: NodeId) -> None:
        self._connected_at.pop(node, None)

    def is_connected(self, node: NodeId) -> bool:
        return node in self._connected_at

    def note_leaving(self, node: NodeId) -> None:
        """The node stops: nothing is given to it until it comes back."""
        self._leaving[node] = None

    def note_disk_stall(self, now: float) -> None:
        """A sync takes long here: those count as better whose disks have taken meanwhile what this one has not."""
        self._disk_stalled_at = now
        for group in self._led.values():
            status = group.core.status()
            for each in status.followers:
                if each.match_index > status.durable_index:
                    self._ahead_at[each.member.node_id] = now

    # who leads better

    def tick(self, now: float) -> None:
        """Begin to hand over what others should lead."""
        self.count_room(now)
        self._look_after_moves(now)
        is_fit = self._fitness.is_fit(self.me.node_id, now)
        moving_max = self._settings.transfers_max if is_fit else _STOP_TRANSFERS_MAX
        for group in list(self._led.values()):
            if len(self._moving) >= moving_max:
                return
            target = self._due_target(group, now) if is_fit else self._refuge(group, now)
            if target is not None:
                self._begin(group, target, now)

    def count_room(self, now: float) -> None:
        """Let every leader know whether what it appends can be committed."""
        if not self._fitness.is_anybody_full(now) and not self._are_full:
            return
        self._are_full = False
        for group in self._led.values():
            voters = group.core.configuration.voters
            full = sum(self._fitness.is_full(voter.node_id, now) for voter in voters)
            group.is_majority_full = len(voters) - full < len(voters) // 2 + 1
            self._are_full |= group.is_majority_full

    def _refuge(self, group: PartitionReplica, now: float) -> ReplicaId | None:
        """Who leads better than this process, which is not fit; None: nobody, or not now."""
        rest = self._resting.get(group.key)
        if group.key in self._moving or group.is_majority_full or (rest is not None and now < rest.until):
            return None
        if now < self._disk_stalled_at + _EVIDENCE_S and not self._is_majority_faster(group, now):
            return None
        heir = self._heir(group, now)
        return heir if heir is not None and self._fitness.is_fit(heir.node_id, now) else None

    def _is_majority_faster(self, group: PartitionReplica, now: float) -> bool:
        """Without one nobody would commit sooner, and an election, whose votes are synced, might not end at all."""
        voters = group.core.configuration.voters
        faster = sum(
            now < self._ahead_at.get(voter.node_id, -_EVIDENCE_S) + _EVIDENCE_S
            and self._fitness.is_fit(voter.node_id, now)
            for voter in voters
        )
        return faster >= len(voters) // 2 + 1

    def _look_after_moves(self, now: float) -> None:
        for key, move in list(self._moving.items()):
            if key not in self._led:
                del self._moving[key]
                self._resting.pop(key, None)
            elif now >= move.until:
                del self._moving[key]
                self._rest(key, move.target, now)
                if now < self._disk_stalled_at + _EVIDENCE_S:
                    self._led[key].step_down("its disk stands still")

    def _rest(self, key: GroupKey, target: ReplicaId, now: float) -> None:
        self.transfers_failed += 1
        rest = self._resting.get(key)
        failures = min(rest.failures + 1, _DOUBLINGS_MAX) if rest else 0
        pause_s = self._settings.transfer_retry_ms / 1000 * 2**failures
        self._resting[key] = _Rest(failures, now + pause_s)
        name = self._led[key].name
        event(_logger, "transfer_failed", group=name, target=target.node_id, pause_s=pause_s)

    def _due_target(self, group: PartitionReplica, now: float) -> ReplicaId | None:
        """To whom the group should go now."""
        if group.key in self._moving or not self.gives_back():
            return None
        target = self.preferred(group.group_id)
        if target is None or target == self.me or not self._is_settled(target.node_id, now):
            return None
        if not self._fitness.is_fit(target.node_id, now):
            return None
        rest = self._resting.get(group.key)
        if rest is not None and now < rest.until:
            return None
        followers = group.core.status().followers
        return target if any(each.member == target and self._is_near(group, each) for each in followers) else None

    def _is_settled(self, node: NodeId, now: float) -> bool:
        connected_at = self._connected_at.get(node)
        return (
            connected_at is not None
            and node not in self._leaving
            and now - connected_at >= self._settings.settle_ms / 1000
        )

    def _is_near(self, group: PartitionReplica, follower: FollowerStatus) -> bool:
        """Whether it holds nearly everything. In a sleeping group nobody was expected to answer lately."""
        core = group.core
        is_there = follower.is_active or core.is_quiesced
        lag = core.last_id.index - follower.match_index
        return (
            is_there
            and core.configuration.has_voter(follower.member)
            and (lag <= self._settings.transfer_lag_entries_max)
        )

    def _begin(self, group: PartitionReplica, target: ReplicaId, now: float) -> None:
        try:
            group.transfer_leadership(target)
        except RaftlogError as refusal:
            _logger.debug("%s is not handed to node %s now: %s", group.path, target.node_id, refusal)
            return
        self.transfers_begun += 1
        self._moving[group.key] = _Move(target, now + self.patience_s)

    async def handing_over(self) -> "HandingOver":
        """How far this process is with leading nothing."""
        led = len(self._led)
        shared = self._shared()
        stuck = []
        for number, group in enumerate(shared, 1):
            if group.key not in self._moving and self.best_heir(group) is None:
                stuck.append(group.group_id)
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        failed = sum(group.key in self._resting for group in shared)
        return HandingOver(led, len(shared) - len(stuck), len(self._moving), failed, stuck)

    def best_heir(self, group: PartitionReplica) -> ReplicaId | None:
        """Who could lead a group that is led here instead of this process, now and as well."""
        now = asyncio.get_running_loop().time()
        heir = self._heir(group, now)
        return heir if heir is not None and self._fitness.is_fit(heir.node_id, now) else None

    # the end

    async def hand_over_all(self, seconds: float) -> int:
        """Give away what others can lead, within `seconds`; how many groups with other voters are still led here.

        Ends early when nobody is there who stays.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while (now := loop.time()) < until and self._shared() and self._connected_at.keys() - self._leaving.keys():
            self._look_after_moves(now)
            for group in self._shared():
                if len(self._moving) >= _STOP_TRANSFERS_MAX:
                    break
                heir = self._heir(group, now) if group.key not in self._moving else None
                if heir is not None:
                    self._begin(group, heir, now)
            self._moved.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(self.patience_s / 4, until - now)):
                    await self._moved.wait()
        return len(self._shared())

    def _shared(self) -> list[PartitionReplica]:
        """Groups led here that others could lead."""
        return [group for group in self._led.values() if len(group.core.configuration.all_voters()) > 1]

    def _heir(self, group: PartitionReplica, now: float) -> ReplicaId | None:
        """One that is fit, the preferred leader among them, or whoever holds most."""
        heirs = [
            each
            for each in group.core.status().followers
            if each.member.node_id in self._connected_at
            and each.member.node_id not in self._leaving
            and self._is_near(group, each)
        ]
        preferred = self.preferred(group.group_id)
        best = max(
            heirs,
            key=lambda each: (
                self._fitness.is_fit(each.member.node_id, now),
                each.member == preferred,
                each.match_index,
            ),
            default=None,
        )
        return best.member if best is not None else None
