"""Messages on a connection between two nodes: `length (4 bytes) ‖ zlib(pickle(message))`, repeated.

When a machine crashes, a prefix of its bytes in flight still arrives. Any prefix is possible, so the messages are
parsed to find the worst one: the prefix after which the receiver's log is shortest.

    passed ≤ end of a message under way ≤ fed          positions are bytes since the beginning of the stream"""

import struct
import zlib
from collections import deque
from typing import Any, Final, NamedTuple

from pysyncobj import pickle

_LENGTH: Final = struct.Struct("i")


class Part(NamedTuple):
    """Prefix of the bytes under way that ends with a message: its size, and the receiver's last index after it."""

    size: int
    last_index: int


class Stream:
    """Parser of pysyncobj's messages in one direction of a connection.

    It receives all bytes in order, and the number of bytes that the peer received."""

    def __init__(self) -> None:
        self._rest = b""
        """Beginning of a message that has not arrived completely."""
        self._fed = self._passed = 0
        self._logs: deque[tuple[int, int]] = deque()
        """End position of each message under way that sets the receiver's log, and the last index of that log after it.
        """
        self._answers: deque[tuple[int, int]] = deque()
        """End position of each answer under way, and the index up to which it acknowledges the sender's log."""
        self.acknowledged = 0
        """Index up to which delivered answers acknowledge the sender's log."""

    def feed(self, data: bytes) -> None:
        """Parse received bytes, and record each complete message. The rest waits for further bytes."""
        self._rest += data
        self._fed += len(data)
        at = 0
        while at + _LENGTH.size <= len(self._rest):
            (length,) = _LENGTH.unpack_from(self._rest, at)
            end = at + _LENGTH.size + length
            if end > len(self._rest):
                break
            message = pickle.loads(zlib.decompress(self._rest[at + _LENGTH.size : end]))
            self._record_message(message, self._fed - len(self._rest) + end)
            at = end
        self._rest = self._rest[at:]

    def _record_message(self, message: Any, end: int) -> None:
        """Record a message whose last byte is at stream position `end`.

        Only messages that set the receiver's log or acknowledge the sender's matter."""
        kind = message.get("type") if isinstance(message, dict) else None
        if kind == "append_entries" and "entries" in message:
            self._logs.append((end, message["prevLogIdx"] + len(message["entries"])))
        elif kind == "next_node_idx" and message["success"]:
            self._answers.append((end, message["next_node_idx"] - 1))

    def record_delivered(self, count: int) -> None:
        """Record that `count` more bytes have been delivered."""
        self._passed += count
        while self._logs and self._logs[0][0] <= self._passed:
            self._logs.popleft()
        while self._answers and self._answers[0][0] <= self._passed:
            self.acknowledged = max(self.acknowledged, self._answers.popleft()[1])

    def find_shortest_log_part(self) -> Part | None:
        """Return the part under way that leaves the receiver's log shortest.

        None when no message under way sets that log."""
        if not self._logs:
            return None
        end, last_index = min(self._logs, key=lambda log: log[1])
        return Part(end - self._passed, last_index)
