"""Which partitions really lack replicas, from several looks at a cluster that is written to.

What health calls in sync may be seconds behind, which is too much for a broker to be stopped. So this goes by the
partitions that lag in a look: of many busy ones some do at any time, by one commit. What lacks replicas is what lagged
in every look of the last `LOOKED_S`.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from raftlog.client import ClusterHealth

LOOKED_S: Final = 2.0
_SAID_OF_REPLICAS: Final = "partitions lack replicas in sync"
"""What health says of one look."""
_NAMES_SHOWN: Final = 5


class RestartLag:
    """For one wait: what was seen before a restart says nothing about what is there afterwards."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, frozenset[str]]] = deque()

    def of(self, health: ClusterHealth, now: float) -> list[str]:
        """Partitions that lacked replicas lately whenever somebody looked, by name."""
        listed = frozenset(health.lagging_partitions)
        if len(listed) < health.lagging_count:  # of those that are not listed nothing is known
            self._looks.clear()
            return sorted(listed)
        self._looks.append((now, listed))
        while self._looks[0][0] < now - LOOKED_S:
            self._looks.popleft()
        return sorted(frozenset.intersection(*(each for _, each in self._looks)))


def why_not_healthy(health: ClusterHealth, lacking: Sequence[str]) -> str | None:
    """The reasons that health gives, but for replicas those that lack them really; None: there are none."""
    reasons = [reason for reason in health.unhealthy_reasons if _SAID_OF_REPLICAS not in reason]
    if health.electing_count > health.leaderless_count:  # which health does not count for a while
        reasons.append(_without_leader(health))
    return "; ".join([*reasons, *_said(lacking)]) or None


def why_not_whole(health: ClusterHealth, lacking: Sequence[str]) -> str | None:
    """What keeps another broker from being stopped without harm; less than what keeps it from being healthy."""
    reasons = []
    if health.nodes_down:
        reasons.append(f"nodes that do not answer: {', '.join(map(str, health.nodes_down))}")
    if health.electing_count:
        reasons.append(_without_leader(health))
    return "; ".join([*reasons, *_said(lacking)]) or None


def _without_leader(health: ClusterHealth) -> str:
    return f"{health.electing_count} partitions have no leader at this moment"


def _said(lacking: Sequence[str]) -> list[str]:
    if not lacking:
        return []
    shown = ", ".join(lacking[:_NAMES_SHOWN])
    return [f"{len(lacking)} partitions lack replicas: {shown}{', …' if len(lacking) > _NAMES_SHOWN else ''}"]
