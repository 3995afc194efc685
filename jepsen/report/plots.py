"""Plots of a run, with explanations: times and victims of faults, and their effect on clients."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator
from numpy.typing import NDArray

from jepsen.report.canvas import INK, Canvas, plot_style, thin_points
from jepsen.report.frame import Band, Frame, assign_lanes
from jepsen.report.series import KINDS, OUTCOMES, Floats, Lags, Operations, Series

COLOURS: Final = {"ok": "#2a7fc1", "fail": "#e08a00", "info": "#b5509c"}
OUTCOME_TEXTS: Final = {"ok": "ok", "fail": "refused", "info": "unknown"}
_MARKERS: Final = {"ok": ".", "fail": "v", "info": "x"}
_PANELS_MAX: Final = 6
_BAND_SHARE_MIN: Final = 0.002
"""Smallest width of a band as a share of the plot, so that momentary faults are visible."""
_OPAQUE: Final = 10_000
"""Number of points in a panel above which each is paler, so that the most frequent do not hide the others."""
_QUANTILES: Final = {0.5: "-", 0.99: "--"}
_WEAKER: Final = "What was answered under a weaker promise than acks=all counts as unknown."
_QUANTILE_OPERATIONS_MIN: Final = 5
"""Smallest number of operations in a bin for which a percentile is drawn."""


class Plot(NamedTuple):
    """Plot with its heading `title` and the explanation `text`."""

    name: str
    title: str
    text: str
    svg: Markup


def faults(frame: Frame) -> Plot:
    """Return the plot of faults: rows for each kind, and one for the time without a fault."""
    kinds = {kind: list(assign_lanes([band for band in frame.bands if band.kind == kind])) for kind in frame.colours}
    depths = [1 + max(lane for lane, _ in row) for row in kinds.values()]
    with plot_style():
        canvas = Canvas("faults", frame, [0.3 + 0.2 * (sum(depths) + 1)])
        (panel,) = canvas.panels
        places, at = [], 0
        for row, depth in zip(kinds.values(), depths, strict=True):
            _draw_bands(canvas, panel, frame, at, row)
            places.append(at + (depth - 1) / 2)
            at += depth
        for since, until in frame.quiet:
            panel.barh(at, until - since, 0.3, since, color=INK, alpha=0.3, linewidth=0)
        panel.set_yticks([*places, at], [*kinds, "quiet"])
        panel.set_ylim(at + 0.6, -0.6)
        text = (
            "Each bar is a fault that was seen to happen; point at it for its proof. Thin: until its victims served "
            "again. Quiet: no fault, and none lately."
        )
        return Plot("faults", "Faults", text, canvas.svg(f"{len(frame.bands)} faults over time. {text}"))


def _draw_bands(canvas: Canvas, panel: Axes, frame: Frame, at: int, row: list[tuple[int, Band]]) -> None:
    """Draw the bands of one kind of fault, with the first lane at `at`."""
    least_s = (frame.end_s - frame.begin_s) * _BAND_SHARE_MIN
    for number, (lane, band) in enumerate(row):
        y, colour = at + lane, frame.colours[band.kind]
        (bar,) = panel.barh(y, max(band.end_s - band.begin_s, least_s), 0.72, band.begin_s, color=colour, linewidth=0)
        canvas.explain(bar, f"band-{at}-{number}", band.text)
        panel.barh(y, band.served_s - band.end_s, 0.24, band.end_s, color=colour, alpha=0.6, linewidth=0)
        ends_s = band.served_s + canvas.estimate_width_s(band.label)
        if not any(on == lane and band.begin_s < other.begin_s < ends_s for on, other in row):
            place = (band.served_s, y)
            panel.annotate(band.label, place, (3, 0), textcoords="offset points", va="center", fontsize=7.5)


def throughput(frame: Frame, series: Series) -> Plot:
    """Return the plot of operations per second: offered, and completed by outcome."""
    operations, edges = series.operations, np.array(frame.edges())
    with plot_style():
        canvas = Canvas("throughput", frame, [1.9])
        canvas.draw_faults()
        (panel,) = canvas.panels
        below = np.zeros(len(edges) - 1)
        for code, outcome in enumerate(OUTCOMES):
            counts = _rate_per_second(operations.completed_s[operations.outcome == code], edges)
            panel.stairs(
                below + counts,
                edges,
                baseline=below,
                fill=True,
                color=COLOURS[outcome],
                alpha=0.8,
                label=OUTCOME_TEXTS[outcome],
            )
            below = below + counts
        panel.stairs(
            _rate_per_second(series.offered_s, edges), edges, color=INK, linewidth=1.1, label="offered", baseline=None
        )
        panel.set_ylabel("operations/s")
        panel.set_ylim(0)
        panel.legend(ncols=4, loc="lower right", bbox_to_anchor=(1, 0.98), borderpad=0)
        text = (
            f"Operations a second that were offered, and what became of them, in bins of {frame.bin_s:g} s. {_WEAKER}"
        )
        return Plot("throughput", "Throughput", text, canvas.svg(text))


def _rate_per_second(times_s: Floats, edges: Floats) -> Floats:
    """Return the number of times in each bin, per second; `edges` are the limits of the bins in seconds."""
    return np.histogram(times_s, edges)[0] / np.diff(edges)


def latency(frame: Frame, operations: Operations) -> Plot:
    """Return the plot of latencies: a panel for each frequent kind of operation, and one for the others."""
    codes = operations.kinds_by_frequency()
    groups = [[code] for code in codes[: _PANELS_MAX - 1]]
    if codes[_PANELS_MAX - 1 :]:
        groups.append(codes[_PANELS_MAX - 1 :])
    with plot_style():
        canvas = Canvas("latency", frame, [1.35] * max(1, len(groups)))
        canvas.draw_faults()
        for panel, group in zip(canvas.panels, groups, strict=False):
            _draw_latency(panel, frame, operations, group)
            panel.set_ylabel("\n".join(KINDS[code] for code in group))
        _legend(canvas.panels[0])
        text = (
            "Each operation by when it was asked for and how long its answer took. Lines: half and 99 % of those that "
            f"succeeded were faster, in bins of {frame.bin_s:g} s."
        )
        return Plot("latency", "Latency", text, canvas.svg(text))


def _legend(panel: Axes) -> None:
    """Add a legend of outcomes and quantiles to a panel."""
    for outcome in OUTCOMES:
        panel.scatter([], [], s=22, marker=_MARKERS[outcome], color=COLOURS[outcome], label=OUTCOME_TEXTS[outcome])
    for share, style in _QUANTILES.items():
        panel.plot([], [], style, color=INK, linewidth=0.9, label=f"p{100 * share:g}")
    panel.legend(ncols=5, loc="lower right", bbox_to_anchor=(1, 0.98), borderpad=0)


def _draw_latency(panel: Axes, frame: Frame, operations: Operations, group: list[int]) -> None:
    """Draw the latency of each operation of the kinds in `group`, and quantiles of successful ones."""
    for code, outcome in enumerate(OUTCOMES):
        which = np.isin(operations.kind, group) & (operations.outcome == code)
        if not which.any():  # an empty scatter would still embed a picture
            continue
        at_s = operations.invoked_s[which]
        took_ms = np.maximum(1000 * (operations.completed_s[which] - at_s), 0.01)
        shown = thin_points(at_s, np.log10(took_ms))
        panel.scatter(
            at_s[shown],
            took_ms[shown],
            s=9,
            marker=_MARKERS[outcome],
            color=COLOURS[outcome],
            linewidths=0.7 if outcome == "info" else 0,
            alpha=float(np.clip(_OPAQUE / max(1, len(shown)), 0.1, 0.75)),
            rasterized=True,
        )
        if outcome == "ok":
            _draw_quantiles(panel, frame, at_s, took_ms)
    panel.set_yscale("log")
    panel.yaxis.set_major_formatter(FuncFormatter(_format_ms))
    panel.yaxis.set_minor_locator(NullLocator())
    panel.grid(axis="y")


def _draw_quantiles(panel: Axes, frame: Frame, at_s: Floats, took_ms: Floats) -> None:
    """Draw the quantiles of latencies as lines, one value for each bin of time."""
    edges = np.array(frame.edges())
    middles = (edges[:-1] + edges[1:]) / 2
    for share, style in _QUANTILES.items():
        line = _compute_bins(at_s, took_ms, edges, lambda values, share=share: float(np.quantile(values, share)))  # type: ignore[misc]
        panel.plot(middles, line, style, color=INK, linewidth=0.9)


def _compute_bins(
    at_s: Floats,
    values: Floats,
    edges: Floats,
    figure: Callable[[Floats], float],
    least: int = _QUANTILE_OPERATIONS_MIN,
) -> Floats:
    """Return `figure` of the values of each bin; NaN for a bin with fewer than `least`."""
    order = np.argsort(at_s, kind="stable")
    bounds = np.searchsorted(at_s[order], edges)
    ordered = values[order]
    return np.array([figure(ordered[a:b]) if b - a >= least else np.nan for a, b in pairwise(bounds)])


def _format_ms(ms: float, _position: Any = None) -> str:
    """Return the text of a latency in ms or s."""
    return f"{ms / 1000:g} s" if ms >= 1000 else f"{ms:g} ms"


def lag(frame: Frame, lags: Lags) -> Plot:
    """Return the plot of lags: a line for each consumer, and one for the worst of all."""
    edges = np.array(frame.edges())
    middles = (edges[:-1] + edges[1:]) / 2
    with plot_style():
        canvas = Canvas("lag", frame, [1.5])
        canvas.draw_faults()
        (panel,) = canvas.panels
        processes: NDArray[np.int64] = np.unique(lags.process)
        for number, process in enumerate(processes):
            which = lags.process == process
            line = _compute_bins(lags.at_s[which], lags.lag_s[which], edges, lambda values: float(values.max()), 1)
            label = "each consumer" if number == 0 else None
            panel.plot(middles, line, color=COLOURS["ok"], linewidth=0.7, alpha=0.6, label=label)
        worst = _compute_bins(lags.at_s, lags.lag_s, edges, lambda values: float(values.max()), 1)
        panel.plot(middles, worst, color=INK, linewidth=1.2, label="the worst of all")
        panel.set_ylabel("seconds behind")
        panel.set_ylim(0)
        panel.yaxis.set_major_locator(MaxNLocator(4))
        panel.grid(axis="y")
        panel.legend(ncols=2, loc="lower right", bbox_to_anchor=(1, 0.98), borderpad=0)
        text = (
            f"How long ago the newest acknowledged record was that a consumer had not seen yet, at its polls; the "
            f"highest in bins of {frame.bin_s:g} s, {len(processes)} consumers."
        )
        return Plot("lag", "Consumers' lag", text, canvas.svg(text))
