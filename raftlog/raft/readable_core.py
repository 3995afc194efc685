"""Read-only state of a replica's Raft core, for its driver and operators."""

from raftlog.raft.candidate import Candidate
from raftlog.raft.configuration import Configuration, ReplicaId
from raftlog.raft.entry import EntryId
from raftlog.raft.follower import Follower
from raftlog.raft.leader import Leader
from raftlog.raft.ready import Role, Status
from raftlog.raft.replica import RaftReplica
from raftlog.types import Index, Term


class ReadableCore:
    """Read-only part of `RaftCore`."""

    __slots__ = ("_replica", "_role")

    _replica: RaftReplica
    _role: Follower | Candidate | Leader

    @property
    def term(self) -> Term:
        return self._replica.term

    @property
    def role(self) -> Role:
        return self._role.role

    @property
    def leader(self) -> ReplicaId | None:
        return self._role.leader

    @property
    def last_id(self) -> EntryId:
        """Id of the log's last entry, including entries that the driver does not have yet."""
        return self._replica.log.last_id

    @property
    def durable_index(self) -> Index:
        """Highest index that is synced with all entries before it."""
        return self._replica.durability.durable_index

    @property
    def voting_position(self) -> EntryId | None:
        """Id of the entry that was lost at the log's end, until the durable log is as up to date."""
        return self._replica.voting_position

    @property
    def committed_index(self) -> Index:
        return self._replica.committed

    @property
    def configuration(self) -> Configuration:
        return self._replica.history.current

    @property
    def is_quiesced(self) -> bool:
        """Whether the replica is quiesced: it needs no ticks."""
        return self._replica.quiescence.is_quiesced

    @property
    def has_own_term_commit(self) -> bool:
        """Whether the replica leads and has committed in its term, so that its high watermark is current (KIP-207)."""
        return isinstance(self._role, Leader) and self._role.has_own_term_commit

    def status(self) -> Status:
        """Return the status for people, metrics and tests."""
        replica, role = self._replica, self._role
        return Status(
            replica.me,
            role.role,
            replica.term,
            replica.vote,
            role.leader,
            replica.log.last_id,
            replica.durable_index,
            replica.committed,
            replica.applied,
            replica.configuration,
            self.is_quiesced,
            replica.is_quarantined,
            role.replication.statuses() if isinstance(role, Leader) else (),
            isinstance(role, Leader) and role.is_transferring,
        )
