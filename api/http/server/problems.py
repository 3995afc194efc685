"""Errors of HTTP requests, and the format of all errors in answers.

`{"error_code": 40401, "message": "…", "outcome": "failed" | "unknown"}`, and in addition:

- `"beginning_offset"` and `"end_offset"` for an offset out of range
- `"topic_exists": true` if the error is that the topic exists
- `"undecodable": {"base_offset", "offset", "next_offset"}` for stored records that cannot be decoded"""

import math
from typing import Any

from raftlog.api.codes import INTERNAL
from raftlog.errors import (
    DescriptorsExhausted,
    MemoryBudgetExceeded,
    NotServing,
    OffsetOutOfRange,
    RaftlogError,
    TopicExists,
    UndecodableBatch,
)
from raftlog.partitions.security.client_rates import QuotaExceeded
from raftlog.values.error_codes import status_and_code
from raftlog.values.records import ErrorBody, Outcome, UndecodableRange
from raftlog.values.value import to_json

_RETRY_AFTER_S = "1"
"""Seconds until a retry; other requests release memory and descriptors about as fast."""


class HttpProblem(Exception):
    """Error of a request that the HTTP layer or its parsers refuse; it had no effect."""

    def __init__(self, status_and_code: tuple[int, int], message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.code = status_and_code
        self.headers = headers or {}


def error_body(error: RaftlogError | HttpProblem) -> tuple[int, bytes]:
    """Return the HTTP status and the JSON body of an error."""
    if isinstance(error, HttpProblem):
        return error.status, _encode_error(error.code, str(error), "failed")
    status, code = status_and_code(error)
    more: dict[str, Any] = {}
    if isinstance(error, OffsetOutOfRange):
        more = {"beginning_offset": error.first, "end_offset": error.end}
    elif isinstance(error, UndecodableBatch):
        more = {"undecodable": UndecodableRange(error.base_offset, error.offset, error.next_offset)}
    elif isinstance(error, TopicExists):
        more = {"topic_exists": True}  # it shares its code with every bad request
    elif isinstance(error, NotServing):
        more = {"not_ready": True}
    return status, _encode_error(code, str(error), error.outcome, **more)


def retry_headers(error: BaseException) -> dict[str, str]:
    """Return `Retry-After`, in seconds, for quotas and for shortages that end with other requests; else nothing."""
    if isinstance(error, QuotaExceeded):
        return {"Retry-After": str(math.ceil(error.retry_after_s))}
    is_shortage = isinstance(error, MemoryBudgetExceeded | DescriptorsExhausted)
    return {"Retry-After": _RETRY_AFTER_S} if is_shortage else {}


def _encode_error(code: int, message: str, outcome: Outcome, **more: Any) -> bytes:
    """Return the JSON body of an error."""
    if not message.isascii():  # it may hold what a client sent
        message = message.encode("utf-8", "backslashreplace").decode()
    return to_json(ErrorBody(error_code=code, message=message, outcome=outcome, **more))


INTERNAL_ERROR_BODY = _encode_error(
    INTERNAL[1], "the broker failed to process this request; its log has the cause", "unknown"
)
"""Body for unexpected errors; the request may have taken effect."""
