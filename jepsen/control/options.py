"""What a run of the control is run with."""

from typing import Final, Self

from jepsen.control.cases import CASES, Case
from jepsen.control.node import TOPIC
from jepsen.nemeses.fault import Fault
from jepsen.runner.options import RunOptions
from jepsen.workloads.plan import Plan

LISTS: Final = 2
NODES: Final = 3
CLIENTS: Final = 2
RECOVERY_S: Final = 6.0
"""Replicas that differ for good never show everything; then the end of this time is waited for."""


class ControlOptions(RunOptions):
    """`RunOptions` of the workload `log` on lists of the library."""

    case_name: str
    is_repaired: bool

    @classmethod
    def of(cls, case_name: str, *, is_repaired: bool, seconds: float | None, seed: int) -> Self:
        case = CASES[case_name]
        options = cls("log", ("kill",), seconds or case.seconds, NODES, CLIENTS, case.rate, seed, recovery_s=RECOVERY_S)
        options.case_name, options.is_repaired = case_name, is_repaired
        return options

    @property
    def case(self) -> Case:
        return CASES[self.case_name]

    @property
    def build(self) -> str:
        return self.case.repaired if self.is_repaired else "unmodified"

    @property
    def plan(self) -> Plan:
        return Plan({TOPIC: LISTS})

    @property
    def command(self) -> str:
        repaired = " --repaired" if self.is_repaired else ""
        return f"python -m jepsen.control --case {self.case_name}{repaired} --time {self.seconds:g} --seed {self.seed}"

    @property
    def name(self) -> str:
        return f"control-{self.case_name}-{self.build}-seed{self.seed}"

    @property
    def explanation(self) -> str:
        return f"{self.case.why} {self.case.cure}" if self.is_repaired else self.case.why

    def schedule(self) -> tuple[Fault, ...]:
        return self.case.schedule(tuple(range(1, self.nodes + 1)), self.seconds)
