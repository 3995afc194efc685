"""Who belongs to a group: voters, learners, and the outgoing voters while two configurations hold jointly.

A configuration takes effect on a replica when its entry is *appended* there and stops when that entry is cut off again
(thesis 4.1, 4.3). Every change of voters goes through a joint configuration: entering it needs both majorities, and
once its entry is committed any leader proposes the exit. A change names the configuration that it replaces (compare and
set), so of two operators one is told that he lost.

    configurations in a history ascend by index,   at most one of them is at or below committed

Not here: when a change may be proposed; that is the leader's business (`leader`).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from raftlog.types import Index, NodeId


class ReplicaId(NamedTuple):
    """Whose vote it is: a node together with its disk. A wiped or replaced disk is another voter."""

    node_id: NodeId
    disk_uuid: UUID

    def __str__(self) -> str:
        return f"{self.node_id}/{str(self.disk_uuid)[:8]}"


class ConfigurationChange(NamedTuple):
    """The members that a group shall have, and the index of the configuration that this was decided upon."""

    voters: tuple[ReplicaId, ...]
    learners: tuple[ReplicaId, ...]
    replaces_index: Index


class Configuration(NamedTuple):
    """The members of a group as of the entry at `index`; every tuple is sorted and free of repetition.

    While joint, `voters` are the incoming ones and a member can be both a learner-to-be and an outgoing voter.
    """

    index: Index  # type: ignore[assignment]  # tuple.index is never wanted here
    voters: tuple[ReplicaId, ...]
    learners: tuple[ReplicaId, ...] = ()
    outgoing: tuple[ReplicaId, ...] = ()

    @property
    def is_joint(self) -> bool:
        return bool(self.outgoing)

    def has_voter(self, replica: ReplicaId) -> bool:
        """Whether its vote counts in at least one half."""
        return replica in self.voters or replica in self.outgoing

    def has_member(self, replica: ReplicaId) -> bool:
        return self.has_voter(replica) or replica in self.learners

    def all_voters(self) -> tuple[ReplicaId, ...]:
        """Voters of both halves, each once, in ascending order."""
        return _sorted((*self.voters, *self.outgoing))

    def all_members(self) -> tuple[ReplicaId, ...]:
        return _sorted((*self.voters, *self.outgoing, *self.learners))

    def left(self, index: Index) -> "Configuration":
        """This joint configuration after its exit at `index`."""
        assert self.is_joint, f"configuration {self.index} is not joint"
        return Configuration(index, self.voters, self.learners)

    def changed(self, change: ConfigurationChange, index: Index) -> "Configuration":
        """The configuration that `change` leads to first: joint when it touches the voters."""
        assert not self.is_joint, f"configuration {self.index} is joint: one change at a time"
        voters, learners = _sorted(change.voters), _sorted(change.learners)
        return Configuration(index, voters, learners, () if voters == self.voters else self.voters)


NOBODY = Configuration(Index(0), ())
"""The configuration of a replica that has not heard of one yet."""


def why_invalid(change: ConfigurationChange) -> str | None:
    """What is wrong with the members of a change; None when nothing is."""
    voters, learners = change.voters, change.learners
    if not voters:
        return "a group needs at least one voter"
    if len(set(voters)) < len(voters) or len(set(learners)) < len(learners):
        return "a member is named twice"
    if len({voter.node_id for voter in voters}) < len(voters):
        return "two voters on one node"
    if set(voters) & set(learners):
        return "a voter cannot be a learner as well"
    return None


class ConfigurationHistory:
    """The configurations that a replica may still have to return to."""

    __slots__ = ("_known",)

    def __init__(self, known: Sequence[Configuration]) -> None:
        # A replica that began with an empty log knew of nobody, and a cut can bring it back to that.
        self._known = [] if known and known[0].index == NOBODY.index else [NOBODY]
        for configuration in known:
            assert not self._known or configuration.index > self._known[-1].index, (
                f"configurations do not ascend: {[configuration.index for configuration in known]}"
            )
            self._known.append(configuration)

    def begin(self, founders: Configuration) -> None:
        """The first entry of the log says whom the group began with. Whoever was there knew; one that lost its log did
        not any more."""
        if self._known == [NOBODY]:
            self._known = [founders]

    def restore(self, known: Sequence[Configuration]) -> None:
        """Take what the stored log says, ascending, and keep what came behind it; all, where it says nothing."""
        if not known:
            return
        last = known[-1].index
        later = [configuration for configuration in self._known if configuration.index > last]
        self._known = ConfigurationHistory([*known, *later])._known

    @property
    def current(self) -> Configuration:
        """The latest one in the log, committed or not: the one that holds."""
        return self._known[-1]

    def may_need(self, replica: ReplicaId) -> bool:
        """Whether the replica votes in a configuration that can still come to hold here.

        One that an uncommitted change removes must go on campaigning: perhaps nobody else has a log that is fresh
        enough to finish the change (thesis 4.2.2).
        """
        return any(known.has_voter(replica) for known in self._known)

    def append(self, configuration: Configuration) -> None:
        assert configuration.index > self.current.index, (
            f"configuration at index {configuration.index} after one at {self.current.index}"
        )
        self._known.append(configuration)

    def maybe_roll_back(self, last_index: Index) -> bool:
        """Forget what was cut off above `last_index`; true when another configuration holds now."""
        length = len(self._known)
        while len(self._known) > 1 and self._known[-1].index > last_index:
            self._known.pop()
        return len(self._known) < length

    def commit_to(self, committed: Index) -> None:
        """Forget all below the last committed one: no cut goes there."""
        while len(self._known) > 1 and self._known[1].index <= committed:
            del self._known[0]


def _sorted(replicas: Iterable[ReplicaId]) -> tuple[ReplicaId, ...]:
    return tuple(sorted(set(replicas)))
