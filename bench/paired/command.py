"""Paired part of the command line: opens both trees, runs the rounds, prints and stores the report.

Exit code 0 when every required figure is as good as tolerated, 1 when one is worse, failed or was not measured.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from bench import probes
from bench.measure import MeasureFailed, Workspace
from bench.paired.report import describe_tolerance, is_acceptable, paired_report, print_paired
from bench.paired.rounds import PairedMeasure, PairedOutcome, compare
from bench.paired.trees import Tree
from bench.report import write_report

_HERE = Path(__file__).resolve().parents[2]


def run_paired(
    console: Console,
    measures: Sequence[PairedMeasure],
    against: Path,
    python: str | None,
    rounds: int,
    workspace: Workspace,
    results: Path,
    as_json: bool,
) -> int:
    """Compare this checkout with another one and return the exit code."""
    interpreter = str(Path(python or sys.executable).absolute())  # not resolved: a link is what makes it an environment
    machine = probes.machine(workspace.root)
    with workspace.directory() as scratch:
        try:
            trees = [
                Tree.open(label, directory, interpreter, scratch)
                for label, directory in (("other", against), ("this", _HERE))
            ]
        except (MeasureFailed, OSError) as failure:
            console.print(f"[red]a checkout does not run[/]: {failure}", highlight=False)
            return 1
        outcomes = _run(measures, trees, rounds, workspace)
        report = paired_report(outcomes, trees, machine)
    path = write_report(report, results)
    if as_json:
        print(json.dumps(report, indent=2))
    else:
        print_paired(console, outcomes, trees)
        console.print(f"{describe_tolerance()}; written to {path}", highlight=False)
    return 0 if all(map(is_acceptable, outcomes)) else 1


def _run(
    measures: Sequence[PairedMeasure], trees: Sequence[Tree], rounds: int, workspace: Workspace
) -> list[PairedOutcome]:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    outcomes = []
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("paired", total=len(measures))
        for measure in measures:
            outcomes.append(
                compare(measure, trees, rounds, workspace, lambda what: progress.update(task, description=what))
            )
            progress.advance(task)
    return outcomes
