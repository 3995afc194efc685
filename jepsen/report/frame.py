"""Time span of all plots of a page, and the faults in it."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

_PALETTE: Final = ("#e69f00", "#56b4e9", "#009e73", "#cc79a7", "#0072b2", "#d55e00", "#b5a400", "#8a63d2")
"""Palette of Okabe and Ito, distinguishable with colour blindness; the yellow is darker, to be visible on white."""
_BINS_MAX: Final = 240


class Band(NamedTuple):
    """Fault in a plot, with or without an observed effect, in seconds from the beginning of the load.

    Its victims served again at `served_s`."""

    kind: str
    label: str
    begin_s: float
    end_s: float
    served_s: float
    text: str
    """Description of the fault with its time and proof."""

    @classmethod
    def of(cls, happened: Mapping[str, Any]) -> "Band":
        """Return the band of a fault, as recorded in the timeline of a run."""
        kind, description = happened["kind"], happened["what"]
        begin_s, end_s, served_s = happened["begin_s"], happened["end_s"], happened.get("served_s", happened["end_s"])
        served = f", served again at {served_s:.1f} s" if served_s > end_s else ""
        proof = f"Proof: {happened['proof']}" if happened["proof"] else "Nothing was seen of it"
        text = f"{description}, {begin_s:.1f} to {end_s:.1f} s{served}. {proof}"
        return cls(kind, label_of(kind, description), begin_s, end_s, served_s, text)


def label_of(kind: str, description: str) -> str:
    """Return a short label of a band whose row names the kind: the shape, and the nodes where they are named.

    `cut, halves: 1→3, 3→1` is `halves`, `kill nodes 3, 1` is `3, 1`, `clock, jump: node 2` is `jump 2`, and `order to
    move, node 3, partition 2` is `move 3`."""
    shape, colon, victims = description.removeprefix(kind).removeprefix("order to ").lstrip(", ").partition(": ")
    if colon and not victims.startswith("node"):
        return shape
    return re.sub(r"\bnodes? |, partition \d+|,(?= nodes? )", "", f"{shape} {victims}").strip()


class Frame(NamedTuple):
    """Time span that the plots show, in seconds from the beginning of the load.

    The load ends at `load_s`; the drain follows."""

    begin_s: float
    end_s: float
    load_s: float
    bands: tuple[Band, ...]
    quiet: tuple[tuple[float, float], ...]

    @property
    def colours(self) -> dict[str, str]:
        """Colour of each kind of fault."""
        kinds = sorted({band.kind for band in self.bands})
        return {kind: _PALETTE[number % len(_PALETTE)] for number, kind in enumerate(kinds)}

    @property
    def bin_s(self) -> float:
        """Width of a bin, in whole seconds, so that a second more or less does not change all figures."""
        return float(max(1, math.ceil((self.end_s - self.begin_s) / _BINS_MAX)))

    def edges(self) -> list[float]:
        """Return the edges of the bins, which cover the whole frame; one edge is 0."""
        first, last = math.floor(self.begin_s / self.bin_s), math.ceil(self.end_s / self.bin_s)
        return [number * self.bin_s for number in range(first, max(last, first + 1) + 1)]


def assign_lanes(bands: Sequence[Band]) -> Iterable[tuple[int, Band]]:
    """Yield the bands of one kind with lane numbers, so that no two in a lane overlap; low lanes are used first."""
    free_at: list[float] = []
    for band in sorted(bands, key=lambda each: each.begin_s):
        lane = next((number for number, at in enumerate(free_at) if at <= band.begin_s), len(free_at))
        if lane == len(free_at):
            free_at.append(0.0)
        free_at[lane] = band.served_s
        yield lane, band
