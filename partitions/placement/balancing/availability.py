"""Availability of brokers, as the controller's leader has observed it since it became leader.

        available   connected without a break for `SETTLE_S`: it can receive replicas and leaderships
    silent_s    seconds since it was last connected; 0 when the controller's leadership began

A new leader of the controller restarts all clocks, so a fail-over never shortens a broker's time; nor does a pause
of this process. Pure; times are the loop's. Called by the balancer at every planning interval."""

from collections.abc import Mapping
from typing import Final

SETTLE_S: Final = 3.0
_LOOKS_S_MAX: Final = 3.0
"""Longest interval between two calls of `record`; after a longer one this process was paused and received nothing."""


class Availability:
    """Availability of brokers, observed by the controller's leader during its leadership."""

    def __init__(self) -> None:
        self._heard_at: dict[int, float] = {}
        self._since: dict[int, float] = {}
        """By connected broker: the time since which every call of `record` found it connected."""
        self._looked_at: float | None = None

    def record(self, connected: Mapping[int, bool], now: float) -> None:
        """Record which brokers are connected now; `connected` has a flag for each broker, by node id."""
        pause_s = 0.0 if self._looked_at is None else now - self._looked_at
        self._looked_at = now
        if pause_s > _LOOKS_S_MAX:
            self._heard_at = {node: at + pause_s for node, at in self._heard_at.items()}
        for gone in self._heard_at.keys() - connected.keys():
            del self._heard_at[gone]
            self._since.pop(gone, None)
        for node, is_reachable in connected.items():
            if is_reachable:
                self._heard_at[node] = now
                self._since.setdefault(node, now)
            else:
                self._heard_at.setdefault(node, now)
                self._since.pop(node, None)

    def is_reachable(self, node: int) -> bool:
        """Return whether the last call of `record` found the broker connected."""
        return node in self._since

    def is_available(self, node: int, now: float) -> bool:
        """Return whether the broker has been connected without a break for `SETTLE_S`."""
        since = self._since.get(node)
        return since is not None and now - since >= SETTLE_S

    def silent_s(self, node: int, now: float) -> float:
        """Return the seconds since the broker was last connected; 0 for an unknown broker."""
        heard_at = self._heard_at.get(node)
        return 0.0 if heard_at is None or node in self._since else now - heard_at
