"""Figures that share one time axis, as SVG embedded in the page.

Lines and text are vectors in the colour of the page's text, so that they are readable on a light and on a dark page.
Points are embedded pixel images, so that a million points take less than a megabyte. Equal data give equal bytes.
"""

import html
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import matplotlib
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from numpy.typing import NDArray

from jepsen.report.frame import Frame

INK: Final = "#0b0c0d"
"""Colour that the page replaces by the colour of its text."""
WIDTH: Final = 11.6
"""Width of a figure, in inches; the page scales it to its own width."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 1.1, 0.24, 0.26, 0.36
_DPI: Final = 130
_STYLE: Final[Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": INK,
    "grid.alpha": 0.15,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "figure.facecolor": "none",
}
_CELLS: Final = (1500, 400)
"""Columns and rows of cells of about a pixel; of the points in one cell only one is drawn."""


class Canvas:
    """Figure with panels above each other, `heights` in inches. `name` makes the ids of its SVG unique in the page."""

    def __init__(self, name: str, frame: Frame, heights: list[float], *, gap: float = 0.12) -> None:
        """Create one panel for each of `heights`, in inches, from top to bottom with a common time axis.

        `name` is unique in the page, and `gap` is the distance between panels in inches."""
        self._name, self._frame = name, frame
        self._titles: dict[str, str] = {}
        height = _TOP + sum(heights) + gap * (len(heights) - 1) + _BOTTOM
        self._figure = Figure(figsize=(WIDTH, height))
        self.panels: list[Axes] = []
        top = height - _TOP
        for panel_height in heights:
            bottom = top - panel_height
            box = (_LEFT / WIDTH, bottom / height, (WIDTH - _LEFT - _RIGHT) / WIDTH, panel_height / height)
            self.panels.append(self._figure.add_axes(box))
            top = bottom - gap
        for panel in self.panels:
            panel.set_xlim(frame.begin_s, frame.end_s)
            panel.tick_params(labelbottom=panel is self.panels[-1])
            panel.grid(axis="x")
            panel.axvline(frame.load_s, color=INK, linewidth=0.8, linestyle=":")
        self.panels[-1].set_xlabel(
            "seconds from the beginning of the load (dotted: its end, then the drain)", labelpad=1
        )

    def draw_faults(self) -> None:
        """Draw the faults as stripes behind all panels."""
        for number, panel in enumerate(self.panels):
            for at, band in enumerate(self._frame.bands):
                colour = self._frame.colours[band.kind]
                stripe = panel.axvspan(band.begin_s, band.end_s, color=colour, alpha=0.16, linewidth=0, zorder=0)
                self.explain(stripe, f"stripe-{number}-{at}", band.text)

    def estimate_width_s(self, description: str) -> float:
        """Return the estimated width of a small text, in seconds of the time axis."""
        inches = 0.1 + 0.062 * len(description)
        return inches / (WIDTH - _LEFT - _RIGHT) * (self._frame.end_s - self._frame.begin_s)

    def explain(self, artist: Any, name: str, description: str) -> None:
        """Attach a description, which a browser shows as a tooltip of the artist."""
        artist.set_gid(name)
        self._titles[name] = description

    def svg(self, description: str) -> Markup:
        """Return the plot as SVG, with `description` for screen readers."""
        text = io.StringIO()
        metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        FigureCanvasSVG(self._figure)
        with matplotlib.rc_context({"svg.hashsalt": self._name}):
            self._figure.savefig(text, format="svg", dpi=_DPI, metadata=metadata)
        return Markup(_prepare_for_page(text.getvalue(), self._name, self._titles, description))  # noqa: S704 - see there


@contextmanager
def plot_style() -> Iterator[None]:
    """Apply the style to figures that are created and drawn inside."""
    with matplotlib.rc_context(_STYLE):
        yield


def thin_points(xs: NDArray[Any], ys: NDArray[Any]) -> NDArray[np.intp]:
    """Return the indices of enough points to cover every pixel that all points cover."""
    if not len(xs):
        return np.zeros(0, np.intp)
    cells = [
        np.floor((values - values.min()) / (np.ptp(values) or 1) * count).astype(np.int64)
        for values, count in zip((xs, ys), _CELLS, strict=True)
    ]
    _, first = np.unique(cells[0] * (_CELLS[1] + 1) + cells[1], return_index=True)
    return np.sort(first)


def _prepare_for_page(svg: str, id_prefix: str, titles: dict[str, str], description: str) -> str:
    """Return the SVG element of a plot in the form in which an HTML page can contain it.

    All ids get `id_prefix`, so that they are unique in the page. `titles` are tooltips by the ids of elements.
    `description` is for screen readers. All text is escaped: by matplotlib, or here."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    for gid, title in titles.items():
        svg = svg.replace(f'<g id="{gid}">', f'<g id="{gid}"><title>{html.escape(title)}</title>', 1)
    svg = re.sub(r'\bid="image[^"]*"', "", svg)  # those of equal pictures are equal, and nothing refers to them
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{id_prefix}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{id_prefix}-\1)", svg)
    svg = re.sub(r'xlink:href="#([^"]+)"', rf'xlink:href="#{id_prefix}-\1"', svg)
    svg = svg.replace(INK, "currentColor")
    svg = re.sub(r'<svg\b([^>]*?) width="[^"]*"', r"<svg\1", svg, count=1)
    svg = re.sub(r'<svg\b([^>]*?) height="[^"]*"', r"<svg\1", svg, count=1)
    return svg.replace("<svg", f'<svg role="img" aria-label="{html.escape(description)}"', 1)
