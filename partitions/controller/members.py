"""Raft configuration of the controller: up to five brokers vote, all others learn. Its leader decides, repeatedly.

    min(bootstrap's voters, brokers that stay) ≤ voters ≤ VOTERS_MAX      learners: all other brokers
    no voter is removed unless a majority of the remaining ones is reachable

The target follows from the controller's state alone, so a new leader continues where the old one ended. One change
at a time; a learner becomes a voter once it holds nearly everything. A draining broker becomes a learner, so that it
still receives its removal, which does not need its vote. Draining brokers and retired disks are removed from the voters
when enough others are reachable or can replace them, unreachable ones first. A retired learner is removed at once. A
leader transfers its leadership before it becomes a learner. Called by the host's timer while this process leads."""

from collections.abc import Callable, Collection

from raftlog.partitions.controller.machine import ControllerState
from raftlog.partitions.controller.machine.rolls import CONTROLLER_VOTERS_MAX
from raftlog.raft import Configuration, ConfigurationChange, ReplicaId
from raftlog.raft.quorum import has_quorum
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.types import Index, NodeId


def next_change(
    group: PartitionReplica, state: ControllerState, caught_up_entries: int, is_alive: Callable[[NodeId], bool]
) -> ConfigurationChange | None:
    """Return the next change of the controller's Raft configuration; None if none is due, or one is pending.

    `caught_up_entries`: maximum number of entries that a new voter may lack. `is_alive` returns whether a process is
    reachable: a broken connection shows that before missed heartbeats do."""
    core = group.core
    configuration = core.configuration
    if configuration.is_joint or configuration.index > core.committed_index or state.bootstrap is None:
        return None
    wanted = _desired_members(state)
    staying = [replica for replica in wanted if not _is_draining(state, replica)]
    status = core.status()
    active = (each for each in status.followers if each.is_active or core.is_quiesced)
    reachable = [each for each in active if is_alive(each.member.node_id)]
    least_index = max(configuration.index, core.committed_index - caught_up_entries)
    caught_up = [each.member for each in reachable if each.match_index >= least_index]
    voters_min = min(len(state.bootstrap.seeds), CONTROLLER_VOTERS_MAX, max(1, len(staying)))
    voters = _next_voters(
        configuration, staying, caught_up, {status.me, *(each.member for each in reachable)}, voters_min
    )
    learners = [replica for replica in wanted if replica not in voters]
    if sorted(voters) == list(configuration.voters) and sorted(learners) == list(configuration.learners):
        return None
    return ConfigurationChange(tuple(voters), tuple(learners), configuration.index)


def _desired_members(state: ControllerState) -> list[ReplicaId]:
    """Return the replicas that should belong to the controller: all brokers, and seeds not registered yet."""
    return sorted({*(broker.replica for broker in state.all_brokers()), *state.absent_seeds()})


def _is_draining(state: ControllerState, replica: ReplicaId) -> bool:
    """Return whether the broker of this replica is draining."""
    broker = state.broker_of(replica)
    return broker is not None and broker.is_draining


def transfer_target_of(group: PartitionReplica, change: ConfigurationChange, own_id: ReplicaId) -> ReplicaId | None:
    """Return the replica that gets the leadership before a change that removes this leader from the voters.

    None for other changes, and if no active voter stays."""
    core = group.core
    if own_id in change.voters:
        return None
    targets = [
        each
        for each in core.status().followers
        if each.member in change.voters
        and core.configuration.has_voter(each.member)
        and (each.is_active or core.is_quiesced)
    ]
    best = max(targets, key=lambda each: each.match_index, default=None)
    return None if best is None else best.member


def _next_voters(
    configuration: Configuration,
    staying: list[ReplicaId],
    caught_up: list[ReplicaId],
    reachable: Collection[ReplicaId],
    voters_min: int,
) -> list[ReplicaId]:
    """Return the next voters: at most one is added and at most one is removed.

    `staying` are not draining, and `caught_up` may become voters. A voter is removed only if a majority of the others
    is `reachable`, and at least `voters_min` stay."""
    voters = list(configuration.voters)
    retired = [voter for voter in voters if voter not in staying]
    new = [replica for replica in staying if replica in caught_up and replica in configuration.learners]
    promoted = new[0] if new and len(voters) - bool(retired) < CONTROLLER_VOTERS_MAX else None
    if promoted is not None:
        voters.append(promoted)
    node = None if promoted is None else promoted.node_id  # no node votes with two disks
    leaver = min(retired, key=lambda voter: (voter.node_id != node, voter in reachable), default=None)
    if leaver is None or len(voters) <= voters_min:
        return voters
    left = [voter for voter in voters if voter != leaver]
    return left if has_quorum(Configuration(Index(0), tuple(left)), reachable) else list(configuration.voters)
