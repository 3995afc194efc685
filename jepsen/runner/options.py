"""Options of a test run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from jepsen.nemeses.fault import KINDS, Fault, FaultKind
from jepsen.nemeses.schedule import draw_schedule
from jepsen.runner.finding import Finding
from jepsen.workloads.adapters.port import ClientName
from jepsen.workloads.catalogue import WORKLOADS
from jepsen.workloads.plan import Plan

REPLICATION_MAX: Final = 3


class RunOptions(NamedTuple):
    """Options of a test run. `rate` is in operations a second of all clients together."""

    workload: str
    faults: tuple[FaultKind, ...]
    seconds: float
    nodes: int
    clients: int
    rate: float
    seed: int
    scenario: str = ""
    """Number of a scenario, whose script injects the faults; if empty, the faults are drawn from the seed."""
    serve_flags: tuple[str, ...] = ()
    """Flags of the brokers, in addition to those of the workload."""
    client: ClientName = "http"
    """Client library of the load."""
    recovery_s: float = 60.0
    """Longest time, in seconds, until the log serves everything after all faults ended, and again to return all
    records."""

    @property
    def plan(self) -> Plan:
        return WORKLOADS[self.workload].plan

    @property
    def all_flags(self) -> tuple[str, ...]:
        """Flags of every broker."""
        return (*self.plan.serve_flags, *self.serve_flags)

    @property
    def name(self) -> str:
        """Name of the run's folder, without the time before it."""
        faults = ("all" if self.faults == KINDS else "+".join(self.faults)) or "none"
        client = "" if self.client == "http" else f"-{self.client}"
        return f"{self.scenario or f'{self.workload}{client}-{faults}'}-seed{self.seed}"

    def is_enough(self, findings: Sequence[Finding]) -> bool:
        """Return whether these findings suffice, so that the script and the test end."""
        return False

    def explain(self, history: Path) -> str | None:
        """Return an explanation of the findings, as paragraphs with empty lines between them; None without one."""
        return None

    def schedule(self) -> tuple[Fault, ...]:
        """Return the faults, which are drawn from the seed."""
        nodes = range(1, self.nodes + 1)
        return draw_schedule(self.seed, self.faults, nodes, self.seconds, len(self.plan.places()))

    @property
    def command(self) -> str:
        """Command line that repeats the test."""
        if self.scenario:
            return f"python -m jepsen suite --only {self.scenario} --seed {self.seed}"
        faults = ",".join(self.faults) or "none"
        return (
            f"python -m jepsen test --workload {self.workload} --faults {faults} --time {self.seconds:g} "
            f"--nodes {self.nodes} --clients {self.clients} --rate {self.rate:g} --seed {self.seed}"
            f"{'' if self.client == 'http' else f' --client {self.client}'}"
        )
