"""Many seeds in several processes, as they come; the outcomes in the order of their completion."""

import multiprocessing
from collections.abc import Iterator, Sequence

from jepsen.simulation.run import Outcome, simulate

RUNS_PER_PROCESS = 100
"""Then a fresh process takes over, so that nothing that a run leaves behind adds up."""


def run_seeds(seeds: Sequence[int], jobs: int) -> Iterator[Outcome]:
    """Run the seeds; closing the iterator ends what is under way."""
    if jobs == 1 or len(seeds) == 1:
        yield from map(simulate, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(min(jobs, len(seeds)), maxtasksperchild=RUNS_PER_PROCESS) as pool:
        yield from pool.imap_unordered(simulate, seeds)
