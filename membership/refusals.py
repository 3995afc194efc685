"""Counts of discarded datagrams by reason, with at most one log line a minute for each reason.

Time is a parameter. Called by the agent."""

import logging
from typing import Final

from raftlog.membership.authentication import RefusedDatagram

_logger = logging.getLogger(__name__)

LOG_INTERVAL_S: Final = 60.0
_ADVICE: Final = {
    RefusedDatagram.FORGED: "signed with another cluster secret, or with none; compare --cluster-secret-file",
    RefusedDatagram.CLUSTER: "a broker of another cluster has this address among its own",
    RefusedDatagram.VERSION: "another release gossips in another way",
    RefusedDatagram.OLD_LIFE: "an earlier life of a process, or a copy of its disk",
    RefusedDatagram.OVERLOADED: "more arrives than is looked at",
}


class Refusals:
    """Counters of the datagrams and frames that an agent refused."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(RefusedDatagram, 0)
        self._logged: dict[RefusedDatagram, tuple[float, int]] = {}
        """Time of the last log line for each reason, and the count at that time."""

    def counts(self) -> dict[str, int]:
        """Return the counts of all reasons."""
        return {reason.value: count for reason, count in self._counts.items()}

    def count_refusal(self, reason: RefusedDatagram, source: str, now: float) -> bool:
        """Count a refusal; return whether a log line was written too."""
        self._counts[reason] += 1
        logged_at, count = self._logged.get(reason, (float("-inf"), 0))
        if now - logged_at < LOG_INTERVAL_S:
            return False
        self._logged[reason] = now, self._counts[reason]
        advice = f" ({_ADVICE[reason]})" if reason in _ADVICE else ""
        silent = self._counts[reason] - count - 1
        more = f", {silent} more since the last line" if silent else ""
        _logger.warning("gossip from %s refused: %s%s%s", source, reason.value, advice, more)
        return True
