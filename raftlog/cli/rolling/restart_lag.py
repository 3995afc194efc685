"""Partitions that really lack in-sync replicas, from several readings of a cluster under load.

The in-sync state of the health report may be seconds old, too old for stopping a broker. So this module uses the
partitions that lag at each reading. Of many busy partitions some lag by one commit at any time, so a partition counts
as lacking replicas only if it lagged in every reading of the last `WINDOW_S`."""

from collections import deque
from collections.abc import Sequence
from typing import Final

from raftlog.client import ClusterHealth

WINDOW_S: Final = 2.0
_LAG_REASON: Final = "partitions lack replicas in sync"
"""Text of the health report about the partitions that lag in one reading."""
_NAMES_SHOWN: Final = 5


class RestartLag:
    """Tracker of partitions that lack replicas over the health readings of one wait; each wait needs a new one."""

    def __init__(self) -> None:
        self._readings: deque[tuple[float, frozenset[str]]] = deque()

    def add_reading(self, health: ClusterHealth, now: float) -> list[str]:
        """Add a reading; return the names of the partitions that lacked replicas in all recent readings."""
        listed = frozenset(health.lagging_partitions)
        if len(listed) < health.lagging_count:  # other partitions lag that are not listed
            self._readings.clear()
            return sorted(listed)
        self._readings.append((now, listed))
        while self._readings[0][0] < now - WINDOW_S:
            self._readings.popleft()
        return sorted(frozenset.intersection(*(each for _, each in self._readings)))


def unhealthy_reason(health: ClusterHealth, lacking: Sequence[str]) -> str | None:
    """Return the reasons of the health report without partitions that lag only for a moment; None: healthy."""
    reasons = [reason for reason in health.unhealthy_reasons if _LAG_REASON not in reason]
    if health.electing_count > health.leaderless_count:  # the health report ignores short elections
        reasons.append(_describe_leaderless(health))
    return "; ".join([*reasons, *_describe_lacking(lacking)]) or None


def degraded_reason(health: ClusterHealth, lacking: Sequence[str]) -> str | None:
    """Return the reasons against stopping another broker, a subset of those of `unhealthy_reason`; None: no reason."""
    reasons = []
    if health.nodes_down:
        reasons.append(f"nodes that do not answer: {', '.join(map(str, health.nodes_down))}")
    if health.electing_count:
        reasons.append(_describe_leaderless(health))
    return "; ".join([*reasons, *_describe_lacking(lacking)]) or None


def _describe_leaderless(health: ClusterHealth) -> str:
    """Return the sentence about partitions without a leader."""
    return f"{health.electing_count} partitions have no leader at this moment"


def _describe_lacking(lacking: Sequence[str]) -> list[str]:
    """Return a list with one sentence about partitions that lack replicas; empty without any."""
    if not lacking:
        return []
    shown = ", ".join(lacking[:_NAMES_SHOWN])
    return [f"{len(lacking)} partitions lack replicas: {shown}{', …' if len(lacking) > _NAMES_SHOWN else ''}"]
