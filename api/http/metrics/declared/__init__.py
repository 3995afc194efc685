"""Declarations of all metrics: name, type, labels and meaning. No other module names a metric's type or text.

`/metrics` takes its HELP lines from here, and `python -m tests.documents.metrics_page --rewrite` the table of
docs/METRICS.md. Nothing here imports the Prometheus client."""

from raftlog.api.http.metrics.declared.table import DECLARED

__all__ = ["DECLARED"]
