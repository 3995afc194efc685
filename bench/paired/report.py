"""Report of the ratios, as a table and as JSON."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.paired.ratios import FIRST, SECOND, SLOWDOWN_MAX
from bench.paired.rounds import PairedFigure, PairedOutcome
from bench.paired.trees import Tree
from bench.report import FORMAT, format_number

_OTHERS_SHARE_MAX = 0.1


def paired_report(outcomes: Sequence[PairedOutcome], trees: Sequence[Tree], machine: dict[str, Any]) -> dict[str, Any]:
    """Return the report as an object for JSON."""
    return {
        "format": FORMAT,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": trees[SECOND].commit,
        "trees": [
            {"directory": str(tree.directory), "commit": tree.commit, "interpreter": tree.python} for tree in trees
        ],
        "machine": machine,
        "paired": {outcome.measure.name: outcome.as_json() for outcome in outcomes},
    }


def print_paired(console: Console, outcomes: Sequence[PairedOutcome], trees: Sequence[Tree]) -> None:
    """Print a row for each figure: both medians, ratio, noise, verdict, and the ratio of every round."""
    first, second = trees
    table = Table(title="raftlog: this checkout ÷ the other", title_justify="left", pad_edge=False)
    table.add_column("figure")
    for heading in ("other", "this", "ratio", "noise"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("unit", "", "rounds", "against itself"):
        table.add_column(heading, no_wrap=True)
    for outcome in outcomes:
        table.add_section()
        table.add_row(f"[bold]{outcome.measure.title}[/]", *[""] * 8)
        for figure in outcome.measure.figures:
            table.add_row(*_row(outcome, figure))
    console.print(table)
    for outcome in outcomes:
        if outcome.failure:
            console.print(f"[red]{outcome.measure.name} failed[/]: {outcome.failure}", highlight=False)
        if outcome.skipped:
            console.print(f"[yellow]{outcome.measure.name} not measured[/]: {outcome.skipped}", highlight=False)
    for name, tree in (("other", first), ("this", second)):
        console.print(f"{name}: {tree.directory} at {tree.commit or 'no commit'}, {tree.python}", highlight=False)
    busiest = max((outcome.other_programs for outcome in outcomes), default=0.0)
    if busiest > _OTHERS_SHARE_MAX:
        console.print(f"[yellow]other programs took up to {busiest:.0%} of the CPUs: provisional[/]", highlight=False)


def is_acceptable(outcome: PairedOutcome) -> bool:
    """Return whether every required figure was measured, and its slowdown is acceptable."""
    compared = [outcome.comparison(figure) for figure in outcome.measure.figures if figure.is_required]
    return all(comparison is not None and comparison.is_acceptable for comparison in compared)


def _row(outcome: PairedOutcome, figure: PairedFigure) -> list[str]:
    comparison = outcome.comparison(figure)
    if comparison is None:
        return [f"  {figure.title}", *["not measured"] * 2, *[""] * 6]
    verdict = "" if not figure.is_required else "[green]ok[/]" if comparison.is_acceptable else "[red]WORSE[/]"
    return [
        f"  {figure.title}",
        format_number(outcome.median_of(figure, FIRST)),
        format_number(outcome.median_of(figure, SECOND)),
        f"{comparison.ratio:.3f}",
        f"±{comparison.noise:.1%}",
        figure.unit,
        verdict,
        " · ".join(f"{ratio:.3f}" for ratio in comparison.paired),
        " · ".join(f"{ratio:.3f}" for ratio in comparison.control),
    ]


def describe_tolerance() -> str:
    """Return the rule of the verdict as text."""
    return f"ok: worse by at most {SLOWDOWN_MAX:.0%} and the noise, which is this method's on the other tree alone"
