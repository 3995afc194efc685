"""Command line of a benchmark (`bench`, `bench.pipeline`): runs measures, prints the table, writes the report.

Exit codes: 0 when everything was measured, whether or not it reaches its requirement (the table shows that); 1 when a
measure failed, that is when its observations are inconsistent; 2 for wrong arguments."""

import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import NamedTuple, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from bench import probes
from bench.measure import Measure, Workspace
from bench.paired.command import run_paired
from bench.paired.rounds import PairedMeasure
from bench.report import Report, print_comparison, print_report, read_report, report_of, write_report
from bench.runner import Outcome, run_all

RESULTS = Path("bench/results")
_TABLE_WIDTH = 150
NamedMeasure = TypeVar("NamedMeasure", Measure, PairedMeasure)


class Catalogue(NamedTuple):
    """Measures of a benchmark: those of this checkout, and paired ones that compare two checkouts."""

    measures: Sequence[Measure]
    paired: Sequence[PairedMeasure] = ()


def main(measures: Sequence[Measure], paired: Sequence[PairedMeasure] = ()) -> None:
    """Run the command line for these measures, and exit."""
    _bench(obj=Catalogue(measures, paired))


@click.command(context_settings={"show_default": True})
@click.option("--only", multiple=True, metavar="NAME", help="Measures to run, by name or its beginning; repeatable.")
@click.option("--runs", type=click.IntRange(1, 100), default=3, help="Times that each measure is run.")
@click.option("--list", "lists", is_flag=True, help="Describe the measures and exit.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON in place of the table.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, writable=True, path_type=Path),
    help="Directory for the logs. [default: a temporary directory below bench/results]",
)
@click.option(
    "--mib",
    type=click.IntRange(1, 1 << 20),
    help="MiB of data for the measures with large data, in place of their defaults; less is quicker.",
)
@click.option(
    "--compare",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="OLD.json",
    help="Print ratios to an earlier report; given twice, compare the two and run nothing.",
)
@click.option(
    "--against",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="CHECKOUT",
    help="Compare this checkout with another one in alternating runs; --runs counts the rounds.",
)
@click.option(
    "--python",
    type=click.Path(exists=True, dir_okay=False),
    help="With --against: the interpreter of both checkouts' brokers, with their dependencies. [default: this one]",
)
@click.pass_obj
def _bench(
    catalogue: Catalogue,
    only: tuple[str, ...],
    runs: int,
    lists: bool,
    as_json: bool,
    data_dir: Path | None,
    mib: int | None,
    compare: tuple[Path, ...],
    against: Path | None,
    python: str | None,
) -> None:
    """Measure raftlog on this machine: every measure several times, the median beside the requirement."""
    console = Console() if sys.stdout.isatty() else Console(width=_TABLE_WIDTH)
    if against is not None:
        sys.exit(_compare(console, catalogue.paired, only, against, python, runs, data_dir, as_json))
    try:
        measures = select_measures(catalogue.measures, only)
        earlier = [read_report(path) for path in compare]
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if len(earlier) > 2:
        raise click.UsageError("--compare takes one report, or two")
    if lists:
        _print_list(console, measures)
    elif len(earlier) == 2:
        print_comparison(console, *earlier)
    else:
        sys.exit(_measure(console, measures, runs, data_dir, mib, as_json, earlier))


def _compare(
    console: Console,
    every: Sequence[PairedMeasure],
    only: tuple[str, ...],
    against: Path,
    python: str | None,
    rounds: int,
    data_dir: Path | None,
    as_json: bool,
) -> int:
    """Compare this tree with the tree `against` by paired measures, and print the result; return the exit code."""
    if not every:
        raise click.UsageError("nothing of this bench is measured in pairs")
    try:
        measures = select_measures(every, only)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    signal.signal(signal.SIGTERM, _exit_on_signal)
    RESULTS.mkdir(parents=True, exist_ok=True)
    with _workspace(data_dir, None) as workspace:
        return run_paired(console, measures, against, python, rounds, workspace, RESULTS, as_json)


def select_measures(every: Sequence[NamedMeasure], names: tuple[str, ...]) -> list[NamedMeasure]:
    """Return the measures whose name begins with one of `names`; all measures without names.

    Raises `ValueError` with the existing names if a name matches none.
    """
    for name in names:
        if not any(measure.name.startswith(name) for measure in every):
            known = ", ".join(measure.name for measure in every)
            raise ValueError(f"there is no measure {name!r}; the measures are {known}")
    return [measure for measure in every if not names or measure.name.startswith(names)]


def _print_list(console: Console, measures: list[Measure]) -> None:
    """Print each measure with its method and its figures."""
    for measure in measures:
        console.print(f"[bold]{measure.name}[/]: {measure.title}", highlight=False)
        console.print(f"  {measure.method}", highlight=False)
        for figure in measure.figures:
            console.print(f"  - {figure.title} {figure.required} {figure.unit}".rstrip(), highlight=False, style="dim")


def _measure(
    console: Console,
    measures: list[Measure],
    runs: int,
    data_dir: Path | None,
    mib: int | None,
    as_json: bool,
    earlier: list[Report],
) -> int:
    """Run the measures, and print and store a report; return the exit code."""
    signal.signal(signal.SIGTERM, _exit_on_signal)
    RESULTS.mkdir(parents=True, exist_ok=True)
    with _workspace(data_dir, mib) as workspace:
        machine = probes.machine(workspace.root)
        commit = probes.commit()
        outcomes = _run(measures, runs, workspace)
    machine["load_average_after"] = os.getloadavg()[0]
    report = report_of(outcomes, machine, commit, runs)
    path = write_report(report, RESULTS)
    if as_json:
        print(json.dumps(report, indent=2))
    else:
        print_report(console, report)
        for old in earlier:
            print_comparison(console, old, report)
        console.print(f"written to {path}", highlight=False)
    return 1 if any(outcome.failures for outcome in outcomes) else 0


def _run(measures: list[Measure], runs: int, workspace: Workspace) -> list[Outcome]:
    """Run all measures with a progress bar, and print each outcome as it is known."""
    outcomes = []
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=Console(stderr=True)
    ) as progress:
        task = progress.add_task("bench", total=len(measures))
        for outcome in run_all(measures, runs, workspace, lambda what: progress.update(task, description=what)):
            progress.advance(task)
            progress.console.print(_outcome_line(outcome), highlight=False)
            outcomes.append(outcome)
    return outcomes


def _outcome_line(outcome: Outcome) -> str:
    """Describe a finished measure in one line."""
    if outcome.skipped:
        return f"{outcome.measure.name}: not measured, {outcome.skipped}"
    if outcome.failures:
        return f"{outcome.measure.name}: FAILED, {outcome.failures[0]}"
    figure = outcome.measure.figures[0]
    return f"{outcome.measure.name}: {outcome.median(figure):,.4g} {figure.unit}"


@contextmanager
def _workspace(data_dir: Path | None, mib: int | None) -> Iterator[Workspace]:
    """Yield a workspace in `data_dir`, which is kept, or in a temporary directory beside the results."""
    if data_dir is not None:
        data_dir.mkdir(parents=True, exist_ok=True)
        yield Workspace(data_dir.resolve(), mib)
        return
    with TemporaryDirectory(prefix="data-", dir=RESULTS) as directory:
        yield Workspace(Path(directory).resolve(), mib)


def _exit_on_signal(number: int, frame: FrameType | None) -> None:
    """Raise `SystemExit` at SIGTERM, so that processes are stopped and directories removed."""
    sys.exit(128 + number)
