"""Errors between processes.

Each is in the tree of `raftlog.errors`, and an `OSError` where callers of a transport expect one.

    BadFrame            RaftlogError                        the other side violates the protocol: closed
    NotConnected        Unavailable, ConnectionError        definite: nothing was sent
    HandshakeRefused    Unavailable, ConnectionError        definite: one side refuses the other, with a reason
    ConnectionLost      OutcomeUnknown, ConnectionError     the connection broke after the request was sent
    NoAnswer            OutcomeUnknown, TimeoutError        sent, and no answer arrived in time"""

from typing import Final

from raftlog.errors import OutcomeUnknown, RaftlogError, Unavailable

NO_REASON: Final = 255
"""`reason` of a refusal that no number of `handshake.Reason` describes."""


class BadFrame(RaftlogError):
    """Error for bytes that are no frame, or a frame that is not allowed at this point; the connection is closed."""


class NotConnected(Unavailable, ConnectionError):
    """Error for a request that was not sent, because there is no connection to the node."""


class HandshakeRefused(Unavailable, ConnectionError):
    """Error for a refused connection between two processes; the message has the reason and the remedy.

    `reason` is a number of `handshake.Reason`; with `is_remote` the other side refused this process."""

    def __init__(self, message: str, *, reason: int = NO_REASON, is_remote: bool = False) -> None:
        super().__init__(message)
        self.reason, self.is_remote = reason, is_remote


class ConnectionLost(OutcomeUnknown, ConnectionError):
    """Error for a connection that broke before the answer arrived; the other side may have executed the request."""


class NoAnswer(OutcomeUnknown, TimeoutError):
    """Error for a request whose deadline passed before the answer arrived."""
