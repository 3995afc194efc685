"""Jobs of `raftlog pipeline`: a Spark session for as long as a job runs, its progress, its report.

Results go to stdout, everything else to stderr, where Spark logs only errors. Ctrl-C ends the job, and with
this process its JVM and workers end.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import click
import orjson
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from raftlog import pipeline
from raftlog.cli.options import json_option, option, settings_option
from raftlog.cli.outcome import CommandFailed
from raftlog.cli.tables import escape_text, show, show_properties

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER_DEFAULT: Final = "local[*]"
STEP_PRINTED_AFTER_S: Final = 1.0


class Report(Protocol):
    """Result of a job."""

    def as_json(self) -> Mapping[str, object]: ...


R = TypeVar("R", bound=Report)
Job = Callable[["SparkSession", "pipeline.OnProgress"], R]


def spark_job(function: Callable[..., Job[R]]) -> Callable[..., None]:
    """Return a command that calls `function`, runs the job that it returns, and prints the job's report.

    Adds `--master` and `--conf` for Spark, and `--json`. Exit code 1 for a report that is not sound."""

    @wraps(function)
    def verb(master: str, config: Mapping[str, str], as_json: bool, **given: Any) -> None:
        """Run the job, and print its report; fail if the report has problems."""
        report = run_job(function.__name__, master, config, function(**given))
        print_report(report, as_json)
        if not getattr(report, "is_sound", True):
            raise CommandFailed("the logs have problems, which are listed above")

    master = option(
        "--master",
        envvar="RAFTLOG_SPARK_MASTER",
        default=MASTER_DEFAULT,
        help="Spark master; local[*] runs on this machine.",
    )
    conf = settings_option("Spark setting. Can be repeated.", "--conf", "config", envvar="RAFTLOG_SPARK_CONF")
    return master(conf(json_option("Print the report as JSON.")(verb)))


def select_topics(topics: Iterable[str], topics_pattern: str | None) -> list[str] | None:
    """Return the named topics; None without names: all topics, or all that match the pattern.

    Raises `UsageError` for names together with a pattern."""
    named = list(topics)
    if named and topics_pattern is not None:
        raise click.UsageError("name topics, or give --topics-pattern, not both")
    return named or None


def run_job(app: str, master: str, config: Mapping[str, str], job: Job[R]) -> R:
    """Run `job` in its own session, with a bar on the terminal, or a line for each step that lasts a second.

    A second thread uses Spark while this thread waits. Otherwise, on Ctrl-C, pyspark would call the JVM during a call
    that was interrupted. When this process ends, its JVM and the workers end as well."""
    done: Future[R] = Future()
    steps = _Steps()
    with _bar(steps) as on_progress:

        def run() -> None:
            """Run the job in a Spark session; the result or the error becomes that of `done`."""
            try:
                on_progress(pipeline.Progress("starting Spark", 0, 0))
                spark = pipeline.local_session(f"raftlog pipeline {app}", master, config)
                try:
                    report = job(spark, on_progress)
                finally:
                    spark.stop()
                done.set_result(report)
            except BaseException as error:  # noqa: BLE001  # the waiting thread raises it
                done.set_exception(error)

        threading.Thread(target=run, name="job", daemon=True).start()
        while True:
            wait([done], STEP_PRINTED_AFTER_S)
            if done.done():
                return done.result()
            steps.print_once()


class _Steps:
    """Current step of a job, printed once when stderr is no terminal."""

    def __init__(self) -> None:
        self.now = self._printed = ""
        self.console = Console(stderr=True)

    def print_once(self) -> None:
        """Print the name of the current step once, without a terminal."""
        if not self.console.is_terminal and self.now != self._printed:
            self._printed = self.now
            click.echo(self.now, err=True)


@contextmanager
def _bar(steps: _Steps) -> "Iterator[pipeline.OnProgress]":
    """Show one bar for each step, one after another."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(),
    )
    console = steps.console
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        known: dict[str, TaskID] = {}

        def report_progress(progress: "pipeline.Progress") -> None:
            """Show the progress of the present step, and hide the bars of earlier ones."""
            steps.now = progress.what
            if progress.what not in known:
                for earlier in known.values():
                    bars.update(earlier, visible=False)
                known[progress.what] = bars.add_task(progress.what, total=None, text="")
            text = f"{progress.done:,} of {progress.total:,} {progress.unit}" if progress.total else ""
            bars.update(known[progress.what], completed=progress.done, total=progress.total or None, text=text)

        yield report_progress


def print_report(report: Report, as_json: bool) -> None:
    """Print the report as one JSON object, or as tables with problems on stderr."""
    found = report.as_json()
    if as_json:
        click.echo(orjson.dumps(found))
        return
    lists = {name: value for name, value in found.items() if isinstance(value, list)}
    show_properties(*((name.replace("_", " "), _format_cell(found[name])) for name in found if name not in lists))
    for name, values in lists.items():
        if values and all(isinstance(value, Mapping) for value in values):
            show(_make_table(name, values))
        for value in values:
            if not isinstance(value, Mapping):
                click.echo(f"{name.removesuffix('s')}: {value}", err=True)


def _make_table(name: str, rows: list[Mapping[str, Any]]) -> Table:
    """Return a table of rows with a column for each key."""
    heads = list(dict.fromkeys(key for row in rows for key in row))
    table = Table(*(head.replace("_", " ") for head in heads), box=None, header_style="bold", title=None)
    for row in rows:
        table.add_row(*(_format_cell(row.get(head)) for head in heads))
    return table


def _format_cell(value: object) -> str:
    """Return a value as text of a table."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_format_cell(each)}" for name, each in value.items()) or "-"
    return escape_text(None if value is None else str(value))
