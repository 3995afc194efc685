"""Spans of one request on one broker.

began ≤ ended, by the stopwatch;   spans of a trace ≤ SPANS_MAX, further ones are counted in `dropped`"""

import time
from collections.abc import Mapping
from typing import Final

from raftlog.runtime.histogram import stopwatch
from raftlog.runtime.tracing.context import TraceContext, new_span_id

SPANS_MAX: Final = 64
Attributes = Mapping[str, str | int]


class Trace:
    """The part of a trace that one broker measures; the first span is its root."""

    __slots__ = ("dropped", "has_caller", "is_sampled", "spans", "trace_id", "wall_offset_s")

    def __init__(self, trace_id: str, *, is_sampled: bool, has_caller: bool) -> None:
        """Begin a trace; `is_sampled` is whether it is exported, and `has_caller` whether a client began it."""
        self.trace_id, self.is_sampled, self.has_caller = trace_id, is_sampled, has_caller
        self.spans: list[Span] = []
        self.dropped = 0
        self.wall_offset_s = time.time() - stopwatch()
        """Difference between the wall clock and the stopwatch."""


class Span:
    """Step of a request; `parent_id` is "" in a trace that begins here."""

    __slots__ = ("attributes", "began", "ended", "error", "name", "parent_id", "span_id", "trace")

    def __init__(self, trace: Trace, name: str, parent_id: str, began: float, attributes: Attributes) -> None:
        """Begin a span and add it to the trace, unless the trace has `SPANS_MAX` spans. `began` is by the stopwatch."""
        self.trace, self.name, self.parent_id, self.began = trace, name, parent_id, began
        self.span_id = new_span_id()
        self.attributes: dict[str, str | int] = dict(attributes)
        self.ended: float | None = None
        self.error = ""
        if len(trace.spans) < SPANS_MAX:
            trace.spans.append(self)
        else:
            trace.dropped += 1

    def begin_child(self, name: str, began: float | None = None, **attributes: str | int) -> "Span":
        """Begin and return a child span; `began` is a time of the stopwatch, by default now."""
        return Span(self.trace, name, self.span_id, stopwatch() if began is None else began, attributes)

    def end(self, error: BaseException | None = None) -> None:
        """End the step now, unless it has ended."""
        if self.ended is None:
            self.ended = stopwatch()
            if error is not None:
                self.error = f"{type(error).__name__}: {error}"[:200]

    @property
    def context(self) -> TraceContext:
        """Context for the steps of other processes."""
        return TraceContext(self.trace.trace_id, self.span_id, self.trace.is_sampled)

    @property
    def duration_s(self) -> float:
        """Duration; 0 while the step has not ended."""
        return 0.0 if self.ended is None else self.ended - self.began
