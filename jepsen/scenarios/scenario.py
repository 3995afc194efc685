"""Definition of a scenario."""

from typing import Final, NamedTuple

from jepsen.nemeses.fault import FaultKind
from jepsen.runner.options import RunOptions
from jepsen.runner.run import Expectation
from jepsen.runner.stage import Script
from jepsen.workloads.adapters.port import ClientName

RATE_UNANSWERED: Final = 1_000.0
"""Offered operations a second if answers are lost; clients that wait send nothing, so about half are sent."""


class Scenario(NamedTuple):
    """Numbered script of faults with its load.

    `play` is called a second after the load has begun. The load lasts for `seconds`, which is enough for the script
    on an idle machine, and longer if the script takes longer."""

    number: str
    """F1 … F59."""
    title: str
    play: Script
    faults: tuple[FaultKind, ...]
    """Kinds that the script injects; an effect of each must be observed, otherwise the run proves nothing."""
    workload: str = "log"
    client: ClientName = "http"
    nodes: int = 3
    seconds: float = 15.0
    rate: float = 500.0
    clients: int = 4
    serve_flags: tuple[str, ...] = ()
    client_cuts: bool = False
    """Whether clients connect through a proxy that can cut them off (`Stage.system.cut_clients`)."""
    expects: tuple[Expectation, ...] = ()
    """Expectations of the whole run, besides the checks of the history."""

    def options(self, seed: int) -> RunOptions:
        """Return the options of a run of this scenario."""
        return RunOptions(
            self.workload,
            self.faults,
            self.seconds,
            self.nodes,
            self.clients,
            self.rate,
            seed,
            scenario=self.number,
            serve_flags=self.serve_flags,
            client=self.client,
        )
