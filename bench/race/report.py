"""Results of the race: medians, the table, and the chart for the README."""

import json
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich.table import Table

from bench.race.system import COLUMNS, TRANSACTION_COLUMNS, Column, System, Values

FIRST: Final = "raftlog"
OTHERS_MAX: Final = 0.25
"""Share of a core above which the CPU time of other programs disturbs a run."""
_ATTEMPTS: Final = 2
"""Runs of a measure, as a multiple of those needed, while others disturb some."""
_WIDTH: Final = 900
_HEIGHT: Final = 420


class Run(NamedTuple):
    """One run of a measure; `nodes` and `others` are CPU time in cores.

    `others` includes the time that a hypervisor gave to other machines."""

    values: Values
    nodes: float
    others: float


class SystemResult(NamedTuple):
    """All runs of one system by measure, and the errors of failed measures."""

    system: System
    runs: dict[str, list[Run]]
    errors: dict[str, str]

    def median(self, measure: str, figure: str) -> float | None:
        """Return the median of a figure; None if it was not measured."""
        found = [run.values[figure] for run in self.runs.get(measure, []) if figure in run.values]
        return statistics.median(found) if found else None

    @property
    def others(self) -> float:
        """CPU time of other programs, in cores, in the run in which it was largest."""
        return max((run.others for runs in self.runs.values() for run in runs), default=0.0)

    def as_json(self) -> dict[str, Any]:
        measures = {name: [run._asdict() for run in runs] for name, runs in self.runs.items()}
        system = self.system
        return {
            "key": system.key,
            "name": system.name,
            "promise": system.promise,
            "measures": measures,
            "errors": self.errors,
        }


def repeat_disturbed(run: Callable[[], Run], count: int) -> list[Run]:
    """Call `run` until `count` runs were undisturbed, or a bounded number of times; return the least disturbed ones."""
    runs: list[Run] = []
    while sum(each.others <= OTHERS_MAX for each in runs) < count and len(runs) < count * _ATTEMPTS:
        runs.append(run())
    return sorted(runs, key=lambda each: each.others)[:count]


def race_tables(results: Sequence[SystemResult]) -> list[Table]:
    """Return the tables of medians: of all systems, and of transactions where a system has measured some."""
    transacting = {column.measure for column in TRANSACTION_COLUMNS}
    others = [result for result in results if transacting & (result.runs.keys() | result.errors.keys())]
    tables = [_table("medians", COLUMNS, results)]
    return [*tables, _table("medians of transactions", TRANSACTION_COLUMNS, others)] if others else tables


def _table(title: str, columns: Sequence[Column], results: Iterable[SystemResult]) -> Table:
    """Return a table with one row for each system."""
    table = Table("system", "an answer means", *(column.title for column in columns), "others' CPU", title=title)
    for result in results:
        cells = [_cell(result, column) for column in columns]
        noise = f"{result.others:.0%}" + (" !" if result.others > OTHERS_MAX else "")
        table.add_row(result.system.name, result.system.promise, *cells, noise)
    return table


def _cell(result: SystemResult, column: Column) -> str:
    if column.measure in result.errors:
        return "failed"
    median = result.median(column.measure, column.figure)
    return "–" if median is None else f"{median:,.{column.digits}f}"


def write_results(results: Sequence[SystemResult], machine: dict[str, Any], path: Path) -> None:
    """Write all runs as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    systems = [result.as_json() for result in results]
    path.write_text(json.dumps({"machine": machine, "systems": systems}, indent=2) + "\n")


def write_chart(results: Sequence[SystemResult], path: Path) -> None:
    """Draw a bar chart as SVG: records per second of 64 connections with one record per request."""
    import pygal
    from pygal.style import LightGreenStyle

    shown = [(result, result.median("closed", "per_s")) for result in results]
    chart = pygal.HorizontalBar(
        title="records/s, 64 connections, one record a request, three nodes",
        style=LightGreenStyle,
        width=_WIDTH,
        height=_HEIGHT,
        show_legend=False,
        print_values=True,
        show_x_labels=False,
        value_formatter=lambda value: f"{value:,.0f}",
        js=(),
    )
    measured = [(result, median) for result, median in shown if median is not None]
    measured.sort(key=lambda pair: pair[1])
    chart.x_labels = [f"{result.system.name} ({result.system.promise})" for result, _ in measured]
    colour = {True: "#2f6f4f", False: "#b9c4bd"}
    chart.add(
        "", [{"value": median, "color": colour[result.system.key.startswith(FIRST)]} for result, median in measured]
    )
    path.write_text(re.sub(r"<script.*?</script>", "", chart.render(is_unicode=True), flags=re.DOTALL))
