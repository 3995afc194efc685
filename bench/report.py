"""Report of results, as a table, as a file, and in comparison with an earlier run."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.runner import OTHERS_KEY, Outcome

FORMAT = 1
_OTHERS_SHARE_MAX = 0.1
Report = dict[str, Any]
"""Results of one call of the program, as stored in its file."""


def report_of(outcomes: list[Outcome], machine: dict[str, Any], commit: dict[str, Any], runs: int) -> Report:
    """Return the report as an object for JSON."""
    return {
        "format": FORMAT,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        **commit,
        "runs": runs,
        "machine": machine,
        "measures": {outcome.measure.name: outcome.as_json() for outcome in outcomes},
    }


def write_report(report: Report, directory: Path) -> Path:
    """Write a report to a file named by date and commit."""
    stamp = report["date"].replace(":", "").replace("+0000", "Z")
    path = directory / f"{stamp}-{report.get('commit', 'unknown')[:8]}.json"
    path.write_text(json.dumps(report, indent=2) + "\n")
    return path


def read_report(path: Path) -> Report:
    """Read a report; raises `ValueError` if the file is not one."""
    try:
        report: Report = json.loads(path.read_text())
        known = report["format"] == FORMAT
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is no report of this program: {error!r}") from None
    if not known:
        raise ValueError(f"{path} has format {report['format']}, not {FORMAT}")
    return report


def print_report(console: Console, report: Report) -> None:
    """Print the figures, the failures, and the machine."""
    table = Table(title="raftlog: figures", title_justify="left", pad_edge=False)
    table.add_column("measure")
    for heading in ("median", "required", "unit", "", "every run"):
        table.add_column(heading, justify="right" if heading in ("median", "required") else "left", no_wrap=True)
    for name, measure in report["measures"].items():
        table.add_section()
        table.add_row(f"[bold]{measure['title']}[/] [dim]{name}[/]", *[""] * 5)
        for figure in measure["figures"].values():
            table.add_row(*_row(measure, figure))
    console.print(table)
    for name, measure in report["measures"].items():
        for failure in measure["failures"]:
            console.print(f"[red]{name} failed[/], {failure}", highlight=False, markup=True)
        if measure["not_measured"]:
            console.print(f"[yellow]{name} not measured[/]: {measure['not_measured']}", highlight=False)
    console.print(_machine_line(report), highlight=False)
    busiest = max((run[OTHERS_KEY] for measure in report["measures"].values() for run in measure["runs"]), default=0.0)
    if busiest > _OTHERS_SHARE_MAX:
        console.print(
            f"[yellow]other programs took up to {busiest:.0%} of the CPUs during a run: "
            "take the figures as provisional[/]",
            highlight=False,
        )


def _row(measure: dict[str, Any], figure: dict[str, Any]) -> list[str]:
    """Return the cells of a figure's row."""
    verdict = {True: "[green]met[/]", False: "[red]NOT MET[/]", None: ""}[figure["is_met"]]
    middle = (
        format_number(figure["median"]) if figure["values"] else "not measured" if measure["not_measured"] else "failed"
    )
    every = " · ".join(format_number(value) for value in figure["values"])
    return [f"  {figure['title']}", middle, _describe_requirement(figure), figure["unit"], verdict, f"[dim]{every}[/]"]


def _describe_requirement(figure: dict[str, Any]) -> str:
    """Return the required bound of a figure as text; empty without one."""
    if figure["at_least"] is not None:
        return f"≥ {format_number(figure['at_least'])}"
    return "" if figure["at_most"] is None else f"≤ {format_number(figure['at_most'])}"


def format_number(value: float | None) -> str:
    """Format a number with four significant digits, or as a whole number with separators."""
    if value is None:
        return ""
    if abs(value) >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.3g}"


def _machine_line(report: Report) -> str:
    """Return a line with the date, the commit and the machine of a report."""
    machine = report["machine"]
    sync = machine["fdatasync"]
    changed = ", with changes" if report.get("has_changes") else ""
    return (
        f"{report['date']}, commit {report.get('commit', 'unknown')[:8]}{changed}; {machine['cpu_model']}, "
        f"{machine['cores']} cores, {machine['memory_mib']:,} MiB, Linux {machine['kernel']}, {machine['python']}, "
        f"{machine['filesystem']}; fdatasync p50 {sync['p50_ms']:.2f} ms, p99 {sync['p99_ms']:.2f} ms; "
        f"{machine['python_mloops_per_s']:.1f} M Python loop turns/s; load average before {machine['load_average']:.2f}"
    )


def print_comparison(console: Console, old: Report, new: Report) -> None:
    """Print the medians of two reports side by side, and the ratio new ÷ old."""
    table = Table(title=f"{old['date']} → {new['date']}", title_justify="left", pad_edge=False)
    table.add_column("figure")
    for heading in ("old", "new", "new ÷ old"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("unit", no_wrap=True)
    for name, measure in new["measures"].items():
        before = old["measures"].get(name, {"figures": {}})["figures"]
        for key, figure in measure["figures"].items():
            was, now = before.get(key, {}).get("median"), figure["median"]
            ratio = f"{now / was:.2f}" if was and now is not None else ""
            table.add_row(f"{name}: {figure['title']}", format_number(was), format_number(now), ratio, figure["unit"])
    console.print(table)
    for title, probe in (("CPU probe", "python_mloops_per_s"), ("load average before", "load_average")):
        console.print(f"{title}: {old['machine'][probe]:.2f} → {new['machine'][probe]:.2f}", highlight=False)
    syncs = [report["machine"]["fdatasync"]["p50_ms"] for report in (old, new)]
    console.print(f"fdatasync p50: {syncs[0]:.2f} → {syncs[1]:.2f} ms", highlight=False)
