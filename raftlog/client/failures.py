"""Errors of brokers, recovered from HTTP answers.

The table is the broker's own (`raftlog.values.error_codes`), inverted; a test checks that each class comes back. Codes
that this version lacks fall back on the status, and the body's `outcome` always decides the outcome."""

from collections.abc import Mapping
from typing import Any

import orjson

from raftlog.errors import (
    DeadlineExceeded,
    InvalidArgument,
    LogClosed,
    NotServing,
    OffsetOutOfRange,
    OutcomeUnknown,
    Overloaded,
    RaftlogError,
    RecordTooLarge,
    RequestError,
    StorageError,
    StorageFull,
    TopicExists,
    Unavailable,
    UndecodableBatch,
    UnknownTopic,
)
from raftlog.types import Offset
from raftlog.values.error_codes import STATUS_AND_CODE


class NotListening(Unavailable):
    """Refusal of connections at every address: no broker process runs, so earlier requests have ended."""


_OF_SEVERAL: dict[int, type[RaftlogError]] = {
    40002: InvalidArgument,
    40403: UnknownTopic,
    42207: RequestError,
    50002: StorageError,
    50303: LogClosed,
    50401: DeadlineExceeded,
}
"""Codes shared by several errors, and codes of errors that need more than a message."""
_BY_CODE = {code: kind for kind, (_, code) in STATUS_AND_CODE.items()} | _OF_SEVERAL
_BY_STATUS: Mapping[int, type[RaftlogError]] = {
    400: InvalidArgument,
    413: RecordTooLarge,
    429: Overloaded,
    500: StorageError,
    503: Unavailable,
    504: DeadlineExceeded,
    507: StorageFull,
}


def error_of(status: int, body: bytes) -> RaftlogError:
    """Return the error of an answer that is not a success."""
    fields = _parse_fields(body)
    code = fields.get("error_code")
    message = str(fields.get("message") or f"the broker answered HTTP {status} without a reason")
    outcome = fields.get("outcome", "unknown" if status == 504 else "failed")
    return failure_of(code if isinstance(code, int) else status, status, message, outcome, fields)


def failure_of(code: int, status: int, message: str, outcome: object, fields: Mapping[str, Any]) -> RaftlogError:
    """Return the error for an error code, from the body of an answer or from one record's row in it."""
    kind = _BY_CODE.get(code) or _BY_STATUS.get(status)
    if outcome == "unknown":
        return (kind if kind is not None and kind.outcome == "unknown" else OutcomeUnknown)(message)
    if {"beginning_offset", "end_offset"} <= fields.keys():
        return _make_out_of_range(message, fields)
    undecodable = fields.get("undecodable")
    if isinstance(undecodable, dict):
        return _make_undecodable(message, undecodable)
    if fields.get("topic_exists") is True:
        return TopicExists(message)
    if fields.get("not_ready") is True:
        return NotServing(message)
    if kind is None or kind.outcome == "unknown":
        kind = RequestError if 400 <= status < 500 else Unavailable
    return kind(message)


def _parse_fields(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a body; empty for anything else."""
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _make_out_of_range(message: str, fields: Mapping[str, Any]) -> RaftlogError:
    """Return the error with the bounds of the log that the broker reported."""
    error = OffsetOutOfRange(
        int(fields.get("offset", -1)), Offset(int(fields["beginning_offset"])), Offset(int(fields["end_offset"]))
    )
    error.args = (message,)
    return error


def _make_undecodable(message: str, fields: Mapping[str, Any]) -> RaftlogError:
    """Return the error with the offsets that the broker reported."""
    error = UndecodableBatch(
        int(fields["base_offset"]), int(fields["offset"]), int(fields["next_offset"]), "see the broker's message"
    )
    error.args = (message,)
    return error


def is_temporary(error: RaftlogError) -> bool:
    """Return whether a refusal may end soon, unlike a full disk or a damaged or closed log."""
    return type(error) in (Unavailable, NotServing, Overloaded, NotListening)
