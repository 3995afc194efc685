"""Throttle time in encoded answers to Produce and Fetch, whose codecs write 0."""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from raftlog.api.kafka.api import ApiKey
from raftlog.types import Buffer

_MS: Final = Struct(">i")
_TAGS_BYTES: Final = 1
"""Bytes after the throttle time of Produce in flexible versions: no tagged fields."""


def set_throttle_time(key: ApiKey, pieces: Sequence[Buffer], throttle_ms: int, *, is_tagged: bool) -> None:
    """Write the throttle time into an answer: at the begin of Fetch, at the end of Produce; not for other APIs."""
    if key is ApiKey.FETCH:
        _MS.pack_into(pieces[0], 0, throttle_ms)
    elif key is ApiKey.PRODUCE:
        last = pieces[-1]
        _MS.pack_into(last, len(last) - _MS.size - (_TAGS_BYTES if is_tagged else 0), throttle_ms)
