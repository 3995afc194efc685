"""Statistics of paired runs. Pure.

A round is four runs in the order A B B A. Its ratio is the geometric mean of the two pairs, B ÷ A each:

    ratio = √(b₁ ÷ a₁ · b₂ ÷ a₂)

An even drift over the round (a machine that gets slower) favours A in the first pair and B in the second, and cancels.
The figure is the median of the rounds' ratios. The noise of the method on this machine is found by measuring a tree
against itself in the same order: it is the largest distance of such a ratio from 1.
"""

import math
from collections.abc import Sequence
from statistics import median
from typing import Final, NamedTuple

FIRST, SECOND = 0, 1
ORDER: Final = (FIRST, SECOND, SECOND, FIRST)
"""Tree that each run of a round measures."""
SLOWDOWN_MAX: Final = 0.03
"""Slowdown that is tolerated in addition to the noise."""


def round_ratio(values: Sequence[float]) -> float:
    """Return second ÷ first tree of one round, from four positive values in the order of `ORDER`."""
    assert len(values) == len(ORDER), f"{len(values)} runs in a round"
    if min(values) <= 0:
        raise ValueError(f"a ratio needs positive values, not {min(values)}")
    first_a, first_b, second_b, second_a = values
    return math.sqrt(first_b / first_a * (second_b / second_a))


class Comparison(NamedTuple):
    """Ratios of rounds, at least one of each kind: `paired` is second ÷ first tree, `control` first ÷ first."""

    paired: tuple[float, ...]
    control: tuple[float, ...]
    is_lower_better: bool

    @property
    def ratio(self) -> float:
        """Median of the paired rounds."""
        return median(self.paired)

    @property
    def noise(self) -> float:
        """Largest relative deviation from 1 among control rounds, in either direction: 0.02 for 1.02 and 1 ÷ 1.02."""
        return math.exp(max(abs(math.log(ratio)) for ratio in self.control)) - 1

    @property
    def slowdown(self) -> float:
        """Relative slowdown of the second tree; negative if it is faster."""
        return (self.ratio if self.is_lower_better else 1 / self.ratio) - 1

    @property
    def is_acceptable(self) -> bool:
        """Whether the slowdown is at most `SLOWDOWN_MAX` plus the noise."""
        return self.slowdown <= SLOWDOWN_MAX + self.noise
