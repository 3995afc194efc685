"""Runners of generators that work in steps, as `run_in_slices` and compaction do."""

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


def run_steps(work: Generator[None, None, T]) -> tuple[T, int]:
    """Run the work; return its result and the number of steps."""
    count = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result, count
        count += 1


def result_of(work: Generator[None, None, T]) -> T:
    return run_steps(work)[0]
