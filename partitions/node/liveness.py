"""Which processes were heard of lately: one that stands still keeps its connections, and sends no heartbeats.

Only processes with a group in common send heartbeats, so one that was never heard is not silent. Called by the node.
"""

from collections.abc import Callable
from typing import Final

from raftlog.types import NodeId

SILENCE_S: Final = 1.5
"""A process that has sent no heartbeat for so long is taken for one that stands still: a few election timeouts."""


class Hearing:
    """By the clock that it is given."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._heard_at: dict[NodeId, float] = {}

    def beat(self, node: NodeId) -> None:
        """A heartbeat came."""
        self._heard_at[node] = self._clock()

    def connected(self, node: NodeId) -> None:
        """One that was heard before has its time anew."""
        if node in self._heard_at:
            self.beat(node)

    def heard_at(self, node: NodeId) -> float | None:
        """When its last heartbeat came."""
        return self._heard_at.get(node)

    def is_silent(self, node: NodeId) -> bool:
        """Whether it was heard, and is not any more."""
        heard_at = self._heard_at.get(node)
        return heard_at is not None and self._clock() - heard_at > SILENCE_S
