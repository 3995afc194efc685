"""Token bucket: a rate in bytes per second, and a burst after a pause. Time is a parameter.

tokens ≤ burst;   a write may make tokens negative, so a frame larger than the burst passes, and delays the next one"""


class TokenBucket:
    """Token bucket for bytes, shared by all writers that a rate limits together."""

    def __init__(self, bytes_per_s: int, burst_bytes: int) -> None:
        self._bytes_per_s = bytes_per_s
        self._burst_bytes = burst_bytes
        self._tokens = float(burst_bytes)
        self._filled_at: float | None = None

    def delay_s(self, now: float) -> float:
        """Return the seconds until the rate allows the next write; 0: now."""
        if self._filled_at is not None:
            gained = (now - self._filled_at) * self._bytes_per_s
            self._tokens = min(float(self._burst_bytes), self._tokens + gained)
        self._filled_at = now
        return max(0.0, -self._tokens / self._bytes_per_s)

    def set_rate(self, bytes_per_s: int) -> None:
        """Set the rate; tokens gained since the last call of `delay_s` count by the new rate."""
        self._bytes_per_s = bytes_per_s

    def take(self, size: int) -> None:
        """Take the tokens for `size` bytes that were written."""
        self._tokens -= size
