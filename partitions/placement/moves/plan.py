"""Next step from the present configuration of a group to its assignment. Pure; called by the group's leader.

    missing → learner → nearly caught up → voter, in the place of one to remove (joint → leave) → … → done

    one learner is filled at a time (of those that can be reached),   voters ≥ min(voters now, wanted) after every step
    no voter is removed unless a majority of the remaining ones is reachable, so that they can commit

Each step follows from the configuration and the assignment alone, so every later leader continues at the same point.
A step names the configuration that it replaces; of two leaders, or a leader and an operator, one gets an error
(`raftlog.raft.configuration`)."""

from collections.abc import Collection, Sequence

from raftlog.raft import Configuration, ConfigurationChange, ReplicaId
from raftlog.raft.quorum import has_quorum
from raftlog.types import Index


def next_change(
    configuration: Configuration,
    wanted: Sequence[ReplicaId],
    *,
    own_id: ReplicaId,
    reachable: Collection[ReplicaId],
    near: Collection[ReplicaId],
    may_begin: bool = True,
) -> ConfigurationChange | None:
    """Return the next change; None if the assignment is reached, or the group has to wait.

    `own_id` is the leader, which should transfer leadership before a change that removes it. `reachable`: replicas
    whose process runs and is connected; of members, those that answer. `near`: nearly caught up. `may_begin`: whether
    another learner can be added now."""
    if configuration.is_joint:
        return None
    learners = [learner for learner in configuration.learners if learner in wanted]
    promoted = next((replica for replica in wanted if replica in learners and replica in near), None)
    if promoted is not None:
        return _promotion(configuration, wanted, promoted, learners, own_id, reachable)
    if len(learners) < len(configuration.learners):
        return ConfigurationChange(configuration.voters, tuple(learners), configuration.index)
    newcomer = next((each for each in wanted if each in reachable and not configuration.has_member(each)), None)
    if newcomer is not None and may_begin and not any(learner in reachable for learner in learners):
        return ConfigurationChange(configuration.voters, (*learners, newcomer), configuration.index)
    leaver = _voter_to_remove(configuration, wanted, own_id, reachable)
    if leaver is None or len(configuration.voters) <= len(wanted):
        return None
    staying = tuple(voter for voter in configuration.voters if voter != leaver)
    if not has_majority(staying, reachable):
        return None
    return ConfigurationChange(staying, tuple(learners), configuration.index)


def has_majority(voters: Sequence[ReplicaId], reachable: Collection[ReplicaId]) -> bool:
    """Return whether a majority of these voters is reachable."""
    return has_quorum(Configuration(Index(0), tuple(voters)), reachable)


def matches_assignment(configuration: Configuration, wanted: Sequence[ReplicaId]) -> bool:
    """Return whether the voters are exactly the assigned replicas, without learners or a joint phase."""
    is_plain = not configuration.outgoing and not configuration.learners
    return is_plain and configuration.voters == tuple(sorted(wanted))


def _promotion(
    configuration: Configuration,
    wanted: Sequence[ReplicaId],
    promoted: ReplicaId,
    learners: Sequence[ReplicaId],
    own_id: ReplicaId,
    reachable: Collection[ReplicaId],
) -> ConfigurationChange:
    """Return the change that makes a learner a voter.

    It also removes the voter that the learner replaces, if a majority of the others is reachable."""
    voters = configuration.voters
    leaver = next((voter for voter in voters if voter.node_id == promoted.node_id), None)  # a node votes with one disk
    if leaver is None and len(voters) >= len(wanted):
        last = _voter_to_remove(configuration, wanted, own_id, reachable)
        leaver = None if last == own_id else last  # it transfers leadership first
    staying = tuple(voter for voter in voters if voter != leaver)
    if (
        leaver is not None
        and leaver.node_id != promoted.node_id
        and not has_majority((*staying, promoted), {*reachable, promoted})
    ):
        staying = voters
    left = tuple(learner for learner in learners if learner != promoted)
    return ConfigurationChange((*staying, promoted), left, configuration.index)


def _voter_to_remove(
    configuration: Configuration, wanted: Sequence[ReplicaId], own_id: ReplicaId, reachable: Collection[ReplicaId]
) -> ReplicaId | None:
    """Return the next voter to remove: an absent one first, the leader last; None if none is left."""
    extra = [voter for voter in configuration.voters if voter not in wanted]
    return min(extra, key=lambda voter: (voter == own_id, voter in reachable), default=None)
