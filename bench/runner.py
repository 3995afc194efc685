"""Runner of measures, each several times within a time limit, and their outcomes."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any

from bench.measure import Figure, Measure, MeasureFailed, NotMeasured, Values, Workspace
from bench.other_processes import OtherPrograms

SECONDS_MAX = 1_800.0
"""Seconds after the first run started after which no other run starts; the longest takes about two minutes."""

OTHERS_KEY = "other_programs_cpu_share"


@dataclass(slots=True)
class Outcome:
    """Runs of one measure: a run has its values, or a reason in `failures` or `skipped`."""

    measure: Measure
    runs: list[Values] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    skipped: str = ""

    def values(self, figure: Figure) -> list[float]:
        """Return the values of a figure in successful runs."""
        return [float(run[figure.key]) for run in self.runs]

    def median(self, figure: Figure) -> float | None:
        """Return the median of a figure; `None` without a successful run."""
        values = self.values(figure)
        return median(values) if values else None

    def is_met(self, figure: Figure) -> bool | None:
        """Return whether the median meets the requirement; false after a failed run.

        Returns `None` if nothing is required or was measured."""
        if self.failures and figure.required:
            return False
        middle = self.median(figure)
        return None if middle is None else figure.is_met(middle)

    def as_json(self) -> dict[str, Any]:
        """Return all results as an object for JSON."""
        return {
            "title": self.measure.title,
            "method": self.measure.method,
            "figures": {figure.key: self._figure_json(figure) for figure in self.measure.figures},
            "runs": [dict(run) for run in self.runs],
            "failures": self.failures,
            "not_measured": self.skipped,
        }

    def _figure_json(self, figure: Figure) -> dict[str, Any]:
        """Return a figure with its values and their statistics, as JSON."""
        values = self.values(figure)
        return {
            "title": figure.title,
            "unit": figure.unit,
            "at_least": figure.at_least,
            "at_most": figure.at_most,
            "median": self.median(figure),
            "min": min(values, default=None),
            "max": max(values, default=None),
            "values": values,
            "is_met": self.is_met(figure),
        }


def _show_stage(show: Callable[[str], None], run: str, stage: str) -> None:
    show(f"{run}: {stage}")


def run_all(measures: list[Measure], runs: int, workspace: Workspace, show: Callable[[str], None]) -> Iterator[Outcome]:
    """Run each measure `runs` times, and yield its outcome; `show` is called before each run."""
    until = time.monotonic() + SECONDS_MAX
    for measure in measures:
        outcome = Outcome(measure)
        for number in range(1, runs + 1):
            run = f"{measure.name} {number}/{runs}"
            show(run)
            workspace.show_stage = partial(_show_stage, show, run)
            if time.monotonic() > until:
                outcome.failures.append(f"run {number} was left out: the whole run may take {SECONDS_MAX:g} s")
                break
            try:
                others = OtherPrograms()
                values = measure.run(workspace)
                outcome.runs.append({**values, OTHERS_KEY: others.share()})
            except NotMeasured as lacking:
                outcome.skipped = str(lacking)
                break
            except (MeasureFailed, OSError) as failure:
                outcome.failures.append(f"run {number}: {failure}")
        yield outcome
