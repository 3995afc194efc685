"""Interface between the core and its roles, and the request for a change of role.

A role never changes itself: it returns a `RoleChange`; `core` asserts the present role, then creates the new one.
"""

from typing import NamedTuple, Protocol

from raftlog.raft.configuration import ReplicaId
from raftlog.raft.messages import Message
from raftlog.raft.ready import Role


class RoleChange(NamedTuple):
    """Change of role within the term; only a candidate also enters the next term."""

    role: Role
    reason: str
    is_transfer: bool = False


class RoleBehaviour(Protocol):
    """One role of one replica, from its beginning to its end.

    The roles do not inherit from it: `isinstance` is called for every message, and is slow for subclasses of a
    Protocol."""

    role: Role

    @property
    def leader(self) -> ReplicaId | None:
        """Leader of the term, if known here."""
        ...

    def has_leader_contact(self) -> bool:
        """Return whether the replica leads or had recent contact with a leader: then it refuses votes, thesis 4.2.3."""
        ...

    def step(self, message: Message) -> RoleChange | None:
        """Process a message of this term; ignore messages that the role does not expect."""
        ...

    def tick(self) -> RoleChange | None:
        """Do the work of the tick that the role set as the replica's `next_tick`."""
        ...

    def prepare(self) -> RoleChange | None:
        """Make deferred decisions and messages; called before a Ready is taken."""
        ...

    def wake(self) -> None:
        """Resume work after quiescence."""
        ...

    def leave(self) -> None:
        """End the role: fail the requests that only this role could finish."""
        ...
