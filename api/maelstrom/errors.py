"""Maelstrom's error codes, and the table from errors of raftlog to them.

    definite     the request had no effect and never will: node-not-found, not-supported, temporarily-unavailable,
                 malformed-request, abort, key-does-not-exist, precondition-failed
    indefinite   the request may have had an effect: timeout, crash

An error is indefinite if the entry of the request may be in a log, unless another entry is committed at its index.
Source: the table of errors in Maelstrom's protocol."""

from enum import IntEnum

from raftlog.errors import DeadlineExceeded, OutcomeUnknown, RaftlogError, RequestError, Unavailable


class Code(IntEnum):
    """Error codes that this node returns; key-already-exists and txn-conflict belong to unsupported workloads."""

    TIMEOUT = 0
    NODE_NOT_FOUND = 1
    NOT_SUPPORTED = 10
    TEMPORARILY_UNAVAILABLE = 11
    MALFORMED_REQUEST = 12
    CRASH = 13
    ABORT = 14
    KEY_DOES_NOT_EXIST = 20
    PRECONDITION_FAILED = 22


class MaelstromError(RequestError):
    """Error that a client gets with the code `code`; the operation had no effect."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code


class Malformed(MaelstromError):
    """Error for a request or line that violates the protocol."""

    def __init__(self, text: str) -> None:
        super().__init__(Code.MALFORMED_REQUEST, text)


def code_of(error: RaftlogError) -> Code:
    """Return Maelstrom's error code of an error."""
    if isinstance(error, MaelstromError):
        return error.code
    if isinstance(error, OutcomeUnknown):
        return Code.TIMEOUT if isinstance(error, DeadlineExceeded | TimeoutError) else Code.CRASH
    if error.outcome == "unknown":
        return Code.CRASH
    if isinstance(error, Unavailable):
        return Code.TEMPORARILY_UNAVAILABLE
    return Code.MALFORMED_REQUEST if isinstance(error, RequestError) else Code.ABORT
