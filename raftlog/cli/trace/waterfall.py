"""Waterfall of a trace: the spans that several brokers measured, as one tree."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from raftlog.values.traces import BrokerTrace, TraceSpan

_BAR_WIDTH: Final = 30
_DEPTH_MAX: Final = 20
_SHOWN: Final = ("partition", "node", "from", "status", "calls", "shared_with")


class PlacedSpan(NamedTuple):
    """Span of a trace, with its depth in the tree of spans."""

    depth: int
    node_id: int
    span: TraceSpan


def list_steps(parts: Sequence[BrokerTrace]) -> list[PlacedSpan]:
    """Return the spans of all parts of one trace, each before its children, which are in order of their begin."""
    spans = [(part.node_id, span) for part in parts for span in part.spans]
    known = {span.span_id for _, span in spans}
    children: dict[str, list[tuple[int, TraceSpan]]] = {}
    for node_id, span in spans:
        parent = span.parent_id if span.parent_id in known and span.parent_id != span.span_id else ""
        children.setdefault(parent, []).append((node_id, span))

    def walk(parent: str, depth: int) -> Iterator[PlacedSpan]:
        """Yield the spans below a parent, each followed by its own children."""
        for node_id, span in sorted(children.pop(parent, ()), key=lambda each: (each[1].begin_us, each[1].name)):
            yield PlacedSpan(depth, node_id, span)
            if depth < _DEPTH_MAX:
                yield from walk(span.span_id, depth + 1)

    return list(walk("", 0))


def format_waterfall(parts: Sequence[BrokerTrace]) -> list[str]:
    """Return a line for each span of a trace: begin, duration, a bar, the step with its broker and attributes.

    Begins on other brokers are by their clocks."""
    steps = list_steps(parts)
    begin = min(step.span.begin_us for step in steps)
    total = max(step.span.begin_us + step.span.duration_us for step in steps) - begin
    return [_format_step(step, begin, max(total, 1)) for step in steps]


def _format_step(step: PlacedSpan, begin: int, total: int) -> str:
    """Return the line of a span; `begin` and `total` are those of the trace, in microseconds."""
    depth, node_id, span = step
    offset = span.begin_us - begin
    left = min(_BAR_WIDTH - 1, offset * _BAR_WIDTH // total)
    width = max(1, min(_BAR_WIDTH - left, round(span.duration_us * _BAR_WIDTH / total)))
    bar = " " * left + "█" * width + " " * (_BAR_WIDTH - left - width)
    notes = [f"{name}={span.attributes[name]}" for name in _SHOWN if name in span.attributes]
    if "pending" in span.attributes:
        notes.append("(not needed, and still open, at the end)")
    if span.error:
        notes.append(f"error: {span.error}")
    text = " ".join([f"{'  ' * depth}{span.name}", f"@{node_id}", *notes])
    return f"{offset / 1000:9.2f} ms {span.duration_us / 1000:9.2f} ms |{bar}| {text}"
