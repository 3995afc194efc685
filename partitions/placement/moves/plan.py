"""The next step from the members that a group has to those that it shall have. Pure; called by the group's leader.

    missing → learner → holds nearly everything → voter, in the place of one that shall go (joint → leave) → … → done

    one learner on its way at a time (of those that can be reached),   voters ≥ min(voters now, wanted) after every step
    nobody ceases to vote unless a majority of those that are left can be reached: they could commit nothing any more

Each step follows from the configuration and the assignment alone, so that every later leader goes on where the last one
ended. A step names the configuration that it replaces; of two leaders, or a leader and an operator, one is told that he
lost (`raftlog.raft.configuration`).
"""

from collections.abc import Collection, Sequence

from raftlog.raft import Configuration, ConfigurationChange, ReplicaId
from raftlog.raft.quorum import has_quorum
from raftlog.types import Index


def next_change(
    configuration: Configuration,
    wanted: Sequence[ReplicaId],
    *,
    me: ReplicaId,
    reachable: Collection[ReplicaId],
    near: Collection[ReplicaId],
    may_begin: bool = True,
) -> ConfigurationChange | None:
    """What to change now; None when all is as it shall be, or something has to happen first.

    `me` leads, and should hand over before it makes a change that takes it away. `reachable` are replicas whose process
    is there; of members, those that answer. `near` hold nearly everything. `may_begin`: whether another learner can be
    added now.
    """
    if configuration.is_joint:
        return None
    learners = [learner for learner in configuration.learners if learner in wanted]
    heir = next((replica for replica in wanted if replica in learners and replica in near), None)
    if heir is not None:
        return _promotion(configuration, wanted, heir, learners, me, reachable)
    if len(learners) < len(configuration.learners):
        return ConfigurationChange(configuration.voters, tuple(learners), configuration.index)
    newcomer = next((each for each in wanted if each in reachable and not configuration.has_member(each)), None)
    if newcomer is not None and may_begin and not any(learner in reachable for learner in learners):
        return ConfigurationChange(configuration.voters, (*learners, newcomer), configuration.index)
    leaver = _leaver(configuration, wanted, me, reachable)
    if leaver is None or len(configuration.voters) <= len(wanted):
        return None
    staying = tuple(voter for voter in configuration.voters if voter != leaver)
    if not is_carried(staying, reachable):
        return None
    return ConfigurationChange(staying, tuple(learners), configuration.index)


def is_carried(voters: Sequence[ReplicaId], there: Collection[ReplicaId]) -> bool:
    """Whether enough of these voters are there to commit something."""
    return has_quorum(Configuration(Index(0), tuple(voters)), there)


def is_reached(configuration: Configuration, wanted: Sequence[ReplicaId]) -> bool:
    """Whether the members are just those that shall be."""
    is_plain = not configuration.outgoing and not configuration.learners
    return is_plain and configuration.voters == tuple(sorted(wanted))


def _promotion(
    configuration: Configuration,
    wanted: Sequence[ReplicaId],
    heir: ReplicaId,
    learners: Sequence[ReplicaId],
    me: ReplicaId,
    reachable: Collection[ReplicaId],
) -> ConfigurationChange:
    """The heir votes, and in the same step one goes whose place it takes, if there are enough without that one."""
    voters = configuration.voters
    leaver = next((voter for voter in voters if voter.node_id == heir.node_id), None)  # a node votes with one disk
    if leaver is None and len(voters) >= len(wanted):
        last = _leaver(configuration, wanted, me, reachable)
        leaver = None if last == me else last  # it hands over first
    staying = tuple(voter for voter in voters if voter != leaver)
    if leaver is not None and leaver.node_id != heir.node_id and not is_carried((*staying, heir), {*reachable, heir}):
        staying = voters
    left = tuple(learner for learner in learners if learner != heir)
    return ConfigurationChange((*staying, heir), left, configuration.index)


def _leaver(
    configuration: Configuration, wanted: Sequence[ReplicaId], me: ReplicaId, reachable: Collection[ReplicaId]
) -> ReplicaId | None:
    """Of the voters that shall go: who is away before who is there, and who leads last."""
    extra = [voter for voter in configuration.voters if voter not in wanted]
    return min(extra, key=lambda voter: (voter == me, voter in reachable), default=None)
