"""Builder of a `Ready` from the changes of a replica since the last one."""

from raftlog.raft.configuration import ReplicaId
from raftlog.raft.ready import IndexRange, Ready, Role, RoleState
from raftlog.raft.replica import RaftReplica
from raftlog.raft.role import RoleBehaviour
from raftlog.types import Index, Term


class ReadyBuilder:
    """Builder of Readys; it remembers the last one, so that the next one has only changes."""

    __slots__ = ("_last_commit", "_last_role", "_replica")

    def __init__(self, replica: RaftReplica) -> None:
        self._replica = replica
        self._last_role: tuple[Role, Term, ReplicaId | None] | None = None
        self._last_commit = Index(-1)

    def build_if_changed(self, role: RoleBehaviour, reason: str) -> Ready | None:
        """Return a Ready with the changes since the last one, or None without any."""
        replica = self._replica
        has_changed = (
            replica.log.is_changed
            or replica.is_hard_state_changed
            or replica.delivered < min(replica.committed, replica.durability.durable_index)
            or self._last_commit != replica.committed
            or replica.reads.ready
            or replica.reads.failed
            or replica.install_offer
            or self._last_role != (role.role, replica.term, role.leader)
        )
        if has_changed:
            return self.take(role, reason)
        if not replica.outbox:
            return None
        # Only messages: acknowledgements of a follower, for example.
        return self.take_messages() if replica.is_hard_state_durable else self.take(role, reason)

    def take(self, role: RoleBehaviour, reason: str) -> Ready:
        """Return the Ready, and remove its content from the replica."""
        replica = self._replica
        cut_to, entries = replica.log.take()
        hard_state = replica.hard_state if replica.is_hard_state_changed else None
        must_sync = hard_state is not None or cut_to is not None or bool(entries)
        number = replica.durability.hand_over(replica.log.last_index, must_sync)
        if hard_state is not None:
            replica.is_hard_state_changed = False
            replica.hard_state_number = number
        messages = tuple(replica.outbox)
        replica.outbox.clear()
        # A term, and so every message that carries it, is sent only once it is durable.
        now, once_durable = (messages, ()) if replica.is_hard_state_durable else ((), messages)
        self._last_commit = replica.committed
        reads, reads_failed = replica.reads.take()
        offer, replica.install_offer = replica.install_offer, None
        return Ready(
            number,
            hard_state,
            cut_to,
            entries,
            must_sync,
            now,
            once_durable,
            replica.committed,
            self._take_apply(),
            reads,
            reads_failed,
            self._take_role_state(role, reason),
            offer,
        )

    def take_messages(self) -> Ready:
        """Return a Ready that has only messages, for a replica without any other change.

        The replica's term is durable, so all messages are in `messages_now`. The Ready has nothing to sync, and repeats
        the number of the last one."""
        replica = self._replica
        messages = tuple(replica.outbox)
        replica.outbox.clear()
        number, committed = replica.durability.number, replica.committed
        # Without the constructor's call, which costs as much as the rest: this runs for every heartbeat of a leader.
        fields = number, None, None, (), False, messages, (), committed, None, (), (), None, None, True
        return tuple.__new__(Ready, fields)

    def _take_apply(self) -> IndexRange | None:
        """Return the committed entries that are durable here and were not yet returned for applying, or None."""
        replica = self._replica
        last = min(replica.committed, replica.durability.durable_index)
        if last <= replica.delivered:
            return None
        first = Index(replica.delivered + 1)
        replica.delivered = last
        return IndexRange(first, last)

    def _take_role_state(self, role: RoleBehaviour, reason: str) -> RoleState | None:
        """Return role, term and leader with the reason for the change, or None if none of the three changed."""
        now = (role.role, self._replica.term, role.leader)
        if now == self._last_role:
            return None
        self._last_role = now
        return RoleState(*now, reason)
