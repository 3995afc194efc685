"""Command line of the race: installs the peers, runs every system, prints the table, writes JSON and chart.

Exit code 0 when every measure of every system ran, 1 when one failed, 2 for wrong arguments."""

import argparse
import itertools
import json
import signal
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rich.console import Console

from bench import probes
from bench.measure import MeasureFailed, Workspace
from bench.race import go_systems, kafka_systems, syncobj
from bench.race.accounting import CpuMeter
from bench.race.report import Run, SystemResult, race_tables, repeat_disturbed, write_chart, write_results
from bench.race.system import MEASURES, RunningSystem, System
from clients.packages import NotInstalled

RUNS: Final = 3
_RESULTS: Final = Path("bench/results")
_WIDTH: Final = 230
_TERMINATED: Final = 128 + signal.SIGTERM
"""Exit code after SIGTERM, at which all nodes are stopped."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the race and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.race", description=__doc__)
    parser.add_argument(
        "--only", action="append", default=[], metavar="SYSTEM", help="the key of a system; repeated for more"
    )
    parser.add_argument(
        "--measure", action="append", default=[], metavar="MEASURE", help="the key of a measure; repeated for more"
    )
    parser.add_argument("--runs", type=int, default=RUNS, help="undisturbed runs of each measure except leader kills")
    parser.add_argument("--kills", type=int, help="leader kills of each system")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument("--python", default=sys.executable, help="interpreter of raftlog's brokers")
    parser.add_argument("--data-dir", default=None, help="directory for the data of all nodes")
    parser.add_argument("--chart", type=Path, help="file for the chart, an SVG")
    given = parser.parse_args(arguments)
    systems = all_systems(given.python)
    chosen = [system for system in systems if not given.only or system.key in given.only]
    measures = [measure for measure in MEASURES if not given.measure or measure.key in given.measure]
    if not chosen or not measures or set(given.only) - {system.key for system in systems}:
        parser.error(f"systems: {[each.key for each in systems]}; measures: {[each.key for each in MEASURES]}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    console = Console(stderr=given.json, width=None if sys.stdout.isatty() else _WIDTH)
    workspace = Workspace(Path(given.data_dir or tempfile.gettempdir()))
    machine = probes.machine(workspace.root)
    counts = {each.key: (given.kills or each.runs) if each.runs else given.runs for each in measures}
    results = [_race(system, counts, workspace, console) for system in chosen]
    path = _RESULTS / f"race-{datetime.now(UTC):%Y-%m-%dT%H%M%SZ}.json"
    write_results(results, machine, path)
    if given.chart is not None:
        write_chart(results, given.chart)
    if given.json:
        print(json.dumps([result.as_json() for result in results], indent=2))
    else:
        for table in race_tables(results):
            console.print(table)
        console.print(f"all runs: {path}", highlight=False)
    return 1 if any(result.errors for result in results) else 0


def all_systems(python: str) -> tuple[System, ...]:
    """Return all systems in the order of the table; `python` is the interpreter of raftlog's brokers."""
    kafka = kafka_systems.systems(python)
    return (*kafka, *go_systems.SYSTEMS, go_systems.raftlog_http(python), syncobj.SYSTEM)


def _race(system: System, counts: dict[str, int], workspace: Workspace, console: Console) -> SystemResult:
    result = SystemResult(system, {}, {})
    try:
        with workspace.directory() as directory, system.start(directory) as running:
            for measure, count in counts.items():
                if measure in running.measures:
                    _measure(measure, count, running, result, console)
    except (MeasureFailed, NotInstalled) as failure:
        result.errors["start"] = str(failure)
        console.print(f"{system.key} [red]failed[/]: ", failure, markup=True, highlight=False)
    return result


def _measure(name: str, count: int, running: RunningSystem, result: SystemResult, console: Console) -> None:
    """Add the runs of a measure to the result, and print each."""
    numbers = itertools.count(1)

    def run() -> Run:
        meter = CpuMeter(running.pids())
        values = running.measures[name]()
        seen = Run(values, *meter.shares())
        figures = ", ".join(f"{key} {value:,.2f}" for key, value in values.items())
        shares = f"nodes {seen.nodes:.0%}, others {seen.others:.0%}"
        console.print(f"{result.system.key} {name} {next(numbers)}: {figures}; {shares}", markup=False, highlight=False)
        return seen

    try:
        result.runs[name] = repeat_disturbed(run, count)
    except MeasureFailed as failure:
        result.errors[name] = str(failure)
        console.print(f"{result.system.key} {name}: failed: {failure}", markup=False, highlight=False)
