"""Plants one bug in this process and runs seeds until a property detects it; prints one line of JSON.

Run by `python -O -m jepsen.planted.hunt NAME FIRST SEEDS`, because the product's assertions would detect most bugs
first. An error in the code under test does not count as detection: such seeds are counted and skipped."""

import json
import sys
from collections import Counter
from typing import Any

from jepsen.planted.registry import BUGS
from jepsen.simulation.campaign import LEVELS


def hunt(name: str, first: int, seeds: int) -> dict[str, Any]:
    """Plant the bug and run seeds; return the first seed that detects the bug, and the broken property.

    Both are None if no seed does. The result also counts the other failures."""
    bug = BUGS[name]
    bug.plant()
    others: Counter[str] = Counter()
    for seed in range(first, first + seeds):
        failure = LEVELS[bug.level](seed, **dict.fromkeys(bug.features, True)).failure
        if failure is not None and failure.is_property and failure.name in bug.properties:
            return {"name": name, "seed": seed, "property": failure.name, "what": failure.what, "others": others}
        if failure is not None:
            others[failure.name] += 1
    return {"name": name, "seed": None, "property": None, "what": "", "others": others}


if __name__ == "__main__":
    if __debug__:
        sys.exit("run with python -O: without assertions inside the product")
    print(json.dumps(hunt(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))  # noqa: T201 - this is its output
