"""Plot of a run's latencies by percentile, as SVG with a line for each kind of operation.

pygal draws it. Only the extra `bench` installs pygal, so it is imported at the first plot."""

import importlib
from pathlib import Path
from typing import Any

from raftlog.errors import InvalidArgument
from raftlog.loadgen.result import Result
from raftlog.loadgen.tally import CURVE


def write_plot(result: Result, path: Path) -> None:
    """Write the plot as a file. Raises `InvalidArgument` if pygal is missing, and `OSError`."""
    chart: Any = _import_pygal().Line(
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
            chart.add(kind, [tally.latencies.percentile_ms(percent) for percent in CURVE])
    path.write_bytes(chart.render())


def check_can_plot() -> None:
    """Raise `InvalidArgument` if plots cannot be drawn; called before a run."""
    _import_pygal()


def _import_pygal() -> Any:
    """Return the module pygal. Raises `InvalidArgument` if it is not installed."""
    try:
        return importlib.import_module("pygal")
    except ImportError:
        raise InvalidArgument("plots need pygal: pip install 'raftlog[bench]'") from None
