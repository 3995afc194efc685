"""Health of this process, measured by its missed answers (Lifeguard: local health awareness, LHA-Probe).

A process that is short of CPU or cut off gets no answers and would suspect all others. So each sign of bad health makes
its timeouts longer, and each answered probe makes them shorter. `0 ≤ score ≤ score_max`. Called by the machine."""


class Awareness:
    """Local health of this member (Lifeguard's multiplier): score 0 is healthy, higher scores slow its probes."""

    def __init__(self, score_max: int) -> None:
        self.score = 0
        self._score_max = score_max

    @property
    def factor(self) -> int:
        """Multiplier of probe timeouts and of the protocol period."""
        return 1 + self.score

    def worsen(self, by: int) -> None:
        """Raise the score: by 1 for a failed probe, a silent helper, a suspicion of this member, or a late call."""
        self.score = min(self.score + by, self._score_max)

    def improve(self) -> None:
        """Lower the score by 1, after an answered probe."""
        self.score = max(self.score - 1, 0)
