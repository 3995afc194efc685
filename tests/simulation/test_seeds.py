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
SEEDS_PER_TEST = 5
QUICK_TESTS = 2
"""Tests of fixed seeds that are not slow."""


def chunks(seeds: range, quick: int) -> list[Any]:
    """Return the first seed of each test; the first `quick` tests are not slow."""
    return [
        pytest.param(first, marks=[pytest.mark.slow] if number >= quick else [])
        for number, first in enumerate(seeds[::SEEDS_PER_TEST])
    ]


@cache
def outcome_of(seed: int, *, unordered_syncs: bool = False) -> Outcome:
    """Return the outcome of a seed, cached so that a trace is compared with that of the checked run."""
    return simulate(seed, unordered_syncs=unordered_syncs)


def run(seed: int, *, unordered_syncs: bool = False) -> None:
    outcome = outcome_of(seed, unordered_syncs=unordered_syncs)
    if outcome.failure is not None:
        pytest.fail(failure_text(outcome, "the one under test"), pytrace=False)


@pytest.mark.parametrize("first", chunks(SEEDS, QUICK_TESTS))
def test_fixed_seeds_have_no_violation(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        run(seed)


@pytest.mark.parametrize("first", chunks(UNORDERED_SEEDS, 1))
def test_fixed_seeds_with_unordered_syncs_have_no_violation(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        run(seed, unordered_syncs=True)


@pytest.mark.parametrize("kept", kept_seeds(), ids=str)
def test_kept_seeds_have_no_violation(kept: KeptSeed) -> None:
    run(kept.seed, unordered_syncs=kept.unordered_syncs)


def digests() -> dict[str, str]:
    """Return the digests of two seeds, in an interpreter of its own, with another hash seed."""
    hash_seed = 2 if os.environ.get("PYTHONHASHSEED") == "1" else 1
    command = (sys.executable, "-m", "jepsen.simulation", "--seeds", "2", "--from", "11", "--jobs", "1", "--json")
    environment = os.environ | {"PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)["digests"]
    return found


def test_two_hash_seeds_give_the_same_trace() -> None:
    here = {str(seed): outcome_of(seed).digest for seed in (11, 12)}
    assert digests() == here
