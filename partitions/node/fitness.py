"""Fitness of processes to lead: slow (stalled disk or loop), full (no room on the disk), excluded by operators.

    slow for unfit_ms · 2^n after a stall, the n-th relapse in a row;    full while it reports so, and FULL_S longer

Each process determines its own fitness and reports the result to the others repeatedly while it lasts; a report that is
not repeated expires. It is a hint: it moves leaderships and election timeouts, and safety does not depend on it. Pure;
times are the loop's. Owned by the node."""

from collections.abc import Callable
from typing import Final, NamedTuple

from raftlog.types import NodeId

FULL_S: Final = 5.0
"""Seconds for which a disk counts as full after the last report of its process."""
_DOUBLINGS_MAX: Final = 5
_RELAPSE: Final = 4
"""A stall is a relapse if it occurs within this number of slow periods after the end of the last one."""


class _Report(NamedTuple):
    """Report of one process on its fitness: times until which it counts as slow and as full."""

    slow_until: float
    full_until: float


_FIT: Final = _Report(0.0, 0.0)


class Fitness:
    """Fitness of this process (`me`) and the others to lead: not slow, with room on the disk, not excluded."""

    def __init__(self, me: NodeId, unfit_ms: int) -> None:
        """Begin with a fit process; a slow one is unfit for `unfit_ms` milliseconds, and longer after relapses."""
        self._me, self._unfit_s = me, unfit_ms / 1000
        self.is_excluded: Callable[[NodeId], bool] = lambda node: False
        """Whether operators want the process to lead nothing; set by the façade."""
        self._reports: dict[NodeId, _Report] = {}
        self._relapses = 0
        self._is_full = False

    # this process

    def record_stall(self, now: float) -> None:
        """Record a stall of the disk or the loop here: this process leads nothing for a while, if others can."""
        slow_until = self._report(self._me).slow_until
        if now >= slow_until:
            is_relapse = slow_until > 0 and now < slow_until + _RELAPSE * self._unfit_s * 2**self._relapses
            self._relapses = min(self._relapses + 1, _DOUBLINGS_MAX) if is_relapse else 0
        self._reports[self._me] = self._report(self._me)._replace(slow_until=now + self._unfit_s * 2**self._relapses)

    def record_full(self, is_full: bool) -> None:
        """Record whether the disk here has no room for records."""
        self._is_full = is_full

    def own_report(self, now: float) -> tuple[int, bool]:
        """Return the report for other processes: remaining ms of being slow, and whether this process is full."""
        left_s = self._report(self._me).slow_until - now
        return max(0, round(left_s * 1000)), self._is_full

    # any process

    def record_report(self, node: NodeId, slow_ms: int, is_full: bool, now: float) -> None:
        """Replace the report of another process.

        The process counts as slow for `slow_ms` more. `is_full` means that its disk has no room."""
        self._reports[node] = _Report(now + slow_ms / 1000, now + FULL_S if is_full else 0.0)

    def forget(self, node: NodeId) -> None:
        """Drop the report of a process that has restarted, perhaps with a sound disk."""
        self._reports.pop(node, None)

    def is_slow(self, node: NodeId, now: float) -> bool:
        """Return whether the node reported slowness that is not over."""
        return now < self._report(node).slow_until

    def is_full(self, node: NodeId, now: float) -> bool:
        """Return whether the node's disk is reported to be full."""
        return self._is_full if node == self._me else now < self._report(node).full_until

    def is_fit(self, node: NodeId, now: float) -> bool:
        """Return whether the process may receive leaderships, or keep those that it has."""
        return not self.is_slow(node, now) and not self.is_full(node, now) and not self.is_excluded(node)

    def is_any_full(self, now: float) -> bool:
        """Return whether any disk in the cluster is known to be full."""
        return self._is_full or any(now < report.full_until for report in self._reports.values())

    def _report(self, node: NodeId) -> _Report:
        """Return the last report of a node; without one it is fit."""
        return self._reports.get(node, _FIT)
