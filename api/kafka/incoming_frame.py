"""Frame that arrives in more than one piece, or that waits for memory.

    filled ≤ arrived ≤ size,   filled ≤ capacity ≤ size,   held ≥ capacity, except for small frames

The memory grows with the received bytes, to at most twice their number, and not by the announced size. Used by
`connection`."""

from collections.abc import Callable
from typing import Final

from raftlog.runtime.memory_budget import MemoryBudget

UNCHARGED_BYTES_MAX: Final = 4 * 1024
"""Frames up to this size count as part of their connection, not as memory of the budget."""
SMALL_BYTES_MAX: Final = 64 * 1024
"""Frames up to this size may use the budget's reserve: heartbeats, commits, small records."""
DIRECT_BYTES_MIN: Final = 128 * 1024
"""Free memory of a frame from which on bytes are read into it, and not copied from the scratch buffer."""
FRAME_BYTES_PER_S_MIN: Final = 16 * 1024
"""Minimum rate at which a frame must arrive while it holds memory of the budget."""


def describe_wrong_size(size: int, low: int, high: int) -> str:
    """Describe a frame whose size is outside of the bounds."""
    if size < 0:
        return f"a frame of {size} bytes"
    if size < low:
        return f"a frame of {size} bytes, shorter than a request header"
    return f"a frame of {size} bytes, more than {high}; is the client one for Kafka's protocol without TLS?"


class IncomingFrame:
    """Frame that is being received, without its length prefix; it owns its memory in the budget."""

    __slots__ = ("_arrived", "_bytes", "filled", "held", "is_charged", "size", "swept_at", "swept_bytes")

    def __init__(self, size: int, piece: memoryview, *, is_charged: bool) -> None:
        """Begin a frame of `size` bytes with its first bytes, `piece`."""
        self.size = size
        self.is_charged = is_charged
        """Whether the frame takes memory of the budget even if it has at most `UNCHARGED_BYTES_MAX`."""
        self.filled = len(piece)
        if self.filled == size:
            self._bytes = memoryview(bytearray(piece))  # not filled with zeros before
        else:
            self._bytes = memoryview(bytearray(min(size, max(self.filled, UNCHARGED_BYTES_MAX))))
            self._bytes[: self.filled] = piece
        self._arrived = self.filled
        """Received bytes of the frame, with those that are not in its memory yet."""
        self.held = 0
        """Bytes taken from the budget."""
        self.swept_bytes, self.swept_at = 0, 0.0
        """Bytes that had arrived at the last sweep, and its time; 0 before the first."""

    @property
    def capacity(self) -> int:
        """Bytes of memory that are allocated."""
        return len(self._bytes)

    @property
    def room(self) -> memoryview:
        """Free part of the memory, for the next received bytes."""
        return self._bytes[self.filled :]

    @property
    def has_much_room(self) -> bool:
        """Whether the next bytes are read into `room`."""
        return len(self._bytes) - self.filled >= DIRECT_BYTES_MIN

    @property
    def next_capacity(self) -> int:
        """Capacity that the frame needs for the bytes that have arrived, and for one more."""
        return self.capacity if self._arrived < self.capacity else min(self.size, 2 * self._arrived)

    def note_arrived(self, count: int) -> None:
        """Count the bytes that follow the filled ones; the caller adds them once there is memory for them."""
        self._arrived = self.filled + count

    def note_filled(self, count: int) -> None:
        """Count the bytes that were read into `room`."""
        self.filled += count
        self._arrived = self.filled

    def add(self, piece: memoryview) -> None:
        """Copy the next bytes into the memory, which must have room for them."""
        self._bytes[self.filled : self.filled + len(piece)] = piece
        self.note_filled(len(piece))

    @property
    def missing(self) -> int:
        """Bytes that have to be taken from the budget before `grow`."""
        needed = self.next_capacity
        return max(0, needed - self.held) if self.is_charged or needed > UNCHARGED_BYTES_MAX else 0

    def take_missing(self, budget: MemoryBudget, on_granted: Callable[[], None]) -> bool:
        """Take the missing bytes from the budget; return whether they were free.

        If not, `on_granted` is called when they are granted."""
        missing = self.missing
        if missing and not budget.take(self, missing, on_granted, is_small=self.size <= SMALL_BYTES_MAX):
            return False
        self.held += missing
        return True

    def grow(self) -> None:
        """Enlarge the memory to `next_capacity`."""
        if self.next_capacity > self.capacity:
            larger = memoryview(bytearray(self.next_capacity))
            larger[: self.filled] = self._bytes[: self.filled]
            self._bytes = larger

    def is_slow(self, now: float, bytes_per_s_min: int) -> bool:
        """Return whether bytes arrived at less than `bytes_per_s_min` since the last call; called at each sweep."""
        before, since = self.swept_bytes, self.swept_at
        self.swept_bytes, self.swept_at = self.filled, now
        return since > 0 and self.filled - before < bytes_per_s_min * (now - since)

    @property
    def is_complete(self) -> bool:
        """Whether all bytes have arrived."""
        return self.filled == self.size

    @property
    def content(self) -> memoryview:
        """Bytes of a complete frame; the memory is not reused."""
        assert self.is_complete, f"{self.filled} of {self.size} bytes"
        return self._bytes
