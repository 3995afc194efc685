"""Serialization hooks for schemathesis: bodies of unknown types are the text that the document's schema gives."""

from typing import Any

import schemathesis

_TYPES = (
    "application/x-ndjson",
    "application/vnd.raftlog.batches",
)


def _as_bytes(context: Any, value: Any) -> bytes:
    """Encode text as it is; any other value becomes an invalid body instead of its JSON."""
    text = value if isinstance(value, str) else f"no text: {value!r}"
    return text.encode("utf-8", "surrogatepass")


for media_type in _TYPES:
    schemathesis.serializer(media_type)(_as_bytes)
