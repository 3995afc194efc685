"""Traces of produce requests, as brokers keep them."""

from collections.abc import Mapping, Sequence

from raftlog.values.value import Count, NodeNumber, Value


class TraceSpan(Value, frozen=True):
    """Step of a request on one broker."""

    span_id: str
    parent_id: str
    """Empty for the first span of a trace."""
    name: str
    begin_us: Count
    """Begin by the broker's clock, in microseconds since 1970."""
    duration_us: Count
    attributes: Mapping[str, str | int] = {}
    error: str = ""


class BrokerTrace(Value, frozen=True):
    """Part of a trace that one broker measured; the first span is its root."""

    trace_id: str
    node_id: NodeNumber
    spans: Sequence[TraceSpan]
    dropped: Count = 0
    """Further spans, above the bound of one trace."""


class BrokerTraces(Value, frozen=True):
    """Traces that a broker keeps, the slowest first."""

    is_on: bool
    """Whether the broker traces requests (`--trace`)."""
    traces: Sequence[BrokerTrace]
