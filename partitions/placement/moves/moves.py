"""Reassignments at leaders: each changes its group's configuration towards the assignment, step by step (`plan`).

    groups with a learner to fill ≤ GROUPS_AT_ONCE, of those that are led here;   one change of a group at a time

No state is kept: the next step follows from the group's configuration and the controller's state, so a new leader
continues. Groups are compared when the assignments change, and when this process becomes leader of one. Those that
differ are examined when they made progress, at most every `SETTLE_S`, and all of them every `LOOK_S`, less often
while none can proceed. An unreachable learner does not block other groups. Called by the broker."""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from raftlog.errors import RaftlogError
from raftlog.events import event
from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.node import BackgroundLoop, Node
from raftlog.partitions.placement.moves.plan import has_majority, matches_assignment, next_change
from raftlog.partitions.placement.moves.wait_reason import wait_reason
from raftlog.raft import Configuration, ConfigurationChange, Ready, ReplicaId, Role
from raftlog.runtime.journal.operations import GroupKey
from raftlog.runtime.replica.partition_replica import Committed, PartitionReplica
from raftlog.types import NodeId

_logger = logging.getLogger(__name__)

GROUPS_AT_ONCE: Final = 16
CAUGHT_UP_ENTRIES: Final = 64
"""Most committed entries that a learner may lack when it becomes a voter."""
SETTLE_S: Final = 0.01
LOOK_S: Final = 0.1
LOOK_S_MAX: Final = 1.0
FRESH_MS: Final = 3_000
"""Age of the last contact with the controller's leader above which no replica is moved."""
_REPORTED_MAX: Final = 64
"""Limit of groups in one report of stuck reassignments."""
_SLICE: Final = 256
"""Groups compared in one turn of the loop."""


class Moves(BackgroundLoop):
    """Background task that carries out reassignments of the Raft groups that this process leads."""

    purpose = "moving replicas"

    def __init__(self, node: Node, metadata: ControllerHost) -> None:
        """Begin without reassignments; groups are compared once the loop runs."""
        self._node, self._metadata = node, metadata
        self._differing: dict[GroupKey, PartitionReplica] = {}
        """Groups led here as far as known, whose configuration does not match the assignment."""
        self._changing: dict[GroupKey, asyncio.Future[Committed]] = {}
        """Configuration changes that were proposed, and are not yet committed or rejected."""
        self._refused: dict[GroupKey, str] = {}
        """Error of the last failed change of a differing group."""
        self._due: dict[GroupKey, PartitionReplica] = {}
        """Differing groups that made progress since they were examined."""
        self._filling: dict[GroupKey, None] = {}
        """Groups with a reachable learner, which is catching up."""
        self._is_all_due = False
        self._look = asyncio.Event()
        self._compared = b""
        """Digest of the assignments that the groups were compared with last."""
        self._is_comparing = False

    @property
    def moving_count(self) -> int:
        """Number of groups led here that do not match their assignment."""
        return len(self._differing)

    @property
    def is_compared(self) -> bool:
        """Whether all groups were compared with the newest assignments known here."""
        return self._compared == self._metadata.state.moved.digest and not self._is_comparing

    def differing_groups(self) -> list[tuple[PartitionReplica, Sequence[ReplicaId]]]:
        """Return the groups led here that do not match their assignment, with the assignment."""
        found = []
        for group in list(self._differing.values()):
            wanted = self._assigned_replicas(group)
            if wanted is not None and self._is_differing(group):
                found.append((group, wanted))
        return found

    def find_awaited_replicas(self, group: PartitionReplica, wanted: Sequence[ReplicaId]) -> list[ReplicaId]:
        """Return the assigned replicas for which the move waits: those that are not voters yet.

        If all are voters: the unreachable ones, if without them only a minority is reachable, so that no other voter
        can be removed."""
        voters = group.core.configuration.all_voters()
        missing = [replica for replica in wanted if replica not in voters]
        if missing:
            return missing
        reachable = self._reachable(group, wanted)
        return [] if has_majority(wanted, reachable) else [replica for replica in wanted if replica not in reachable]

    def stuck_reasons(self) -> list[str]:
        """Return the reasons why some reassignments cannot proceed, without those that wait for their turn."""
        found = []
        for group, wanted in self.differing_groups()[:_REPORTED_MAX]:
            why = self._wait_reason(group, wanted, may_begin=True)
            if why is not None:
                found.append(f"{group.name}: {why}")
        return found

    def wait_reason(self, group: PartitionReplica) -> str | None:
        """Return the reason, in words, why a differing group waits; None while it proceeds."""
        wanted = self._assigned_replicas(group)
        if wanted is None:
            return None
        may_begin = len(self._filling) < GROUPS_AT_ONCE or group.key in self._filling
        return self._wait_reason(group, wanted, may_begin=may_begin)

    def _wait_reason(self, group: PartitionReplica, wanted: Sequence[ReplicaId], *, may_begin: bool) -> str | None:
        """Return the reason for which the next step of a move waits; None if it can begin."""
        core = group.core
        return wait_reason(
            core.configuration,
            wanted,
            is_committed=core.configuration.index <= core.committed_index,
            is_fresh=self._is_fresh(),
            may_begin=may_begin,
            reachable=self._reachable(group, wanted),
            refused=self._refused.get(group.key),
        )

    # callbacks

    def state_changed(self) -> None:
        """Compare all groups again if the controller's assignments changed."""
        if self._compared != self._metadata.state.moved.digest:
            self._look.set()

    def on_step(self, group: PartitionReplica, ready: Ready) -> None:
        """Examine a group after a Ready was processed."""
        if group.key in self._differing:
            self._due[group.key] = group
            self._look.set()
        elif ready.role_state is not None and ready.role_state.role is Role.LEADER:
            self._compare(group)

    def _compare(self, group: PartitionReplica) -> None:
        """Queue a Raft group if its configuration differs from the assignment."""
        if self._is_differing(group):
            self._differing[group.key] = self._due[group.key] = group
            self._look.set()

    def _assigned_replicas(self, group: PartitionReplica) -> Sequence[ReplicaId] | None:
        """Return the assigned replicas; None for the controller, and without a known assignment."""
        state = self._metadata.state
        name = state.group(group.group_id)
        return None if name is None else state.assignment(name).replicas

    # looks

    async def _run(self) -> None:
        """Compare the assignments with the Raft configurations, and advance those that differ."""
        pause_s = LOOK_S
        while True:
            self._look.clear()
            await self._compare_all()
            due, self._due = self._differing if self._is_all_due else self._due, {}
            self._is_all_due = False
            pause_s = LOOK_S if self._advance(due) or self._changing else min(2 * pause_s, LOOK_S_MAX)
            await asyncio.sleep(SETTLE_S)
            try:
                async with asyncio.timeout(pause_s if self._differing else None):
                    await self._look.wait()
            except TimeoutError:
                self._is_all_due = True

    async def _compare_all(self) -> None:
        """Compare all groups, if the assignments have changed."""
        digest = self._metadata.state.moved.digest
        if digest == self._compared:
            return
        self._compared, self._is_comparing = digest, True
        for number, group in enumerate(list(self._node.driver.groups.values()), 1):
            if group.core.role is Role.LEADER:
                self._compare(group)
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        self._is_comparing = False

    def _advance(self, due: Mapping[GroupKey, PartitionReplica]) -> bool:
        """Begin the next configuration change of each of these groups; return whether there was one."""
        begun = False
        if due and not self._is_fresh():
            return False
        for key, group in list(due.items()):
            if not group.core.configuration.learners:
                self._set_filling(group, [])
            if not self._is_differing(group):
                self._differing.pop(key, None)
                self._refused.pop(key, None)
                self._set_filling(group, [])
            elif key not in self._changing:
                begun |= self._step(group)
        return begun

    def _is_fresh(self) -> bool:
        """Return whether the copy of the controller's state is current; an old one would move replicas back."""
        freshness = self._metadata.freshness()
        return freshness.age_ms is not None and freshness.age_ms <= FRESH_MS and freshness.leader is not None

    def _is_differing(self, group: PartitionReplica) -> bool:
        """Return whether the group is led here and differs from its assignment, or has an uncommitted configuration."""
        wanted, core = self._assigned_replicas(group), group.core
        if group.is_closed or core.role is not Role.LEADER or wanted is None:
            return False
        return core.configuration.index > core.committed_index or not matches_assignment(core.configuration, wanted)

    def _set_filling(self, group: PartitionReplica, reachable: Collection[ReplicaId]) -> None:
        """Record whether a reachable learner of this Raft group is catching up; few groups may do so at once."""
        if any(learner in reachable for learner in group.core.configuration.learners):
            self._filling[group.key] = None
        elif group.key in self._filling:
            del self._filling[group.key]
            self._is_all_due = True  # another one can begin
            self._look.set()

    def _step(self, group: PartitionReplica) -> bool:
        """Begin the next change if one is due; return whether it was."""
        core, wanted, me = group.core, self._assigned_replicas(group), self._node.identity.replica
        before = core.configuration
        if wanted is None or not core.has_own_term_commit or before.index > core.committed_index:
            return False
        may_begin = len(self._filling) < GROUPS_AT_ONCE
        if not may_begin and not before.learners and len(before.voters) <= len(wanted):
            return False
        reachable = self._reachable(group, wanted)
        self._set_filling(group, reachable)
        change = next_change(
            before,
            wanted,
            own_id=me,
            reachable=reachable,
            near=self._caught_up_members(group),
            may_begin=may_begin,
        )
        if change is None:
            return False
        if me not in change.voters and self._hand_over(group, change):
            return True
        if len(change.learners) > len(before.learners):
            self._filling[group.key] = None
        future = self._changing[group.key] = group.change_members(change)
        after = Configuration(before.index, change.voters, change.learners)
        future.add_done_callback(lambda done: self._on_change_done(group, after, done))
        return True

    def _hand_over(self, group: PartitionReplica, change: ConfigurationChange) -> bool:
        """Transfer leadership before this voter is removed; return whether there is a target.

        So proposals made here get their outcome here."""
        near, fitness, now = self._caught_up_members(group), self._node.fitness_exchange.fitness, self._node.loop.time()
        targets = [each for each in change.voters if each in near and group.core.configuration.has_voter(each)]
        target = max(targets, key=lambda each: fitness.is_fit(each.node_id, now), default=None)
        if target is None:
            return False
        try:
            group.transfer_leadership(target)
        except RaftlogError as error:
            _logger.debug("leadership of %s was not transferred to %s: %s", group.path, target, error)
        return True

    def _on_change_done(self, group: PartitionReplica, after: Configuration, done: "asyncio.Future[Committed]") -> None:
        """Check the Raft group again after a configuration change; store the error of a failed change."""
        del self._changing[group.key]
        if done.cancelled():
            return
        error = done.exception()
        if error is None:
            self._refused.pop(group.key, None)
            voters, learners = _node_list(after.voters), _node_list(after.learners)
            event(_logger, "members_changed", group=group.name, voters=voters, learners=learners)
            self._due[group.key] = group
            self._look.set()
        else:  # another leader retries, or this one at its next look: an immediate retry would loop
            _logger.info("%s: its members were not changed now: %s", group.path, error)
            if group.key in self._differing:
                self._refused[group.key] = str(error)

    def _reachable(self, group: PartitionReplica, wanted: Sequence[ReplicaId]) -> list[ReplicaId]:
        """Return assigned replicas and members of the group on disks whose processes are reachable."""
        state, me = self._metadata.state, self._node.identity.replica
        concerned = sorted({*wanted, *group.core.configuration.all_members()})
        return [
            each
            for each in concerned
            if each == me or (state.broker_of(each) is not None and self._node.is_alive(each.node_id))
        ]

    def _caught_up_members(self, group: PartitionReplica) -> list[ReplicaId]:
        """Return members that hold the present configuration entry and nearly all other committed entries."""
        core = group.core
        least = max(core.configuration.index, core.committed_index - CAUGHT_UP_ENTRIES)
        return [
            each.member
            for each in core.status().followers
            if (each.is_active or core.is_quiesced) and each.match_index >= least
        ]


def _node_list(replicas: Sequence[ReplicaId]) -> list[NodeId]:
    """Return the node ids of replicas, sorted."""
    return [replica.node_id for replica in sorted(replicas)]
