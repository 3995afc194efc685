"""What can go wrong between processes. Each is in the tree of `raftlog.errors`, and an `OSError` where callers of a
transport expect one.

    BadFrame            RaftlogError                        the other side does not speak this protocol: closed
    NotConnected        Unavailable, ConnectionError        definite: nothing was sent
    HandshakeRefused    Unavailable, ConnectionError        definite: one side does not want the other, and says why
    ConnectionLost      OutcomeUnknown, ConnectionError     the connection broke after the request was taken
    NoAnswer            OutcomeUnknown, TimeoutError        sent, and nothing came back in time
"""

from raftlog.errors import OutcomeUnknown, RaftlogError, Unavailable


class BadFrame(RaftlogError):
    """Bytes that are no frame, or a frame that may not stand where it does. Its connection is closed."""


class NotConnected(Unavailable, ConnectionError):
    """There is no connection to the node now; the request was not sent."""


class HandshakeRefused(Unavailable, ConnectionError):
    """Two processes must not talk to each other; the message says why, and what to do.

    `reason` is a number of `handshake.Reason`, `is_theirs` says that the other side refused us.
    """

    def __init__(self, message: str, *, reason: int = 255, is_theirs: bool = False) -> None:
        super().__init__(message)
        self.reason, self.is_theirs = reason, is_theirs


class ConnectionLost(OutcomeUnknown, ConnectionError):
    """The connection broke before the answer came; the other side may have done what it was asked."""


class NoAnswer(OutcomeUnknown, TimeoutError):
    """The deadline passed before the answer came."""
