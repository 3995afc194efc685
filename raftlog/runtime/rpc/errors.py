"""Errors between processes.

Each is in the tree of `raftlog.errors`, and an `OSError` where callers of a transport expect one.

    BadFrame            RaftlogError                        the other side violates the protocol: closed
    NotConnected        Unavailable, ConnectionError        definite: nothing was sent
    HandshakeRefused    Unavailable, ConnectionError        definite: one side refuses the other, with a reason
    ConnectionLost      OutcomeUnknown, ConnectionError     the connection broke after the request was taken
    NoAnswer            OutcomeUnknown, TimeoutError        sent, and no answer arrived in time"""

from raftlog.errors import OutcomeUnknown, RaftlogError, Unavailable


class BadFrame(RaftlogError):
    """Error for bytes that are no frame, or a frame that is not allowed at this point; the connection is closed."""


class NotConnected(Unavailable, ConnectionError):
    """Error for a request that was not sent, because there is no connection to the node."""


class HandshakeRefused(Unavailable, ConnectionError):
    """Error for a refused connection between two processes; the message has the reason and the remedy.

    `reason` is a number of `handshake.Reason`; with `is_theirs` the other side refused us."""

    def __init__(self, message: str, *, reason: int = 255, is_theirs: bool = False) -> None:
        super().__init__(message)
        self.reason, self.is_theirs = reason, is_theirs


class ConnectionLost(OutcomeUnknown, ConnectionError):
    """Error for a connection that broke before the answer arrived; the other side may have executed the request."""


class NoAnswer(OutcomeUnknown, TimeoutError):
    """Error for a request whose deadline passed before the answer arrived."""
