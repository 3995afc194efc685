"""Measures: their figures, the required values, and the code that runs them.

A measure runs as a whole and returns one number for each of its figures, and further facts (counts, sizes) that show
that the work was done. It raises `MeasureFailed` when its observations are inconsistent: such a run has no number."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

Values = Mapping[str, float | str]
"""Numbers by the key of their figure, and facts under keys of their own."""


class MeasureFailed(Exception):
    """Error for a measure whose work was not done correctly; the message has the observation."""


class NotMeasured(Exception):
    """Error for a measure whose requirements this machine lacks; the message names them, and how to get them."""


@dataclass(frozen=True, slots=True)
class Figure:
    """Row of the table; a requirement if it has `at_least` or `at_most`, otherwise for information."""

    key: str
    title: str
    unit: str
    at_least: float | None = None
    at_most: float | None = None

    @property
    def required(self) -> str:
        """The requirement as text; empty without one."""
        if self.at_least is not None:
            return f"≥ {self.at_least:,.10g}"
        return "" if self.at_most is None else f"≤ {self.at_most:,.10g}"

    def is_met(self, value: float) -> bool | None:
        """Return whether the value meets the requirement; `None` without a requirement."""
        if self.at_least is not None:
            return value >= self.at_least
        return None if self.at_most is None else value <= self.at_most


@dataclass(frozen=True, slots=True)
class Measure:
    """Measure with its figures; `run` does the work once, in an empty workspace that is deleted afterwards."""

    name: str
    title: str
    method: str
    figures: tuple[Figure, ...]
    run: Callable[["Workspace"], Values]


class Workspace:
    """Directory for the directories of measures, each of which is removed when its block ends."""

    def __init__(self, root: Path, bulk_mib: int | None = None) -> None:
        self.root = root
        self._bulk_mib = bulk_mib
        self.show_stage: Callable[[str], None] = lambda stage: None
        """Callback for the present stage of a measure, while it runs."""

    def bulk_mib(self, usual: int) -> int:
        """Return the MiB of data to process: `usual`, unless the user chose another size."""
        return usual if self._bulk_mib is None else self._bulk_mib

    @contextmanager
    def directory(self) -> Iterator[Path]:
        """Create a new, empty directory."""
        path = Path(mkdtemp(prefix="run-", dir=self.root))
        try:
            yield path
        finally:
            rmtree(path, ignore_errors=True)


def require(condition: bool, message: str) -> None:
    """Raise `MeasureFailed` unless the condition holds."""
    if not condition:
        raise MeasureFailed(message)
