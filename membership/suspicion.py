"""Suspicion of a member: time to refute it before the member is declared dead (SWIM 4.2; Lifeguard: LHA-Suspicion).

It begins long, because the accuser may be the unhealthy one, and shrinks as others come to the same suspicion by
themselves:

    timeout = max(min_s, max_s - (max_s - min_s) · log(c + 1) / log(k + 1))

with c of k confirmations. Called by the machine, for each suspect once."""

import math

from raftlog.types import NodeId


class Suspicion:
    """Suspicion of one member: its accusers, which are distinct, and its deadline. The first accuser began it."""

    def __init__(self, first: NodeId, now: float) -> None:
        self.first = first
        self.began = now
        self._accusers = {first}

    @property
    def confirmations(self) -> int:
        return len(self._accusers) - 1

    def add_accuser(self, by: NodeId, wanted: int) -> bool:
        """Add an accuser; return whether to gossip its claim: it is new, and `wanted` were not reached before it."""
        if by in self._accusers or self.confirmations >= wanted:
            return False
        self._accusers.add(by)
        return True

    def deadline(self, min_s: float, max_s: float, wanted: int) -> float:
        """Return the end of the suspicion. It is earliest with `wanted` confirmations (k), and if none is possible."""
        return self.began + timeout_s(min_s, max_s, self.confirmations, wanted)


def timeout_s(min_s: float, max_s: float, confirmations: int, wanted: int) -> float:
    """Return the seconds after which a suspect with this number of confirmations is declared dead (formula above).

    With `wanted` confirmations or more it is `min_s`."""
    if confirmations >= wanted:
        return min_s
    return max(min_s, max_s - (max_s - min_s) * math.log(confirmations + 1) / math.log(wanted + 1))
