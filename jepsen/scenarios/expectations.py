"""Expectations of scenarios for a whole run, checked after the history (`Expectation` in `jepsen.runner.run`)."""

from collections.abc import Iterable
from typing import Final

from jepsen.runner.options import RunOptions
from jepsen.runner.trial import Outcome
from jepsen.runner.verdict import CheckResult


class WriteGapBound:
    """Expectation that the log is without a write for at most `seconds_max` during each fault."""

    def __init__(self, seconds_max: float) -> None:
        self.seconds_max: Final = seconds_max

    def __call__(self, options: RunOptions, outcome: Outcome, checked: CheckResult) -> Iterable[str]:
        """Yield a sentence for each fault during which the log was without a write for too long."""
        places = options.plan.places()
        for fault in outcome.happened:
            figures = checked.availability.figures_of(fault, places, outcome.begin_ns)
            if figures.without_write_s > self.seconds_max:
                yield (
                    f"writes go on within {self.seconds_max:g} s: {figures.without_write_s:.2f} s without, {fault.what}"
                )
