"""Interface between the core and its roles, and the request for a change of role.

A role never changes itself: it returns a `Become`, and `core` makes the new role, after asserting the former one."""

from typing import NamedTuple, Protocol

from raftlog.raft.configuration import ReplicaId
from raftlog.raft.messages import Message
from raftlog.raft.ready import Role


class Become(NamedTuple):
    """A change of role within the same term (a candidate's own next term aside)."""

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

    def is_loyal(self) -> bool:
        """Return whether a leader is, or was lately, heard: then no candidate gets a vote (thesis 4.2.3)."""
        ...

    def step(self, message: Message) -> Become | None:
        """Take a message of this term; those that the role does not expect are ignored."""
        ...

    def tick(self) -> Become | None:
        """Do the work of the tick that the role set as the replica's `next_tick`."""
        ...

    def prepare(self) -> Become | None:
        """Do deferred decisions and messages; called before a Ready is taken."""
        ...

    def wake(self) -> None:
        """Take up work after quiescence."""
        ...

    def leave(self) -> None:
        """End the role: fail requests that only it could finish."""
        ...
