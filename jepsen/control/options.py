"""Options of a run of the control."""

from pathlib import Path
from typing import Final, Self

from jepsen.control.cases import CASES, Case
from jepsen.control.missing_records import count_missing
from jepsen.nemeses.fault import Fault
from jepsen.runner.options import RunOptions
from jepsen.workloads.client.numbering import PER_CLIENT

NODES: Final = 3
CLIENTS: Final = 2
RECOVERY_S: Final = 5.0
"""Seconds for recovery and final reads; if replicas never become equal, the test waits for the whole time."""


class ControlOptions(RunOptions):
    """Options of a run of the workload `plain` on lists of the library."""

    case_name: str
    is_repaired: bool

    @classmethod
    def of(cls, case_name: str, *, is_repaired: bool, seconds: float | None, seed: int) -> Self:
        """Return the options of a case.

        `seconds` defaults to the duration of the case. With `is_repaired` the variant of the library without the cause
        of losses is used."""
        case = CASES[case_name]
        options = cls(
            "plain", (case.kind,), seconds or case.seconds, NODES, CLIENTS, case.rate, seed, recovery_s=RECOVERY_S
        )
        options.case_name, options.is_repaired = case_name, is_repaired
        return options

    @property
    def case(self) -> Case:
        return CASES[self.case_name]

    @property
    def lists(self) -> int:
        """Number of lists."""
        return len(self.plan.places())

    @property
    def build(self) -> str:
        """Name of the library's variant."""
        return self.case.repaired if self.is_repaired else "unmodified"

    @property
    def command(self) -> str:
        repaired = " --repaired" if self.is_repaired else ""
        return f"python -m jepsen.control --case {self.case_name}{repaired} --time {self.seconds:g} --seed {self.seed}"

    @property
    def name(self) -> str:
        return f"control-{self.case_name}-{self.build}-seed{self.seed}"

    def explain(self, history: Path) -> str:
        """Return why this case loses records, the repair if it is repaired, and the records missing in the history."""
        missing_records = count_missing(history, (self.clients + 1) * PER_CLIENT)
        return "\n\n".join([self.case.why, *([self.case.cure] if self.is_repaired else []), str(missing_records)])

    def schedule(self) -> tuple[Fault, ...]:
        """Return the faults of the case."""
        return self.case.schedule(tuple(range(1, self.nodes + 1)), self.seconds)
