"""Plots of the status of every record sent, over the time of its send."""

from typing import Final, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from jepsen.checkers.record_status import STATUSES, Status
from jepsen.report.canvas import Canvas, plot_style, thin_points
from jepsen.report.frame import Frame
from jepsen.report.plots import Plot
from jepsen.report.series import Records


class _StatusStyle(NamedTuple):
    """Text, colour and marker of a status."""

    text: str
    colour: str
    marker: str
    size: float
    is_bad: bool = False


LOOKS: Final[dict[Status, _StatusStyle]] = {
    "lost": _StatusStyle("lost", "#d1350f", "x", 26, is_bad=True),
    "vanished": _StatusStyle("read, then gone", "#c2255c", "P", 22, is_bad=True),
    "unseen": _StatusStyle("unseen", "#b58a00", "s", 14, is_bad=True),
    "duplicate": _StatusStyle("duplicate", "#b5509c", "D", 14, is_bad=True),
    "aborted": _StatusStyle("refused, yet there", "#7a4fd0", "^", 18, is_bad=True),
    "ok": _StatusStyle("ok", "#2a7fc1", ".", 7),
    "stored": _StatusStyle("unknown, is there", "#12a07a", ".", 8),
    "absent": _StatusStyle("unknown, is not", "#8c8c8c", ".", 8),
    "refused": _StatusStyle("refused", "#e08a00", ".", 8),
    "excused": _StatusStyle("expired, replaced", "#8f8f5a", ".", 5),
}
"""Style of each status, the worst status first."""
BAD: Final = tuple(status for status, look in LOOKS.items() if look.is_bad)
PARTITIONS_MAX: Final = 6
"""Largest number of partitions whose offsets are drawn; those with bad records come first."""


def statuses(frame: Frame, records: Records) -> Plot:
    """Return the plot of statuses over time: a row for each status, with a lane for each partition."""
    rows = [status for status in LOOKS if records.counts.get(status)]
    with plot_style():
        canvas = Canvas("statuses", frame, [0.34 * max(1, len(rows)) + 0.1])
        canvas.draw_faults()
        (panel,) = canvas.panels
        for row, status in enumerate(rows):
            look, which = LOOKS[status], records.status == STATUSES.index(status)
            lane = (records.partition[which] + 0.5) / len(records.partitions) - 0.5
            _scatter(panel, look, records.invoked_s[which], row + 0.8 * lane)
        panel.set_yticks(
            range(len(rows)), [f"{LOOKS[status].text}\n{records.counts[status]:,}" for status in rows], fontsize=7
        )
        panel.set_ylim(max(1, len(rows)) - 0.5, -0.5)
        text = (
            "Each record at the time it was sent, in the row of what became of it; within a row each partition has a "
            "lane of its own. Lost: acknowledged and never seen. Read, then missing: it was polled, and is not there "
            "any more. Unknown: the client got no answer."
        )
        summary = ", ".join(f"{records.counts[status]} {LOOKS[status].text}" for status in rows)
        return Plot("statuses", "Status of each record", text, canvas.svg(f"{summary}. {text}"))


def offsets(frame: Frame, records: Records) -> Plot:
    """Return the plot of statuses by offset, with a panel for each partition."""
    bad = np.isin(records.status, [STATUSES.index(status) for status in BAD])
    count = len(records.partitions)
    bad_counts = np.bincount(records.partition[bad], minlength=count)
    order = sorted(range(count), key=lambda number: (-bad_counts[number], records.partitions[number]))
    with plot_style():
        drawn = order[:PARTITIONS_MAX]
        canvas = Canvas("offsets", frame, [1.25 if bad_counts.any() else 0.9] * max(1, len(drawn)))
        canvas.draw_faults()
        for panel, number in zip(canvas.panels, drawn, strict=False):
            _draw_offsets(panel, records, number)
        _legend(canvas.panels[0], records)
        text = (
            "Where each record stands, by the time it was sent. A record of unknown status that is there may stand far "
            "above its neighbours: it was stored late."
        )
        if len(order) > len(drawn):
            text += f" {len(order) - len(drawn)} more partitions are not drawn; those with something bad come first."
        return Plot("offsets", "Records by offset", text, canvas.svg(text))


def _draw_offsets(panel: Axes, records: Records, number: int) -> None:
    """Draw the records of one partition: the time of each send against its offset, coloured by status."""
    here = (records.partition == number) & (records.offset >= 0)
    for status in reversed(LOOKS):
        which = here & (records.status == STATUSES.index(status))
        if which.any():  # an empty scatter would still embed a picture
            _scatter(panel, LOOKS[status], records.invoked_s[which], records.offset[which].astype(np.float64))
    panel.set_ylabel(records.partitions[number])
    panel.set_ylim(0)
    panel.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    panel.grid(axis="y")


def _scatter(panel: Axes, look: _StatusStyle, xs: np.ndarray, ys: np.ndarray) -> None:
    """Draw points in the style of a status, as few as cover the same pixels."""
    shown = thin_points(xs, ys)
    panel.scatter(
        xs[shown],
        ys[shown],
        s=look.size,
        marker=look.marker,
        color=look.colour,
        linewidths=1.1 if look.marker == "x" else 0,
        rasterized=True,
    )


def _legend(panel: Axes, records: Records) -> None:
    """Add a legend of the statuses that occur to a panel."""
    for status, look in LOOKS.items():
        if records.counts.get(status) and status not in ("refused", "absent"):
            panel.scatter([], [], s=max(14, look.size), marker=look.marker, color=look.colour, label=look.text)
    panel.legend(ncols=8, loc="lower right", bbox_to_anchor=(1, 0.98), borderpad=0)
