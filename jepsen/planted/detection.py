"""`python -m jepsen.planted --real`: broker processes with a planted bug, and the checkers that must detect it.

A bug is detected by findings of the kinds that its case names. Other findings do not count, nor does a broker that an
assertion of its own has ended.
"""

import contextlib
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

import click
import orjson
from rich.console import Console
from rich.table import Table

from jepsen.planted.real import REAL, UNSEEN
from jepsen.runner.arguments import exit_on_store_error
from jepsen.runner.cluster import PROGRAM, RealCluster
from jepsen.runner.finding import Finding
from jepsen.runner.machine import unsupported_reason
from jepsen.runner.options import RunOptions
from jepsen.runner.progress import Bar, interrupt_on_sigterm
from jepsen.runner.run import INTERRUPTED, run
from jepsen.runner.store import Store
from jepsen.scenarios.scenario import Scenario

SERVE: Final = str(Path(__file__).with_name("serve.py"))
RECOVERY_S: Final = 4.0
"""Longest time, in seconds, for recovery of brokers with a bug.

Replicas that differ permanently never show all records, so every such run waits this long."""


class PlantedOptions(RunOptions):
    """Options of a run with a planted bug.

    `bug` is empty for brokers without one. Findings of the kinds in `detected_by` detect the bug, and the script
    stops at the first such finding."""

    bug: str
    detected_by: tuple[str, ...]

    @classmethod
    def of(cls, scenario: Scenario, bug: str, detected_by: Sequence[str], seed: int) -> Self:
        """Return the options of a run of this scenario and seed; an empty `bug` stands for brokers without a bug."""
        options = cls._make(scenario.options(seed))
        if bug:
            options = options._replace(recovery_s=RECOVERY_S)
        options.bug, options.detected_by = bug, tuple(detected_by)
        return options

    def is_enough(self, findings: Sequence[Finding]) -> bool:
        """Return whether one of the findings detects the bug, so that the script can stop."""
        return any(finding.kind in self.detected_by for finding in findings)

    @property
    def command(self) -> str:
        """Command that repeats the run."""
        return f"python -m jepsen.planted --real {self.bug} --seed {self.seed}"

    @property
    def name(self) -> str:
        """Name of the run's directory in the store."""
        return f"{self.bug or 'sound'}-{self.scenario}-seed{self.seed}"


class PlayedRun(NamedTuple):
    """Result of one run with a planted bug, or without."""

    bug: str
    scenario: str
    verdict: str
    by: dict[str, int]
    """Number of findings of each kind that detects the bug; in a run without a bug, of each kind."""
    others: dict[str, int]
    doubts: list[str]
    seconds: float
    folder: str

    @property
    def is_right(self) -> bool:
        """Whether the bug was detected; in a run without a bug, whether the verdict is valid."""
        return bool(self.by) if self.bug else self.verdict == "valid"


def main(names: Sequence[str], runs: int, seed: int | None, store: Path, *, is_sound: bool, as_json: bool) -> int:
    """Play the cases of these bugs (all by default) and return the exit code; Ctrl-C ends the series."""
    if unknown := [name for name in names if name in UNSEEN]:
        raise click.UsageError(f"real processes do not show {unknown[0]}: {UNSEEN[unknown[0]]}")
    wanted = list(names) or list(REAL)
    scenarios = {REAL[name].scenario.number: REAL[name].scenario for name in wanted}
    if reason := unsupported_reason(kind for scenario in scenarios.values() for kind in scenario.faults):
        raise click.UsageError(reason)
    plays: list[Callable[[], PlayedRun]] = (
        [lambda scenario=each: play_sound(scenario, store, seed) for each in scenarios.values()]  # type: ignore[misc]
        if is_sound
        else [lambda bug=name: play(bug, store, seed) for name in wanted]  # type: ignore[misc]
    )
    rows: list[PlayedRun] = []
    has_ended = False
    with interrupt_on_sigterm(), contextlib.suppress(KeyboardInterrupt):
        for each in plays:
            for _ in range(runs):
                rows.append(each())
                if as_json:
                    click.echo(orjson.dumps(rows[-1]._asdict()))
        has_ended = True
    if not as_json:
        Console().print(_table(rows))
    if not has_ended:
        return INTERRUPTED
    return 0 if all(row.is_right for row in rows) else 1


def _table(rows: Sequence[PlayedRun]) -> Table:
    """Return a table with a line for each bug, or each scenario without a bug."""
    table = Table("bug", "scenario", "right", "by", "seconds", box=None, header_style="bold")
    for bug, scenario in dict.fromkeys((row.bug, row.scenario) for row in rows):
        mine = [row for row in rows if (row.bug, row.scenario) == (bug, scenario)]
        kinds = dict.fromkeys(kind for row in mine for kind in (row.by if row.is_right else row.others))
        doubts = dict.fromkeys(doubt for row in mine if not row.is_right for doubt in row.doubts)
        seconds = f"{max(row.seconds for row in mine):.0f}"
        right = f"{sum(row.is_right for row in mine)} of {len(mine)}"
        table.add_row(bug or "none", scenario, right, ", ".join((*kinds, *doubts)), seconds)
    return table


def play(bug: str, store: Path, seed: int | None = None) -> PlayedRun:
    """Run brokers with the bug once. The seed draws the clients' operations; without a seed they are random."""
    return _play_run(REAL[bug].scenario, bug, REAL[bug].detected_by, store, seed)


def play_sound(scenario: Scenario, store: Path, seed: int | None = None) -> PlayedRun:
    """Play the scenario on brokers without a planted bug."""
    return _play_run(scenario, "", (), store, seed)


def _play_run(scenario: Scenario, bug: str, kinds: Sequence[str], parent: Path, seed: int | None) -> PlayedRun:
    """Run brokers once in a scenario, with a bug unless `bug` is empty, and return the result.

    Findings of `kinds` detect the bug. `parent` is the directory of the stored runs. Without a seed a random one is
    drawn. Raises `KeyboardInterrupt` if the run was interrupted."""
    options = PlantedOptions.of(scenario, bug, kinds, secrets.randbelow(1 << 31) if seed is None else seed)
    with exit_on_store_error(parent):
        store = Store(parent, options)
    program = ("-P", SERVE, bug) if bug else PROGRAM
    cluster = RealCluster(
        options.nodes, store.data, options.all_flags, scenario.faults, program, client_cuts=scenario.client_cuts
    )
    began = time.monotonic()
    with Bar(bug or scenario.number) as bar:
        results = run(options, cluster, store, bar.show, scenario.play, scenario.expects)
    if results["broken"] == "interrupted":
        raise KeyboardInterrupt
    found: dict[str, int] = results["anomalies"]
    if results["verdict"] == "valid":
        store.drop_data()
    return PlayedRun(
        bug=bug,
        scenario=scenario.number,
        verdict=results["verdict"],
        by={kind: count for kind, count in found.items() if kind in kinds},
        others={kind: count for kind, count in found.items() if kind not in kinds},
        doubts=results["doubts"],
        seconds=round(time.monotonic() - began, 1),
        folder=str(store.path),
    )
