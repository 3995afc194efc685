"""Seeds that once detected a bug, with its cause; stored in `kept_seeds.json` and run by tests.

A seed determines a run only together with the code that draws from it. After a change of `options`, or of the order of
draws, the kept seeds give other runs. Then search for new seeds that detect the same bugs.
"""

import json
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).with_name("kept_seeds.json")


class KeptSeed(NamedTuple):
    """Seed that once detected a bug: `found` is the broken property, `cause` describes the bug."""

    seed: int
    found: str
    cause: str
    level: str = "driver"
    unordered_syncs: bool = False

    def __str__(self) -> str:
        return f"{self.level}-{self.seed}{'-unordered-syncs' if self.unordered_syncs else ''}"


def kept_seeds(level: str = "driver") -> list[KeptSeed]:
    """Return the kept seeds of one level of the simulation."""
    kept = [KeptSeed(**each) for each in json.loads(FILE.read_text())]
    return [each for each in kept if each.level == level]
