"""Liveness of processes by heartbeats: a stalled process keeps its connections, but sends no heartbeats.

Only processes with a group in common send heartbeats, so a process that never sent one is not silent. Called by the
node."""

from collections.abc import Callable
from typing import Final

from raftlog.types import NodeId

SILENCE_S: Final = 1.5
"""Seconds without a heartbeat after which a process counts as stalled: a few election timeouts."""


class HeartbeatTimes:
    """Times of the last heartbeats, by the injected clock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._heard_at: dict[NodeId, float] = {}

    def record_heartbeat(self, node: NodeId) -> None:
        """Record that a heartbeat of the node has just arrived."""
        self._heard_at[node] = self._clock()

    def restart_timeout(self, node: NodeId) -> None:
        """Restart the time limit of a process that has sent heartbeats before."""
        if node in self._heard_at:
            self.record_heartbeat(node)

    def heard_at(self, node: NodeId) -> float | None:
        """Return the time of the last heartbeat; None without one."""
        return self._heard_at.get(node)

    def is_silent(self, node: NodeId) -> bool:
        """Return whether a process has stopped sending heartbeats."""
        heard_at = self._heard_at.get(node)
        return heard_at is not None and self._clock() - heard_at > SILENCE_S
