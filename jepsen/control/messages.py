"""What is said on a wire between two nodes: `length (4 bytes) ‖ zlib(pickle(message))`, over and over.

Read here for one purpose: when a machine dies, some first part of what it has under way still arrives, and any part may
be the one. `worst_prefix` finds the part after which the receiver's log is shortest.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import Any, Final

from pysyncobj import pickle

_LENGTH: Final = struct.Struct("i")


class Framing:
    """Where in a stream its messages begin. Is fed all of it, in order."""

    def __init__(self) -> None:
        self._head = b""
        """Of a message whose length is not known yet."""
        self._left = 0
        """Bytes of a message that are still to come."""

    def feed(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            if self._left:
                step = min(self._left, len(data) - at)
                self._left -= step
                at += step
                continue
            step = min(_LENGTH.size - len(self._head), len(data) - at)
            self._head += data[at : at + step]
            at += step
            if len(self._head) == _LENGTH.size:
                (self._left,) = _LENGTH.unpack(self._head)
                self._head = b""

    def worst_prefix(self, data: bytes) -> int:
        """Of the bytes that follow: how many have to arrive to leave the receiver with the shortest log; 0 when none
        of them says where its log should end."""
        worst: tuple[int, int] | None = None
        for end_at, message in self._messages(data):
            if isinstance(message, dict) and message.get("type") == "append_entries" and "entries" in message:
                last_index = message["prevLogIdx"] + len(message["entries"])
                if worst is None or last_index < worst[0]:
                    worst = last_index, end_at
        return worst[1] if worst is not None else 0

    def _messages(self, data: bytes) -> Iterator[tuple[int, Any]]:
        """Whole messages that begin in the data, each with the position behind it."""
        if self._head:
            at = 0  # what has passed ends within a length
            data, shift = self._head + data, len(self._head)
        else:
            at, shift = self._left, 0
        while at + _LENGTH.size <= len(data):
            (length,) = _LENGTH.unpack_from(data, at)
            at += _LENGTH.size + length
            if at > len(data):
                return
            yield at - shift, pickle.loads(zlib.decompress(data[at - length : at]))
