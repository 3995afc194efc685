"""Messages that no sound replica sends: what the core raises for them, before log or vote changed.

    Contradiction    two leaders in one term, or a leader whose log is not that of the group
    TermRefused      a term from which elections could not go on

The driver decides what follows: a member's contradiction stops the replica, for one of the two has lost what it
promised; everything else is dropped and counted.
"""

from raftlog.raft.messages import AppendRequest, Message


class RefusedMessage(Exception):
    """Base of both; `offending` is the message, without its entries."""

    def __init__(self, why: str, offending: Message) -> None:
        super().__init__(why)
        self.offending = without_entries(offending)


class Contradiction(RefusedMessage):
    """`known` is the message by which this replica knew better; None when that is its own state."""

    def __init__(self, why: str, offending: Message, known: Message | None) -> None:
        super().__init__(why, offending)
        self.known = known


class TermRefused(RefusedMessage):
    """See the module."""


def without_entries(message: Message) -> Message:
    """Return the message without the records that it carries; what is kept must not keep these alive."""
    return message._replace(entries=()) if isinstance(message, AppendRequest) else message
