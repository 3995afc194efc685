"""Run of one test, with all results in its folder; called by `command` and `suite`."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from jepsen.report import INDEX, write_page
from jepsen.runner.finding import Finding
from jepsen.runner.options import RunOptions
from jepsen.runner.results import report_text, results_of
from jepsen.runner.stage import Script, play_drawn_faults
from jepsen.runner.store import Store
from jepsen.runner.system import System
from jepsen.runner.trial import Outcome, Progress, Trial
from jepsen.runner.verdict import CheckResult, check_file

Expectation = Callable[[RunOptions, Outcome, CheckResult], Iterable[str]]
"""Function that checks a whole run after the check of its history, and returns a text for each unmet expectation."""

EXIT_CODES: Final = {"valid": 0, "invalid": 1, "unknown": 1}
COULD_NOT_RUN: Final = 2
INTERRUPTED: Final = 130


def run(
    options: RunOptions,
    system: System,
    store: Store,
    progress: Progress,
    script: Script = play_drawn_faults,
    expects: Sequence[Expectation] = (),
) -> dict[str, Any]:
    """Run a test and return the content of `results.json`. Without a script the faults are drawn."""
    outcome: Outcome = Trial(options, system, store, progress, script).run()
    progress("checking", 0, outcome.figures, [])
    is_drained = outcome.drained is not None and not outcome.drained.unread
    checked = check_file(
        store.history, drained=is_drained, faults=options.faults, dense=not options.plan.is_transactional
    )
    unmet = [Finding("expectation", text) for expected in expects for text in expected(options, outcome, checked)]
    outcome = outcome._replace(findings=(*outcome.findings, *unmet))
    logs = {path.stem: path.read_text(errors="replace") for path in sorted(store.logs.glob("*.log"))}
    results = results_of(options, outcome, checked, logs) | {"explanation": options.explain(store.history)}
    store.write_json("results.json", results)
    store.write_json("timeline.json", _timeline(outcome))
    progress("drawing", 0, outcome.figures, [])
    store.write_text("report.txt", f"{report_text(results, store.path)}{draw_page(store.path)}\n")
    return results


def draw_page(folder: Path) -> str:
    """Draw the page of a run or suite; return its path, or the reason of a failure (no part of the verdict)."""
    try:
        return write_page(folder) or f"drawn in {folder / INDEX}"
    except Exception as error:  # noqa: BLE001 - whatever it is, it says nothing about the log
        return f"the page could not be drawn: {error!r}"


def _timeline(outcome: Outcome) -> dict[str, Any]:
    """Return the drawn, observed and unobserved faults of a run, as JSON."""
    return {
        "drawn": [fault._asdict() for fault in outcome.schedule],
        "happened": [happened._asdict() for happened in outcome.happened],
        "unseen": [happened._asdict() for happened in outcome.unseen],
    }


def exit_code(results: dict[str, Any]) -> int:
    """Return the exit code of a run: by its verdict, or for a run that was interrupted or could not run."""
    if results["broken"] is not None and results["verdict"] != "invalid":
        return INTERRUPTED if results["broken"] == "interrupted" else COULD_NOT_RUN
    return EXIT_CODES[results["verdict"]]
