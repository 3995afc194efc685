"""Changes of leaders as seen by this process: counted for metrics, logged as events, timed for health.

    elections started = won + lost + those under way          of groups with a replica here, by this replica

A change of role that is reverted between two turns of the driver is not seen. Owned by the node, which passes every
change of a role."""

import logging
from collections.abc import Callable

from raftlog.events import event
from raftlog.raft import ReplicaId, Role
from raftlog.raft.ready import RoleState
from raftlog.runtime.journal.operations import GroupKey
from raftlog.runtime.log.replica_directory import CONTROLLER
from raftlog.runtime.replica.partition_replica import PartitionReplica

_logger = logging.getLogger(__name__)


class LeaderStatistics:
    """Counts and times of leader changes since the start of the process."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin with zero totals; `clock` returns seconds."""
        self._clock = clock
        self._began = clock()
        self.elections_started = self.elections_won = self.elections_lost = 0
        """Totals of elections; a pre-vote does not count as an election."""
        self.leader_changes = 0
        """Changes of the known leader of a group with a replica here."""
        self._roles: dict[GroupKey, Role] = {}
        """Roles other than follower."""
        self._leaders: dict[GroupKey, ReplicaId] = {}
        """Last known leaders."""
        self._leaderless: dict[GroupKey, float] = {}
        """Time since which the group has no known leader."""

    def leaderless_s(self, group: PartitionReplica) -> float:
        """Return the seconds for which the group has had no known leader; 0.0 while it has one."""
        if group.core.leader is not None:
            return 0.0
        return self._clock() - self._leaderless.get(group.key, self._began)

    def record_change(self, group: PartitionReplica, state: RoleState, *, is_handed_over: bool) -> None:
        """Record a change of a Raft group's role, term or leader here; `is_handed_over`: a transfer had begun here."""
        if state.leader is None:
            self._leaderless.setdefault(group.key, self._clock())
        else:
            self._leaderless.pop(group.key, None)
        before = self._roles.pop(group.key, Role.FOLLOWER)
        if state.role is not Role.FOLLOWER:
            self._roles[group.key] = state.role
        if state.role is Role.CANDIDATE or (state.role is Role.LEADER and before not in (Role.CANDIDATE, Role.LEADER)):
            self.elections_started += 1
            self.elections_lost += before is Role.CANDIDATE  # in an earlier term
        elif before is Role.CANDIDATE and state.role is not Role.LEADER:
            self.elections_lost += 1
        if state.role is Role.LEADER and before is not Role.LEADER:
            self.elections_won += 1
            event(_logger, "leader_elected", group=group.name, term=state.term, why=state.reason)
        elif before is Role.LEADER and state.role is not Role.LEADER:
            leader = None if state.leader is None else state.leader.node_id
            why = "handed over" if is_handed_over else state.reason
            event(_logger, "leadership_lost", group=group.name, term=state.term, why=why, leader=leader)
        if state.leader is not None and self._leaders.get(group.key) != state.leader:
            self.leader_changes += group.key in self._leaders
            self._leaders[group.key] = state.leader
            if group.name == CONTROLLER:
                event(_logger, "controller_leader_changed", leader=state.leader.node_id, term=state.term)

    def forget(self, key: GroupKey) -> None:
        """Remove the data of a group that this process no longer has."""
        self._roles.pop(key, None)
        self._leaders.pop(key, None)
        self._leaderless.pop(key, None)
