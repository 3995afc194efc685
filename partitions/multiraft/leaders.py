"""Where groups are led: by their preferred leaders, while these are well; by others, when this process stops.

    moving ≤ transfers_max,   a group that could not be moved rests: transfer_retry_ms · 2^n

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
from typing import NamedTuple

from raftlog.errors import RaftlogError
from raftlog.partitions.multiraft.settings import NodeSettings
from raftlog.raft import ReplicaId, Role
from raftlog.raft.ready import FollowerStatus
from raftlog.runtime.group import Group
from raftlog.runtime.journal.operations import GroupKey
from raftlog.types import NodeId

_logger = logging.getLogger(__name__)

_DOUBLINGS_MAX = 6
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


class Leaders:
    """The groups that are led here. Times are the loop's."""

    def __init__(self, me: ReplicaId, settings: NodeSettings) -> None:
        raft = settings.driver.raft
        self.preferred: Preferred = lambda group_id: None
        """Set by the façade: the first voter of the group's assignment."""
        self._me, self._settings = me, settings
        self._patience_s = (raft.election_ticks_min + 2) * settings.driver.tick_ms / 1000
        """A transfer that has not happened by then was given up by the core."""
        self._led: dict[GroupKey, Group] = {}
        self._moving: dict[GroupKey, _Move] = {}
        self._resting: dict[GroupKey, _Rest] = {}
        self._connected_at: dict[NodeId, float] = {}
        self._leaving: dict[NodeId, None] = {}
        """Nodes that said that they stop."""
        self._moved = asyncio.Event()

    @property
    def led_count(self) -> int:
        return len(self._led)

    # what happens

    def note_role(self, group: Group, role: Role) -> None:
        """The group's role here changed."""
        if role is Role.LEADER:
            self._led[group.key] = group
        elif self._led.pop(group.key, None) is not None:
            self._moved.set()

    def forget(self, key: GroupKey) -> None:
        """The group is gone."""
        for table in (self._led, self._moving, self._resting):
            table.pop(key, None)

    def note_connected(self, node: NodeId, now: float) -> None:
        """The node is there, in a new life perhaps."""
        self._connected_at[node] = now
        self._leaving.pop(node, None)

    def note_gone(self, node: NodeId) -> None:
        self._connected_at.pop(node, None)

    def is_connected(self, node: NodeId) -> bool:
        return node in self._connected_at

    def note_leaving(self, node: NodeId) -> None:
        """The node stops: nothing is given to it until it comes back."""
        self._leaving[node] = None

    # preferred leaders

    def tick(self, now: float) -> None:
        """Begin to hand over what others should lead."""
        self._look_after_moves(now)
        for group in list(self._led.values()):
            if len(self._moving) >= self._settings.transfers_max:
                return
            target = self._due_target(group, now)
            if target is not None:
                self._begin(group, target, now)

    def _look_after_moves(self, now: float) -> None:
        for key, move in list(self._moving.items()):
            if key not in self._led:
                del self._moving[key]
                self._resting.pop(key, None)
            elif now >= move.until:
                del self._moving[key]
                self._rest(key, move.target, now)

    def _rest(self, key: GroupKey, target: ReplicaId, now: float) -> None:
        rest = self._resting.get(key)
        failures = min(rest.failures + 1, _DOUBLINGS_MAX) if rest else 0
        pause_s = self._settings.transfer_retry_ms / 1000 * 2**failures
        self._resting[key] = _Rest(failures, now + pause_s)
        path = self._led[key].path
        _logger.warning("node %s did not take over %s; tried again in %g s", target.node_id, path, pause_s)

    def _due_target(self, group: Group, now: float) -> ReplicaId | None:
        """To whom the group should go now."""
        if group.key in self._moving:
            return None
        target = self.preferred(group.group_id)
        if target is None or target == self._me or not self._is_settled(target.node_id, now):
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

    def _is_near(self, group: Group, follower: FollowerStatus) -> bool:
        """Whether it holds nearly everything. In a sleeping group nobody was expected to answer lately."""
        core = group.core
        is_there = follower.is_active or core.is_asleep
        lag = core.last_id.index - follower.match_index
        return (
            is_there
            and core.configuration.has_voter(follower.member)
            and (lag <= self._settings.transfer_lag_entries_max)
        )

    def _begin(self, group: Group, target: ReplicaId, now: float) -> None:
        try:
            group.transfer_leadership(target)
        except RaftlogError as refusal:
            _logger.debug("%s is not handed to node %s now: %s", group.path, target.node_id, refusal)
            return
        self._moving[group.key] = _Move(target, now + self._patience_s)

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
                heir = self._heir(group) if group.key not in self._moving else None
                if heir is not None:
                    self._begin(group, heir, now)
            self._moved.clear()
            try:
                await asyncio.wait_for(self._moved.wait(), min(self._patience_s / 4, until - now))
            except TimeoutError:
                continue
        return len(self._shared())

    def _shared(self) -> list[Group]:
        """Groups led here that others could lead."""
        return [group for group in self._led.values() if len(group.core.configuration.all_voters()) > 1]

    def _heir(self, group: Group) -> ReplicaId | None:
        """The preferred leader if it is well, or whoever holds most."""
        heirs = [
            each
            for each in group.core.status().followers
            if each.member.node_id in self._connected_at
            and each.member.node_id not in self._leaving
            and self._is_near(group, each)
        ]
        preferred = self.preferred(group.group_id)
        best = max(heirs, key=lambda each: (each.member == preferred, each.match_index), default=None)
        return best.member if best is not None else None
