"""Mix of operations: their kinds and weights, parsed from `send=1,poll=1,commit=1,list=1`.

send     a request with one or more records to a partition
poll     a fetch at the client's own position, which then advances; it does not wait for records
commit   a commit of the client's position as its group's offset
list     a read of the group's committed offsets"""

from random import Random
from typing import Final, Self

from raftlog.errors import InvalidArgument

KINDS: Final = ("send", "poll", "commit", "list")
"""Operations of Maelstrom's `kafka` workload."""


class Mix:
    """Random choice of the kind of the next operation, by weights."""

    def __init__(self, weights: dict[str, float]) -> None:
        """Draw kinds of requests with these weights; kinds without a weight are never drawn."""
        self.weights = {kind: weights[kind] for kind in KINDS if weights.get(kind, 0) > 0}
        self._kinds = list(self.weights)
        self._cumulated: list[float] = []
        total = 0.0
        for weight in self.weights.values():
            total += weight
            self._cumulated.append(total)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a mix; a kind without a number has weight 1. Raises `InvalidArgument`."""
        weights: dict[str, float] = {}
        for part in text.split(","):
            kind, equals, number = part.strip().partition("=")
            try:
                weight = float(number) if equals else 1.0
            except ValueError:
                weight = -1.0
            if kind not in KINDS or not 0 <= weight < float("inf"):
                raise InvalidArgument(
                    f"{part.strip()!r} is not KIND=WEIGHT, such as {KINDS[0]}=1; the kinds are {', '.join(KINDS)}"
                )
            weights[kind] = weight
        if not any(weights.values()):
            raise InvalidArgument(f"the mix {text!r} has no operation with a weight above 0")
        return cls(weights)

    def draw(self, random: Random) -> str:
        """Return a random kind, chosen by weight."""
        return random.choices(self._kinds, cum_weights=self._cumulated)[0]

    def __str__(self) -> str:
        return ",".join(f"{kind}={weight:g}" for kind, weight in self.weights.items())
