"""The latencies of a run by percentile, drawn: a line for each kind of operation, as SVG.

pygal draws it, which the extra `bench` installs; nothing else needs it, so it is imported when somebody plots.
"""

import importlib
from pathlib import Path
from typing import Any

from raftlog.errors import InvalidArgument
from raftlog.loadgen.result import Result
from raftlog.loadgen.tally import CURVE


def write_plot(result: Result, path: Path) -> None:
    """Write the file. Raises `InvalidArgument` when pygal is missing, and `OSError`."""
    chart: Any = _pygal().Line(
        logarithmic=True,
        show_dots=False,
        x_label_rotation=30,
        title=f"{result.operations_per_s:,.0f} operations/s, availability {result.availability_percent:.3f} %",
        x_title="percentile",
        y_title="ms",
    )
    chart.x_labels = [f"{percent:g}" for percent in CURVE]
    for kind, tally in result.tallies.items():
        if len(tally.latencies):
            chart.add(kind, [tally.latencies.at_ms(percent) for percent in CURVE])
    path.write_bytes(chart.render())


def check_can_plot() -> None:
    """Before a run whose plot could not be drawn. Raises `InvalidArgument`."""
    _pygal()


def _pygal() -> Any:
    try:
        return importlib.import_module("pygal")
    except ImportError:
        raise InvalidArgument("plots need pygal: pip install 'raftlog[bench]'") from None
