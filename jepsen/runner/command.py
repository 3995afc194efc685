"""`python -m jepsen test`: options, progress, report, exit code."""

import secrets
import signal
import sys
import traceback
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final, Self

import click
import orjson
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from jepsen.nemeses.schedule import KINDS, FaultKind
from jepsen.report import INDEX, write_page
from jepsen.runner.cluster import RealCluster
from jepsen.runner.options import RunOptions
from jepsen.runner.results import report_text, results_of
from jepsen.runner.store import Store
from jepsen.runner.system import System
from jepsen.runner.trial import Outcome, Trial
from jepsen.runner.trial import Progress as TellProgress
from jepsen.runner.verdict import judge
from jepsen.workloads.catalogue import WORKLOADS

EXIT_CODES: Final = {"valid": 0, "invalid": 1, "unknown": 1}
COULD_NOT_RUN: Final = 2
INTERRUPTED: Final = 130
NODES_MAX: Final = 9


def _fault_kinds(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[FaultKind, ...]:
    """`kill,pause`, or `none`."""
    wanted = [] if text == "none" else [name.strip() for name in text.split(",")]
    strange = [name for name in wanted if name not in KINDS]
    if strange:
        raise click.BadParameter(f"{', '.join(strange)!r}; faults are {', '.join(KINDS)}, or none")
    return tuple(kind for kind in KINDS if kind in wanted)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--workload", type=click.Choice(list(WORKLOADS)), default="log", help="What the clients do.")
@click.option(
    "--faults", callback=_fault_kinds, default="kill,pause,cut", help="Kinds of faults, with commas, or none."
)
@click.option("--time", "seconds", type=click.FloatRange(min=1), default=60.0, help="Seconds of load and faults.")
@click.option("--nodes", type=click.IntRange(1, NODES_MAX), default=3, help="Brokers.")
@click.option("--clients", type=click.IntRange(1, 64), default=6, help="Client processes.")
@click.option(
    "--rate", type=click.FloatRange(min=1), default=300.0, help="Operations a second, of all clients together."
)
@click.option("--seed", type=click.IntRange(min=0), help="Draws the faults and what clients do. [default: any]")
@click.option(
    "--store",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("jepsen-store"),
    help="Where runs are kept, each in a folder of its own.",
)
@click.option("--keep", is_flag=True, help="Keep the brokers' data of a valid run as well.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as one JSON object instead of text.")
def test(
    workload: str,
    faults: tuple[FaultKind, ...],
    seconds: float,
    nodes: int,
    clients: int,
    rate: float,
    seed: int | None,
    store: Path,
    keep: bool,
    as_json: bool,
) -> None:
    """Try to make real brokers lose data: clients, faults, a final drain, and judges.

    Exit code 0 valid, 1 invalid or unknown (too little happened to be believed), 2 the test could not be run.
    """
    if nodes == 1 and "cut" in faults:
        raise click.UsageError("one node has nothing to be cut off from: --faults kill,pause")
    if nodes == 1 and "members" in faults:
        raise click.UsageError("nobody can join a node that is alone: --nodes 2 or more")
    drawn = secrets.randbelow(1 << 31) if seed is None else seed
    options = RunOptions(workload, faults, seconds, nodes, clients, rate, drawn)
    folder = Store(store, options)
    try:
        with ending_on_sigterm(), Bar() as bar:
            results = run(options, RealCluster(nodes, folder.data, options.plan.serve_flags), folder, bar.tell)
    except Exception:  # noqa: BLE001 - whatever broke the harness itself says nothing about the log
        traceback.print_exc()
        sys.exit(COULD_NOT_RUN)
    if results["verdict"] == "valid" and not keep:
        folder.drop_data()
    click.echo(orjson.dumps(results) if as_json else (folder.path / "report.txt").read_text(), nl=as_json)
    sys.exit(exit_code(results))


def run(options: RunOptions, system: System, store: Store, progress: TellProgress) -> dict[str, Any]:
    """One test, with everything that it leaves in the store; the content of `results.json`."""
    outcome: Outcome = Trial(options, system, store, progress).run()
    progress("judging", 0, outcome.figures, [])
    judged = judge(store.history, drained=outcome.drained is not None and not outcome.drained.unread)
    logs = {path.stem: path.read_text(errors="replace") for path in sorted(store.logs.glob("*.log"))}
    results = results_of(options, outcome, judged, logs)
    store.write_json("results.json", results)
    store.write_json("timeline.json", _timeline(outcome))
    progress("drawing", 0, outcome.figures, [])
    store.write_text("report.txt", f"{report_text(results, store.path)}{_drawn(store.path)}\n")
    return results


def _drawn(folder: Path) -> str:
    """Draw the run's page; where it is, or why there is none. Takes nothing from the verdict."""
    try:
        return write_page(folder) or f"drawn in {folder / INDEX}"
    except Exception as error:  # noqa: BLE001 - whatever it is, it says nothing about the log
        return f"the page could not be drawn: {error!r}"


def _timeline(outcome: Outcome) -> dict[str, Any]:
    return {
        "drawn": [fault._asdict() for fault in outcome.schedule],
        "happened": [happened._asdict() for happened in outcome.happened],
    }


def exit_code(results: dict[str, Any]) -> int:
    if results["broken"] is not None and results["verdict"] != "invalid":
        return INTERRUPTED if results["broken"] == "interrupted" else COULD_NOT_RUN
    return EXIT_CODES[results["verdict"]]


class Bar:
    """Progress on stderr: a bar on a terminal, elsewhere a line for each stage and each change of faults."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), TextColumn("{task.fields[told]}"))
        console = Console(stderr=True)
        self._is_terminal = console.is_terminal
        self._progress = Progress(*columns, console=console, transient=True, disable=not self._is_terminal)
        self._task = self._progress.add_task("", total=1.0, told="")
        self._said = ""

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def tell(self, stage: str, share: float, figures: dict[str, int], under_way: list[str]) -> None:
        faults = "; ".join(under_way)
        told = "  ".join(f"{figures.get(name, 0):,} {name}" for name in ("ok", "fail", "info"))
        self._progress.update(self._task, description=stage, completed=share, told=f"{told}  {faults}")
        line = f"{stage}: {faults}" if faults else stage
        if not self._is_terminal and line != self._said:
            self._said = line
            click.echo(line, err=True)


class ending_on_sigterm(AbstractContextManager[None]):  # noqa: N801 - used like a function
    """SIGTERM ends a test as Ctrl-C does."""

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGTERM, self._interrupt)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGTERM, self._before)

    @staticmethod
    def _interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt
