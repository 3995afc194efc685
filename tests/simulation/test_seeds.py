"""Whole clusters under faults: sixty fixed seeds, and seeds that once detected a violation."""

import json
import os
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from jepsen.simulation.kept_seeds import KeptSeed, kept_seeds
from jepsen.simulation.outcome import Outcome
from jepsen.simulation.report import failure_text
from jepsen.simulation.run import simulate

SEEDS = range(1, 61)
UNORDERED_SEEDS = range(101, 121)
SEEDS_PER_TEST = 2
REPEATED = [seed if seed == SEEDS.start else pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 11, 12)]
"""Seeds whose trace is compared with that of another hash seed."""
QUICK_KEPT = 3
"""Kept seeds that are not slow."""
KEPT = [
    pytest.param(kept, marks=[pytest.mark.slow] if number >= QUICK_KEPT else [])
    for number, kept in enumerate(kept_seeds())
]


def chunks(seeds: range) -> list[Any]:
    """Return the first seed of each test; all tests but the first are slow."""
    return [
        pytest.param(first, marks=[pytest.mark.slow] if first != seeds.start else [])
        for first in seeds[::SEEDS_PER_TEST]
    ]


@cache
def outcome_of(seed: int, *, unordered_syncs: bool = False) -> Outcome:
    """Return the outcome of a seed, cached so that a trace is compared with that of the checked run."""
    return simulate(seed, unordered_syncs=unordered_syncs)


def run(seed: int, *, unordered_syncs: bool = False) -> None:
    outcome = outcome_of(seed, unordered_syncs=unordered_syncs)
    if outcome.failure is not None:
        pytest.fail(failure_text(outcome, "the one under test"), pytrace=False)


@pytest.mark.parametrize("first", chunks(SEEDS))
def test_fixed_seeds_have_no_violation(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        run(seed)


@pytest.mark.parametrize("first", chunks(UNORDERED_SEEDS))
def test_fixed_seeds_with_unordered_syncs_have_no_violation(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        run(seed, unordered_syncs=True)


@pytest.mark.parametrize("kept", KEPT, ids=str)
def test_kept_seeds_have_no_violation(kept: KeptSeed) -> None:
    run(kept.seed, unordered_syncs=kept.unordered_syncs)


def digest_with_another_hash_seed(seed: int) -> str:
    """Return the digest of a seed, run in an interpreter of its own."""
    hash_seed = 2 if os.environ.get("PYTHONHASHSEED") == "1" else 1
    command = (sys.executable, "-m", "jepsen.simulation", "--seeds", "1", "--from", str(seed), "--jobs", "1", "--json")
    environment = os.environ | {"PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)["digests"]
    return found[str(seed)]


@pytest.mark.parametrize("seed", REPEATED)
def test_two_hash_seeds_give_the_same_trace(seed: int) -> None:
    assert digest_with_another_hash_seed(seed) == outcome_of(seed).digest
