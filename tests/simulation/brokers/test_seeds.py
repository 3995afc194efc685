"""Whole brokers and the founding of their clusters under faults: fixed seeds, kept seeds, and equal traces."""

import json
import os
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from jepsen.simulation.campaign import LEVELS
from jepsen.simulation.kept_seeds import KeptSeed, kept_seeds
from jepsen.simulation.outcome import Outcome
from jepsen.simulation.report import failure_text

SEEDS = {"broker": range(16, 25), "groups": range(1, 7), "records": range(1, 5), "founding": range(1, 41)}
SEEDS_PER_TEST = {"broker": 1, "groups": 1, "records": 1, "founding": 2}
UNORDERED_SEEDS = {
    "broker": range(101, 104),
    "groups": range(101, 103),
    "records": range(101, 103),
    "founding": range(101, 121),
}
UNORDERED_PER_TEST = {"broker": 1, "groups": 1, "records": 1, "founding": 2}
REPEATED = {"broker": 16, "groups": 2, "records": 2, "founding": 1}
"""Seed of each level whose run is repeated; the one of brokers has gossip with pests, and operators."""
KEPT = [
    pytest.param(kept, marks=[pytest.mark.slow] if level == "broker" else [])
    for level in SEEDS
    for kept in kept_seeds(level)
]


def chunks(seeds: dict[str, range], per_test: dict[str, int]) -> list[Any]:
    """Return the parameters `level` and `first` of the tests of these seeds; only the first one is not slow."""
    return [
        pytest.param(level, first, marks=[pytest.mark.slow] if first != each.start else [])
        for level, each in seeds.items()
        for first in each[:: per_test[level]]
    ]


@cache
def outcome_of(level: str, seed: int, *, unordered_syncs: bool = False) -> Outcome:
    """Return the outcome of a seed, cached so that a trace is compared with that of the checked run."""
    return LEVELS[level](seed, unordered_syncs=unordered_syncs)


def run(level: str, seed: int, *, unordered_syncs: bool = False) -> None:
    outcome = outcome_of(level, seed, unordered_syncs=unordered_syncs)
    if outcome.failure is not None:
        pytest.fail(failure_text(outcome, "the one under test"), pytrace=False)


@pytest.mark.parametrize(("level", "first"), chunks(SEEDS, SEEDS_PER_TEST))
def test_fixed_seeds_have_no_violation(level: str, first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST[level]):
        run(level, seed)


@pytest.mark.parametrize(("level", "first"), chunks(UNORDERED_SEEDS, UNORDERED_PER_TEST))
def test_fixed_seeds_with_unordered_syncs_have_no_violation(level: str, first: int) -> None:
    for seed in range(first, first + UNORDERED_PER_TEST[level]):
        run(level, seed, unordered_syncs=True)


@pytest.mark.parametrize("kept", KEPT, ids=str)
def test_kept_seeds_have_no_violation(kept: KeptSeed) -> None:
    run(kept.level, kept.seed, unordered_syncs=kept.unordered_syncs)


def digests(level: str) -> dict[str, str]:
    """Return the digests of one seed, in an interpreter of its own, with another hash seed."""
    hash_seed = 2 if os.environ.get("PYTHONHASHSEED") == "1" else 1
    arguments = ("--level", level, "--seeds", "1", "--from", str(REPEATED[level]), "--jobs", "1", "--json")
    command = (sys.executable, "-m", "jepsen.simulation", *arguments)
    environment = os.environ | {"PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)["digests"]
    return found


@pytest.mark.parametrize(
    "level",
    [pytest.param(level, marks=[pytest.mark.slow] if level != "founding" else []) for level in SEEDS],
)
def test_two_hash_seeds_give_the_same_trace(level: str) -> None:
    seed = REPEATED[level]
    here = {str(seed): outcome_of(level, seed).digest}
    assert digests(level) == here
