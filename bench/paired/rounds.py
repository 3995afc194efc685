"""Rounds of alternating runs on two trees, and their ratios."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple

from bench.measure import MeasureFailed, NotMeasured, Values, Workspace
from bench.other_processes import OtherPrograms
from bench.paired.ratios import FIRST, ORDER, Comparison, round_ratio
from bench.paired.trees import Tree

SECONDS_MAX = 3_600.0
"""Seconds after the start of the first round after which no further round starts."""


class PairedFigure(NamedTuple):
    """Figure of both trees. `is_required`: a slowdown beyond tolerance and noise is a failure."""

    key: str
    title: str
    unit: str
    is_lower_better: bool
    is_required: bool = True


@dataclass(frozen=True, slots=True)
class PairedMeasure:
    """Measure of two trees; `run` does the work of one tree once, and returns a value for each figure."""

    name: str
    title: str
    method: str
    figures: tuple[PairedFigure, ...]
    run: Callable[[Tree, Workspace], Values]


@dataclass(slots=True)
class PairedOutcome:
    """Runs of a measure by round, in the order of `ORDER`: `paired` of both trees, `control` of the first only."""

    measure: PairedMeasure
    paired: list[list[Values]] = field(default_factory=list)
    control: list[list[Values]] = field(default_factory=list)
    failure: str = ""
    skipped: str = ""
    other_programs: float = 0.0
    """The largest share of the CPUs that other programs took during a round."""

    def comparison(self, figure: PairedFigure) -> Comparison | None:
        """Return the ratios of a figure; `None` without a complete round of both kinds."""
        if not self.paired or not self.control:
            return None
        paired, control = (
            tuple(round_ratio([float(run[figure.key]) for run in runs]) for runs in rounds)
            for rounds in (self.paired, self.control)
        )
        return Comparison(paired, control, figure.is_lower_better)

    def median_of(self, figure: PairedFigure, side: int) -> float:
        """Return the median of a tree's runs in the paired rounds."""
        chosen = (
            float(run[figure.key])
            for runs in self.paired
            for each, run in zip(ORDER, runs, strict=True)
            if each == side
        )
        return median(chosen)

    def as_json(self) -> dict[str, Any]:
        """Return all results as an object for JSON."""
        compared = {figure.key: self.comparison(figure) for figure in self.measure.figures}
        return {
            "title": self.measure.title,
            "method": self.measure.method,
            "figures": {
                key: {
                    "ratio": comparison.ratio,
                    "noise": comparison.noise,
                    "slowdown": comparison.slowdown,
                    "is_acceptable": comparison.is_acceptable,
                    "paired": comparison.paired,
                    "control": comparison.control,
                }
                for key, comparison in compared.items()
                if comparison is not None
            },
            "paired_runs": [[dict(run) for run in runs] for runs in self.paired],
            "control_runs": [[dict(run) for run in runs] for runs in self.control],
            "failure": self.failure,
            "not_measured": self.skipped,
            "other_programs_cpu_share": self.other_programs,
        }


def compare(
    measure: PairedMeasure, trees: Sequence[Tree], rounds: int, workspace: Workspace, show: Callable[[str], None]
) -> PairedOutcome:
    """Run rounds of A B B A and of A A A A in turn; a failed run ends the measure, as its round has no ratio."""
    outcome = PairedOutcome(measure)
    until = time.monotonic() + SECONDS_MAX
    first = trees[FIRST]
    try:
        for number in range(1, rounds + 1):
            if time.monotonic() > until:
                raise MeasureFailed(f"round {number} was left out: a measure may take {SECONDS_MAX:g} s")
            others = OtherPrograms()
            for kept, sides in ((outcome.paired, [trees[side] for side in ORDER]), (outcome.control, [first] * 4)):
                runs = []
                for turn, tree in enumerate(sides, 1):
                    kind = "against itself" if kept is outcome.control else "paired"
                    show(f"{measure.name} {number}/{rounds}, {kind} {turn}/{len(sides)}: {tree.label}")
                    runs.append(measure.run(tree, workspace))
                kept.append(runs)
            outcome.other_programs = max(outcome.other_programs, others.share())
    except NotMeasured as lacking:
        outcome.skipped = str(lacking)
    except (MeasureFailed, OSError) as failure:
        outcome.failure = str(failure)
    return outcome
