"""Page of one run, from its folder: the verdict, its proof, and the course of the run."""

from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from jepsen.report import plots, record_plots
from jepsen.report.folder import HISTORY, Folder
from jepsen.report.frame import Frame
from jepsen.report.series import KINDS, OUTCOMES, Operations, Series, read_series
from jepsen.report.templates import render

SHOWN_FIRST: Final = 3
"""Number of findings of a kind that the page shows without a click."""
_ABSENT: Final[dict[str, Any]] = {
    "options": {},
    "command": "",
    "commit": "unknown",
    "operations": None,
    "acknowledged_records": None,
    "faults": (),
    "quiet": None,
    "offered": None,
    "worst_lag_s": None,
    "not_offered": None,
    "recovered_s": None,
    "settled_s": None,
    "read_s": None,
    "complaints": {},
}
"""Defaults for results in which fields are missing: those of an older version or of an interrupted run."""
_PERCENTS: Final = (50, 95, 99, 99.9)


class LatencyRow(NamedTuple):
    """Latencies of one kind and outcome, in milliseconds; `percentiles` are those of `_PERCENTS`."""

    kind: str
    outcome: str
    number: int
    percentiles: tuple[float, ...]
    worst_ms: float


def page_of(path: Path) -> str:
    """Return the page as HTML. Raises `InvalidArgument` for a folder without a run, and `OSError`."""
    folder = Folder(path)
    series = _series(folder)
    return render(
        "run.html",
        folder=folder,
        results={**_ABSENT, **folder.results},
        why=_verdict_reasons(folder),
        explanation=_paragraphs(folder.results.get("explanation")),
        found=folder.findings_by_kind(),
        lines=series.lines if series is not None else {},
        plots=_plots(folder.frame(series), series) if series is not None else [],
        records=series.records.counts if series is not None else {},
        looks=record_plots.LOOKS,
        outcome_texts=plots.OUTCOME_TEXTS,
        latencies=latency_rows(series.operations) if series is not None else [],
        percents=_PERCENTS,
        history=HISTORY if folder.history.exists() else None,
        shown_first=SHOWN_FIRST,
    )


def _series(folder: Folder) -> Series | None:
    """Read the series of the history; None without a history or with an empty one."""
    if not folder.history.exists():
        return None
    begin_s: float | None = folder.results.get("load_begin_s")
    series = read_series(folder.history, begin_s, folder.first_fault_s(), folder.evidence_lines())
    return series if len(series.offered_s) else None


def _plots(frame: Frame, series: Series) -> list[plots.Plot]:
    """Return the plots for which the run has data, in the order of the page."""
    drawn = [plots.faults(frame), plots.throughput(frame, series)]
    if len(series.records.status):
        drawn.append(record_plots.statuses(frame, series.records))
    drawn.append(plots.latency(frame, series.operations))
    if len(series.records.status):
        drawn.append(record_plots.offsets(frame, series.records))
    if len(series.lags.at_s):
        drawn.append(plots.lag(frame, series.lags))
    return drawn


def _verdict_reasons(folder: Folder) -> list[str]:
    """Return the verdict's reasons, a sentence each."""
    results = folder.results
    reasons = []
    if folder.findings_by_kind():
        reasons.append(f"Found: {', '.join(f'{found.number:,} {found.kind}' for found in folder.findings_by_kind())}.")
    reasons += [f"Doubt: {doubt}." for doubt in results.get("doubts", ())]
    if not reasons:
        faults = len(results.get("faults", ()))
        reasons.append(
            f"No anomaly in {results.get('operations', 0):,} operations; "
            f"{results.get('acknowledged_records', 0):,} records were acknowledged, {faults} faults happened."
        )
    return reasons


def _paragraphs(explanation: Any) -> list[str]:
    """Return the paragraphs of an explanation: a text with empty lines between them, or a list."""
    if isinstance(explanation, str):
        return [paragraph for paragraph in explanation.split("\n\n") if paragraph.strip()]
    return [str(paragraph) for paragraph in explanation or ()]


def latency_rows(operations: Operations) -> list[LatencyRow]:
    """Return a row for each kind and outcome that occurs, the most frequent kinds first."""
    rows = []
    for code in operations.kinds_by_frequency():
        for outcome, word in enumerate(OUTCOMES):
            _, took_s = operations.timings(code, outcome)
            if len(took_s):
                percentiles = tuple(float(ms) for ms in np.percentile(1000 * took_s, _PERCENTS))
                worst_ms = 1000 * float(took_s.max())
                rows.append(LatencyRow(KINDS[code], plots.OUTCOME_TEXTS[word], len(took_s), percentiles, worst_ms))
    return rows
