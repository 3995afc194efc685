"""Creation of the tracer of a broker from its settings and the standard variables of OpenTelemetry."""

import os
from collections.abc import Callable
from random import Random

from raftlog.errors import InvalidArgument
from raftlog.runtime.tracing.spans import Trace
from raftlog.runtime.tracing.tracer import Tracer

ENDPOINT_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def make_tracer(ratio: float | None, node_id: int, random: Random) -> Tracer | None:
    """Return the tracer; None while tracing is off. Raises `InvalidArgument` if the exporter is not installed.

    Spans are exported over OTLP if one of `ENDPOINT_VARIABLES` is set; other variables of OpenTelemetry have their
    standard meaning."""
    if ratio is None:
        return None
    return Tracer(ratio, random, _make_export(node_id) if any(map(os.environ.get, ENDPOINT_VARIABLES)) else None)


def _make_export(node_id: int) -> Callable[[Trace], None]:
    """Return the exporter; raise `InvalidArgument` if its packages are not installed."""
    try:
        from raftlog.runtime.tracing.exporter import SpanExport  # needs the extra
    except ImportError as error:
        raise InvalidArgument(
            f"OTEL_EXPORTER_OTLP_ENDPOINT is set, but the exporter is not installed ({error.name}): install "
            "raftlog[trace], or unset the variable"
        ) from None
    return SpanExport(node_id)
