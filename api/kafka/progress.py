"""Detection of idle Kafka connections and of clients that do not read their answers. Pure.

Used by `connection`."""

from enum import Enum
from typing import Final

STALL_S: Final = 60.0
"""Time without progress after which a connection is closed because its client does not read the answers."""
UNCHARGED_ANSWER_BYTES_MAX: Final = 64 * 1024
"""Answers up to this size take no memory from the budget: they are only in the transport's buffer."""
ANSWER_BYTES_PER_S_MIN: Final = 16 * 1024
"""Minimum rate at which a client must read answers that hold memory of the budget."""


class SweepFinding(Enum):
    """Result of a periodic check of a connection (`ProgressWatch.sweep`)."""

    ACTIVE = "active"
    IDLE = "idle"
    """No request was received or pending for the idle time."""
    STALLED = "stalled"
    """The client reads its answers too slowly, or not at all."""


class ProgressWatch:
    """Detector of idle and stalled connections, by the bytes sent and received between periodic checks."""

    __slots__ = ("_swept_at", "_swept_sent", "_was_unsent", "is_active")

    def __init__(self, now: float) -> None:
        """Begin to watch a new connection, at the loop's time `now`."""
        self.is_active = True
        """Whether anything arrived since the last sweep."""
        self._swept_sent, self._swept_at = 0, now
        """Bytes that were written to the socket up to the last sweep with progress, and the time of that sweep."""
        self._was_unsent = False
        """Whether there were unsent answers at the last sweep."""

    def sweep(self, now: float, sent: int, unsent: int, idle_s_max: float, *, is_busy: bool) -> SweepFinding:
        """Return whether the connection is active, idle or stalled since the last sweep.

        `sent`: bytes of all answers so far; `unsent`: those in the transport's buffer; `is_busy`: a request is
        pending."""
        was_unsent, self._was_unsent = self._was_unsent, unsent > 0
        rate = ANSWER_BYTES_PER_S_MIN if unsent > UNCHARGED_ANSWER_BYTES_MAX else 0
        if unsent and was_unsent and sent - unsent - self._swept_sent <= rate * (now - self._swept_at):
            return SweepFinding.STALLED if now - self._swept_at > STALL_S else SweepFinding.ACTIVE
        if unsent or self.is_active or is_busy:
            self.is_active = False
            self._swept_sent, self._swept_at = sent - unsent, now
            return SweepFinding.ACTIVE
        return SweepFinding.IDLE if now - self._swept_at > idle_s_max else SweepFinding.ACTIVE
