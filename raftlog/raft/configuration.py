"""Raft configuration: voters, learners, and the outgoing voters while two configurations hold jointly.

A configuration takes effect on a replica when its entry is *appended* there and stops when that entry is cut off again
(thesis 4.1, 4.3). Every change of voters goes through a joint configuration: entering it needs both majorities, and
once its entry is committed any leader proposes the exit. A change names the configuration that it replaces (compare
and set), so of two concurrent changes one is refused.

    configurations in a history ascend by index,   at most one of them is at or below committed

The conditions for a proposal are in `leader`."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from raftlog.types import Index, NodeId


class ReplicaId(NamedTuple):
    """Identity of a voter: node and disk together. After its disk was wiped or replaced, a node is another voter."""

    node_id: NodeId
    disk_uuid: UUID

    def __str__(self) -> str:
        return f"{self.node_id}/{str(self.disk_uuid)[:8]}"


class ConfigurationChange(NamedTuple):
    """Requested voters and learners of a Raft group, and the index of the configuration that the change replaces."""

    voters: tuple[ReplicaId, ...]
    learners: tuple[ReplicaId, ...]
    replaces_index: Index


class Configuration(NamedTuple):
    """Voters and learners of a Raft group as of the entry at `index`; every tuple is sorted and without repetition.

    While joint, `voters` are the incoming ones, and a replica can be both a future learner and an outgoing voter."""

    index: Index  # type: ignore[assignment]  # tuple.index is never wanted here
    voters: tuple[ReplicaId, ...]
    learners: tuple[ReplicaId, ...] = ()
    outgoing: tuple[ReplicaId, ...] = ()

    @property
    def is_joint(self) -> bool:
        return bool(self.outgoing)

    def has_voter(self, replica: ReplicaId) -> bool:
        """Return whether `replica` is an incoming or an outgoing voter."""
        return replica in self.voters or replica in self.outgoing

    def has_member(self, replica: ReplicaId) -> bool:
        """Return whether `replica` is a voter or a learner."""
        return self.has_voter(replica) or replica in self.learners

    def all_voters(self) -> tuple[ReplicaId, ...]:
        """Return the incoming and the outgoing voters, each once, in ascending order."""
        return _sort((*self.voters, *self.outgoing))

    def all_members(self) -> tuple[ReplicaId, ...]:
        return _sort((*self.voters, *self.outgoing, *self.learners))

    def leave_joint(self, index: Index) -> "Configuration":
        """Return the configuration that follows this joint one, with its entry at `index`."""
        assert self.is_joint, f"configuration {self.index} is not joint"
        return Configuration(index, self.voters, self.learners)

    def begin_change(self, change: ConfigurationChange, index: Index) -> "Configuration":
        """Return the configuration that begins `change`, with its entry at `index`: joint when the voters change."""
        assert not self.is_joint, f"configuration {self.index} is joint: one change at a time"
        voters, learners = _sort(change.voters), _sort(change.learners)
        return Configuration(index, voters, learners, () if voters == self.voters else self.voters)


NO_CONFIGURATION = Configuration(Index(0), ())
"""Configuration of a replica whose log has none yet: no members."""


def change_error(change: ConfigurationChange) -> str | None:
    """Return the error in the voters and learners of a change, or None if they are valid."""
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
    """Configurations that are in effect at a replica now, or may be again after a cut of its log."""

    __slots__ = ("_known", "current")

    def __init__(self, known: Sequence[Configuration]) -> None:
        """Begin with the configurations in the log, in ascending order of index."""
        # A replica that began with an empty log had no configuration, and a cut can bring it back to that.
        self._known = [] if known and known[0].index == NO_CONFIGURATION.index else [NO_CONFIGURATION]
        for configuration in known:
            assert not self._known or configuration.index > self._known[-1].index, (
                f"configurations do not ascend: {[configuration.index for configuration in known]}"
            )
            self._known.append(configuration)
        self.current = self._known[-1]
        """Configuration in effect: the latest one in the log, committed or not."""

    def set_initial(self, configuration: Configuration) -> None:
        """Set the initial configuration, from the first entry of the log, unless a configuration is known already.

        A replica that joins, or has lost its log, has none until that entry is appended."""
        if self._known == [NO_CONFIGURATION]:
            self._known = [configuration]
            self.current = configuration

    def restore(self, known: Sequence[Configuration]) -> None:
        """Replace all configurations up to the last of `known` by `known`, which is ascending; keep later ones.

        `known` is read from the stored log; nothing changes if it is empty."""
        if not known:
            return
        last = known[-1].index
        later = [configuration for configuration in self._known if configuration.index > last]
        self._known = ConfigurationHistory([*known, *later])._known
        self.current = self._known[-1]

    def may_be_voter(self, replica: ReplicaId) -> bool:
        """Return whether the replica votes in the current configuration, or in one that a cut can restore.

        A voter that an uncommitted change removes must go on campaigning: perhaps no other log is up to date enough to
        finish the change (thesis 4.2.2)."""
        return any(known.has_voter(replica) for known in self._known)

    def append(self, configuration: Configuration) -> None:
        """Add a configuration, which is current at once; its index is above that of the current one."""
        assert configuration.index > self.current.index, (
            f"configuration at index {configuration.index} after one at {self.current.index}"
        )
        self._known.append(configuration)
        self.current = configuration

    def roll_back_to(self, last_index: Index) -> bool:
        """Remove configurations above `last_index`; return true when another configuration is current then."""
        length = len(self._known)
        while len(self._known) > 1 and self._known[-1].index > last_index:
            self._known.pop()
        self.current = self._known[-1]
        return len(self._known) < length

    def commit_to(self, committed: Index) -> None:
        """Remove all configurations below the last committed one, which no cut can restore."""
        while len(self._known) > 1 and self._known[1].index <= committed:
            del self._known[0]


def _sort(replicas: Iterable[ReplicaId]) -> tuple[ReplicaId, ...]:
    """Return the replicas sorted, each once."""
    return tuple(sorted(set(replicas)))
