"""Results of a test as one JSON object, and as text for people."""

import io
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from jepsen.runner.finding import SHOWN_MAX, Finding
from jepsen.runner.options import RunOptions
from jepsen.runner.trial import Outcome
from jepsen.runner.verdict import CheckResult, VerdictName, doubts, verdict_of

_WIDTH: Final = 140
_TRACE: Final = "Traceback"
_TRACE_SHOWN: Final = 1_000
_ERROR_MARKS: Final = ('"level":"error"', '"level":"critical"', '"level": "error"', '"level": "critical"', _TRACE)
_ERRORS_SHOWN: Final = 5
_REPORT_OF_A_KIND: Final = 3


def results_of(options: RunOptions, outcome: Outcome, checked: CheckResult, logs: Mapping[str, str]) -> dict[str, Any]:
    """Return the content of `results.json`; findings on the nodes are added to `checked.findings`."""
    for finding in (*outcome.findings, *_find_tracebacks(logs)):
        checked.findings.add(finding)
    places = options.plan.places()
    doubted = doubts(checked, places, options.faults, outcome.happened)
    if outcome.broken is not None:
        doubted.insert(0, f"the test was not finished: {outcome.broken}")
    verdict_name = verdict_of(checked.findings, doubted)
    figures = [checked.availability.figures_of(fault, places, outcome.begin_ns) for fault in outcome.happened]
    quiet = checked.requests.quiet((*outcome.happened, *outcome.unseen), outcome.begin_ns, outcome.load_s)
    offered = checked.requests.offered_figures(outcome.happened, outcome.begin_ns, outcome.load_s)
    return {
        "verdict": verdict_name,
        "valid": {"valid": True, "invalid": False, "unknown": None}[verdict_name],
        "doubts": doubted,
        "broken": outcome.broken,
        "explanation": None,
        "anomalies": checked.findings.counts,
        "findings": [finding.as_json() for finding in checked.findings.worst_first()],
        "options": options._asdict(),
        "command": options.command,
        "commit": _git_revision(),
        "load_s": round(outcome.load_s, 3),
        "load_begin_s": outcome.begin_ns / 1e9,
        "operations": checked.operations,
        "outcomes": checked.counts,
        "acknowledged_records": sum(checked.acknowledged_by_partition.values()),
        "acknowledged_by_partition": {str(place): n for place, n in checked.acknowledged_by_partition.items()},
        "polled_records": checked.polled_records,
        "not_offered": outcome.figures.get("not_offered", 0),
        "worst_lag_s": round(checked.worst_lag_ns / 1e9, 3),
        "faults": [each.as_json() for each in figures],
        "offered": offered._asdict(),
        "quiet": quiet.as_json(),
        "recovered_s": outcome.recovered_s,
        "settled_s": outcome.drained.settled_s if outcome.drained is not None else None,
        "read_s": outcome.drained.read_s if outcome.drained is not None else None,
        "complaints": {name: found for name, text in logs.items() if (found := _count_logged_errors(text))},
    }


def _git_revision() -> str:
    """Return the revision of the checkout, "unknown" without git."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty"],  # noqa: S607 - whichever git there is
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:  # there is none
        return "unknown"
    return done.stdout.strip() or "unknown"


def _find_tracebacks(logs: Mapping[str, str]) -> Iterator[Finding]:
    """Yield findings for nodes and clients that logged an unexpected error and survived it."""
    for name, text in logs.items():
        found = [line for line in text.splitlines() if _TRACE in line]
        if found:
            yield Finding("traceback", f"{name} logged {len(found)}, the first: {found[0][:_TRACE_SHOWN]}")


def _count_logged_errors(text: str) -> dict[str, Any]:
    """Return the number of errors in a log and the first one; empty without errors."""
    found = [line for line in text.splitlines() if any(mark in line for mark in _ERROR_MARKS)]
    return {"count": len(found), "first": found[:_ERRORS_SHOWN]} if found else {}


def report_text(results: Mapping[str, Any], store: Path) -> str:
    """Return the report for people, worst findings first."""
    console = Console(file=io.StringIO(), width=_WIDTH, highlight=False)
    verdict_name: VerdictName = results["verdict"]
    console.print(f"{verdict_name.upper()}  {results['command']}  (commit {results['commit']})", markup=False)
    for doubt in results["doubts"]:
        console.print(f"  {doubt}", markup=False)
    _print_findings(console, results)
    if results["explanation"] is not None:
        console.print(results["explanation"], "\n", markup=False)
    console.print(_operation_table(results["outcomes"]))
    console.print(_format_summary(results), markup=False)
    if results["faults"]:
        console.print(_fault_table(results["faults"]))
    for name, complaints in results["complaints"].items():
        console.print(f"log of {name}: {complaints['count']} errors, the first: {complaints['first'][0]}", markup=False)
    console.print(f"everything is in {store}", markup=False, soft_wrap=True)
    assert isinstance(console.file, io.StringIO), "the console writes into memory"
    return console.file.getvalue()


def _print_findings(console: Console, results: Mapping[str, Any]) -> None:
    """Print the first findings of each kind with their evidence; nothing without findings."""
    if not results["anomalies"]:
        return
    kinds = ", ".join(f"{count} {kind}" for kind, count in results["anomalies"].items())
    console.print(
        f"found: {kinds} (the first {_REPORT_OF_A_KIND} of each follow, {SHOWN_MAX} are in results.json)", markup=False
    )
    shown: dict[str, int] = {}
    for finding in results["findings"]:
        shown[finding["kind"]] = shown.get(finding["kind"], 0) + 1
        if shown[finding["kind"]] > _REPORT_OF_A_KIND:
            continue
        console.print(f"- {finding['kind']}: {finding['what']}", markup=False)
        for line in finding["evidence"]:
            console.print(f"      {line}", markup=False, soft_wrap=True)
    console.print()


def _operation_table(outcomes: Mapping[str, Mapping[str, int]]) -> Table:
    """Return the table of operations by kind and outcome."""
    table = Table("operation", box=None, header_style="bold")
    names = ("ok", "fail", "info", "open")
    for name in names:
        table.add_column(name, justify="right")
    for kind, counts in sorted(outcomes.items()):
        table.add_row(kind, *(f"{counts.get(name, 0):,}" for name in names))
    return table


def _format_summary(results: Mapping[str, Any]) -> str:
    """Return the figures of a run as lines of text."""
    quiet, offered = results["quiet"], results["offered"]
    parts = [
        f"{results['acknowledged_records']:,} records acknowledged, {results['polled_records']:,} polled; "
        f"{results['not_offered']:,} requests not offered; worst lag {results['worst_lag_s']:.1f} s",
        f"{offered['per_s']:,.0f} operations a second were offered"
        + (f", {offered['in_faults_per_s']:,.0f} under faults" if offered["in_faults_per_s"] is not None else ""),
    ]
    if quiet["kinds"]:
        shares = [
            f"{100 * each['share']:.2f} % of {each['operations']:,} ({kind})" for kind, each in quiet["kinds"].items()
        ]
        parts.append(f"without faults ({quiet['seconds']:.0f} s) succeeded {', '.join(shares)}")
        parts += [
            f"  failed at {each['at_s']:.2f} s: {each['kind']} of process {each['process']}, "
            + (each["error"] or "no end")
            for each in quiet["failures"]
        ]
    if results["settled_s"] is not None:
        parts.append(
            f"healed: all served after {results['recovered_s']:.2f} s, every node took writes to every partition "
            f"after {results['settled_s']:.2f} s more, everything was read from every node in {results['read_s']:.2f} s"
        )
    return "\n".join(parts)


def _fault_table(faults: Sequence[Mapping[str, Any]]) -> Table:
    """Return the table of faults, with the availability during each."""
    table = Table("at", "for", "fault", box=None, header_style="bold")
    for name in ("serve again after", "no write", "worst partition", "ok", "refused", "unknown"):
        table.add_column(name, justify="right")
    for each in faults:
        fault = each["fault"]
        table.add_row(
            f"{fault['begin_s']:.1f} s",
            f"{fault['end_s'] - fault['begin_s']:.1f} s",
            fault["what"],
            f"{fault['served_s'] - fault['end_s']:.1f} s" if fault["served_s"] > fault["end_s"] else "",
            f"{each['without_write_s']:.2f} s",
            f"{each['worst_partition_s']:.2f} s {each['worst_partition']}",
            f"{each['acknowledged']:,}",
            f"{each['refused']:,}",
            f"{each['unknown']:,}",
        )
    return table
