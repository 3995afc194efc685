"""Suspicion of a member: time to refute it before the member is declared dead (SWIM 4.2; Lifeguard: LHA-Suspicion).

The time is long at first, because the accuser may be the unhealthy one. It shrinks when other members suspect the same
member independently:

    timeout = max(min_s, max_s - (max_s - min_s) · log(c + 1) / log(k + 1))

with c of k confirmations. The machine has one suspicion for each suspect."""

import math

from raftlog.types import NodeId


class Suspicion:
    """Suspicion of one member: its distinct accusers, of which `first` began the suspicion, and its deadline."""

    def __init__(self, first: NodeId, now: float) -> None:
        self.first = first
        self.began = now
        self._accusers = {first}

    @property
    def confirmations(self) -> int:
        return len(self._accusers) - 1

    def add_accuser(self, by: NodeId, wanted: int) -> bool:
        """Add an accuser; return whether to gossip its claim.

        That is so if the accuser is new, and there were fewer than `wanted` confirmations before."""
        if by in self._accusers or self.confirmations >= wanted:
            return False
        self._accusers.add(by)
        return True

    def deadline(self, min_s: float, max_s: float, wanted: int) -> float:
        """Return the time at which the suspect is declared dead; earliest with `wanted` confirmations or more."""
        return self.began + timeout_s(min_s, max_s, self.confirmations, wanted)


def timeout_s(min_s: float, max_s: float, confirmations: int, wanted: int) -> float:
    """Return the seconds after which a suspect with this number of confirmations is declared dead (formula above).

    With `wanted` confirmations or more it is `min_s`."""
    if confirmations >= wanted:
        return min_s
    return max(min_s, max_s - (max_s - min_s) * math.log(confirmations + 1) / math.log(wanted + 1))
