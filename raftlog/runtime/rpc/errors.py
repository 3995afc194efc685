"""Errors between processes.

Each is in the tree of `raftlog.errors`, and an `OSError` where callers of a transport expect one.

    BadFrame            RaftlogError                        the other side violates the protocol: closed
    NotConnected        Unavailable, ConnectionError        definite: nothing was sent
    HandshakeRefused    Unavailable, ConnectionError        definite: one side refuses the other, with a reason
    ConnectionLost      OutcomeUnknown, ConnectionError     the connection broke after the request was taken
    NoAnswer            OutcomeUnknown, TimeoutError        sent, and nothing came back in time"""

from raftlog.errors import OutcomeUnknown, RaftlogError, Unavailable


class BadFrame(RaftlogError):
    """Bytes that are no frame, or a frame that is not allowed at this point. Its connection is closed."""


class NotConnected(Unavailable, ConnectionError):
    """Missing connection to the node; the request was not sent."""


class HandshakeRefused(Unavailable, ConnectionError):
    """Refusal of a connection between two processes; the message has the reason, and the correction.

    `reason` is a number of `handshake.Reason`; with `is_theirs` the other side refused us."""

    def __init__(self, message: str, *, reason: int = 255, is_theirs: bool = False) -> None:
        super().__init__(message)
        self.reason, self.is_theirs = reason, is_theirs


class ConnectionLost(OutcomeUnknown, ConnectionError):
    """Connection that broke before the answer came; the other side may have executed the request."""


class NoAnswer(OutcomeUnknown, TimeoutError):
    """Deadline that passed before the answer came."""
