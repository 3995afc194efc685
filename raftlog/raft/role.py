"""What every role offers to the core, and how it asks for another one.

A role never changes itself: it returns a `Become`, and `core` makes the new role, after asserting where it comes from.
"""

from typing import NamedTuple, Protocol

from raftlog.raft.configuration import ReplicaId
from raftlog.raft.messages import Message
from raftlog.raft.ready import Role


class Become(NamedTuple):
    """A change of role within the same term (a candidate's own next term aside)."""

    role: Role
    why: str
    is_transfer: bool = False


class RoleBehaviour(Protocol):
    """One role of one replica, from its beginning to its end.

    The roles do not inherit from it: `isinstance` is asked for every message, and of a Protocol's heirs it is slow.
    """

    role: Role

    @property
    def leader(self) -> ReplicaId | None:
        """Who leads, as far as this replica knows."""
        ...

    def is_loyal(self) -> bool:
        """Whether a leader is, or was lately, heard: then nobody else gets a vote (thesis 4.2.3)."""
        ...

    def step(self, message: Message) -> Become | None:
        """A message of this term; those that the role does not expect are ignored."""
        ...

    def tick(self) -> Become | None:
        """The tick has come that the role set as the replica's `next_tick`."""
        ...

    def prepare(self) -> Become | None:
        """A Ready is about to be taken: decide and say what was put off until now."""
        ...

    def wake(self) -> None:
        """The replica was asleep and is not any more."""
        ...

    def leave(self) -> None:
        """The role ends: give up what only it could finish."""
        ...
