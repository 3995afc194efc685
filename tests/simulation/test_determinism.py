"""The same seed gives the same trace, in one process and in others with other hash seeds."""

import os
import subprocess
import sys
from pathlib import Path

from tests.simulation.world import World

SECONDS = 20


def digest_in_process(seed: int, hash_seed: int, *options: str) -> str:
    """Return the digest from an interpreter of its own, with its own address space layout and hash seed."""
    command = [
        sys.executable,
        "-W",
        "error",
        str(Path(__file__).parent / "world.py"),
        str(seed),
        str(SECONDS),
        *options,
    ]
    environment = os.environ | {"PYTHONHASHSEED": str(hash_seed)}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()


def test_two_hash_seeds_give_the_same_trace() -> None:
    here = World(7).run(SECONDS)
    assert digest_in_process(7, 1) == here
    assert digest_in_process(7, 2) == here


def test_a_choice_that_depends_on_hashes_changes_the_trace() -> None:
    assert len({digest_in_process(7, hash_seed, "--by-hash") for hash_seed in range(1, 5)}) > 1


def test_the_world_has_all_kinds_of_events() -> None:
    world = World(8)
    world.run(60)
    assert world.heard > 1000
    assert set(world.network.drop_counts) >= {"lost", "cut", "cut under way", "no process there", "stream broken"}
    assert "crashes" in world.loop.trace.timeline()


def test_runs_in_one_process_do_not_influence_each_other() -> None:
    digests = [World(seed).run(5) for seed in (1, 2, 1)]
    assert digests[0] == digests[2] != digests[1]
