"""What a measure is: the figures it yields, what they have to reach, how they come about.

A measure runs as a whole and returns one number for each of its figures, and further facts (counts, sizes) that show
that the work was done. It raises `MeasureFailed` when what it saw does not hold together: such a run has no number.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

Values = Mapping[str, float | str]
"""Numbers by the key of their figure, and facts under keys of their own."""


class MeasureFailed(Exception):
    """The work was not done as it should have been; the message says what was seen."""


class NotMeasured(Exception):
    """This machine lacks something that the measure needs; the message says what, and how to get it."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table. With `at_least` or `at_most` it is a requirement, without them it is told for context."""

    key: str
    title: str
    unit: str
    at_least: float | None = None
    at_most: float | None = None

    @property
    def required(self) -> str:
        """The requirement in words; empty without one."""
        if self.at_least is not None:
            return f"≥ {self.at_least:,.10g}"
        return "" if self.at_most is None else f"≤ {self.at_most:,.10g}"

    def is_met(self, value: float) -> bool | None:
        """Whether the value reaches what is required; `None` when nothing is."""
        if self.at_least is not None:
            return value >= self.at_least
        return None if self.at_most is None else value <= self.at_most


@dataclass(frozen=True, slots=True)
class Measure:
    """`run` does the work once, from nothing, in a workspace that is thrown away."""

    name: str
    title: str
    method: str
    figures: tuple[Figure, ...]
    run: Callable[["Workspace"], Values]


class Workspace:
    """A directory in which measures make theirs; each is removed when its block ends."""

    def __init__(self, root: Path, bulk_mib: int | None = None) -> None:
        self.root = root
        self._bulk_mib = bulk_mib
        self.say: Callable[[str], None] = lambda stage: None
        """Told what a measure is at, while it runs."""

    def bulk_mib(self, usual: int) -> int:
        """How much data to work on, in MiB: what a measure usually takes, unless the caller said otherwise."""
        return usual if self._bulk_mib is None else self._bulk_mib

    @contextmanager
    def directory(self) -> Iterator[Path]:
        """A new, empty directory."""
        path = Path(mkdtemp(prefix="run-", dir=self.root))
        try:
            yield path
        finally:
            rmtree(path, ignore_errors=True)


def require(condition: bool, message: str) -> None:
    """Raise `MeasureFailed` unless the condition holds."""
    if not condition:
        raise MeasureFailed(message)
