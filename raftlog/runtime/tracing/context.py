"""W3C Trace Context: the header `traceparent` (https://www.w3.org/TR/trace-context/)."""

import re
import secrets
from typing import Final, NamedTuple

TRACEPARENT: Final = "traceparent"
"""Name of the HTTP header and of the record header."""
TEXT_MAX: Final = 256
"""Longest text that is parsed."""
_FORM: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_INVALID_VERSION: Final = "ff"
_SAMPLED: Final = 1


class TraceContext(NamedTuple):
    """Context of a request in W3C form: ids of the trace and of the caller's span, in lower-case hexadecimal digits."""

    trace_id: str
    span_id: str
    is_sampled: bool

    def to_text(self) -> str:
        """Return the value of `traceparent`."""
        return f"00-{self.trace_id}-{self.span_id}-{int(self.is_sampled):02x}"


def parse_traceparent(text: str | bytes | None) -> TraceContext | None:
    """Return the context of a `traceparent`; None if it is missing or invalid, which starts a new trace."""
    if text is None or len(text) > TEXT_MAX:
        return None
    if isinstance(text, bytes):
        text = text.decode("latin-1")
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    version, trace_id, span_id, flags, more = match.groups()
    if version == _INVALID_VERSION or (version == "00" and more is not None):
        return None
    if not trace_id.strip("0") or not span_id.strip("0"):
        return None
    return TraceContext(trace_id, span_id, bool(int(flags, 16) & _SAMPLED))


def new_trace_id() -> str:
    """Return a random id of a trace."""
    return secrets.token_hex(16)


def new_span_id() -> str:
    """Return a random id of a span."""
    return secrets.token_hex(8)
