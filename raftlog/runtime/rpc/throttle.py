"""A token bucket: so many bytes a second, and a burst after a pause. Time is a parameter.

tokens ≤ burst;   what is written may put it in debt, so a frame larger than the burst passes as well, and is paid for
"""


class TokenBucket:
    """Shared by all that write to the same budget."""

    def __init__(self, bytes_per_s: int, burst_bytes: int) -> None:
        self._bytes_per_s = bytes_per_s
        self._burst_bytes = burst_bytes
        self._tokens = float(burst_bytes)
        self._filled_at: float | None = None

    def delay_s(self, now: float) -> float:
        """How long to wait until something may be written; 0 when it may be now."""
        if self._filled_at is not None:
            gained = (now - self._filled_at) * self._bytes_per_s
            self._tokens = min(float(self._burst_bytes), self._tokens + gained)
        self._filled_at = now
        return max(0.0, -self._tokens / self._bytes_per_s)

    def set_rate(self, bytes_per_s: int) -> None:
        """From now on; what was gained since the last look counts by the new rate."""
        self._bytes_per_s = bytes_per_s

    def take(self, size: int) -> None:
        """So many bytes were written."""
        self._tokens -= size
