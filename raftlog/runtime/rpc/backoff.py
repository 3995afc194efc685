"""The pause before the next attempt to connect: doubled each time, bounded, and never the same for all."""

from random import Random

from raftlog.runtime.rpc.config import RpcConfig


class Backoff:
    """least/2 ≤ pause ≤ most. A connection that stood for at least the longest pause makes the next one short again."""

    def __init__(self, config: RpcConfig, random: Random) -> None:
        self._least_s = config.reconnect_min_ms / 1000
        self._most_s = config.reconnect_max_ms / 1000
        self._random = random
        self._next_s = self._least_s

    def next_pause_s(self) -> float:
        pause_s = self._next_s
        self._next_s = min(self._most_s, 2 * self._next_s)
        return pause_s * self._random.uniform(0.5, 1.0)

    def note_stood(self, seconds: float) -> None:
        """A connection ended that had stood for so long."""
        if seconds >= self._most_s:
            self._next_s = self._least_s
