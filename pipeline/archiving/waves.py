"""Splits in waves: what is committed together. Who runs the waves is `jobs`; in tests it is a loop.

A wave bounds what a run that is cut off loses, what a commit says, and what the driver holds.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

S = TypeVar("S")
R = TypeVar("R")


class Waves(Protocol):
    """Runs `work` on every split, wave after wave."""

    def __call__(
        self, what: str, splits: Sequence[S], work: Callable[[S], Iterable[R]]
    ) -> Iterator[tuple[Sequence[S], list[R]]]:
        """The splits of each wave, and their results in the same order; the next wave begins when it is asked for."""
        ...
