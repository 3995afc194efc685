"""Serialization hooks for schemathesis: bodies of content types unknown to it are sent as the generated text."""

from typing import Any

import schemathesis

_TYPES = (
    "application/x-ndjson",
    "application/vnd.raftlog.batches",
)


def _as_bytes(context: Any, value: Any) -> bytes:
    """Encode text as UTF-8; a value that is not text becomes an invalid body instead of JSON."""
    text = value if isinstance(value, str) else f"no text: {value!r}"
    return text.encode("utf-8", "surrogatepass")


for media_type in _TYPES:
    schemathesis.serializer(media_type)(_as_bytes)
