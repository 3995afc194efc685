"""Campaign: many seeds in several processes, with outcomes in the order of completion."""

import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from jepsen.simulation.brokers.run import simulate_brokers, simulate_founding, simulate_groups, simulate_records
from jepsen.simulation.gossip.run import simulate_gossip
from jepsen.simulation.outcome import Outcome
from jepsen.simulation.run import simulate

LEVELS: Final[Mapping[str, Callable[..., Outcome]]] = {
    "driver": simulate,
    "founding": simulate_founding,
    "broker": simulate_brokers,
    "groups": simulate_groups,
    "records": simulate_records,
    "gossip": simulate_gossip,
}
"""Function that runs a seed, by level of the simulation.

Raft groups on their drivers, the founding of a cluster, whole brokers, also with a focus on consumer groups and on the
retention of records, gossip alone."""

RUNS_PER_PROCESS = 100
"""Number of runs after which a new process replaces a worker, so that memory of earlier runs does not accumulate."""


def run_seeds(seeds: Sequence[int], jobs: int, level: str = "driver", **shape: float) -> Iterator[Outcome]:
    """Run the seeds and yield their outcomes; closing the iterator ends the runs under way.

    `jobs` is the number of processes, and `shape` has additional keyword arguments of the level's function."""
    run = partial(LEVELS[level], **shape)
    if jobs == 1 or len(seeds) == 1:
        yield from map(run, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(min(jobs, len(seeds)), maxtasksperchild=RUNS_PER_PROCESS) as pool:
        yield from pool.imap_unordered(run, seeds)
