"""Errors for messages that no correct replica sends, raised before log or vote changes.

    Contradiction    two leaders in one term, or a leader whose log is not that of the Raft group
    TermRefused      a term so near to the highest one that too few elections would remain

The driver stops the replica after a contradicting message of a member, because the sender or the receiver has lost
durable state. It drops and counts the other messages."""

from raftlog.raft.messages import AppendRequest, Message


class RefusedMessage(Exception):
    """Base of errors for messages; `offending` is the message, without its entries."""

    def __init__(self, reason: str, offending: Message) -> None:
        super().__init__(reason)
        self.offending = without_entries(offending)


class Contradiction(RefusedMessage):
    """The message contradicts an earlier one, `known`, or if that is None the state of this replica."""

    def __init__(self, reason: str, offending: Message, known: Message | None) -> None:
        super().__init__(reason, offending)
        self.known = known


class TermRefused(RefusedMessage):
    """The message has a term that is too near to the highest possible one."""


def without_entries(message: Message) -> Message:
    """Return the message without its records, so that a stored message does not keep them in memory."""
    return message._replace(entries=()) if isinstance(message, AppendRequest) else message
