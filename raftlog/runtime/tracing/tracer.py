"""Sampling of requests, and the bounded store of their finished traces.

    recent ≤ RECENT_MAX, the newest;   slowest ≤ SLOWEST_MAX, those with the longest root span since the start

Owned by a broker; `None` in its place while tracing is off."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from heapq import heappush, heappushpop
from itertools import count
from random import Random
from typing import Final

from raftlog.runtime.histogram import stopwatch
from raftlog.runtime.tracing.context import TRACEPARENT, TraceContext, new_trace_id, parse_traceparent
from raftlog.runtime.tracing.spans import Span, Trace

RECENT_MAX: Final = 128
SLOWEST_MAX: Final = 32
_CURRENT: Final[ContextVar[Span | None]] = ContextVar("span", default=None)
"""Root span of the request that the current task handles."""
_HEADERS_SEARCHED: Final = 16
"""Maximum number of headers of a record, and of records of a request, that are searched for a context."""

Headers = Iterable[tuple[str, bytes | None]]


class Tracer:
    """Tracer of one broker. `ratio` is the share of requests without a context that are sampled."""

    def __init__(self, ratio: float, random: Random, export: Callable[[Trace], None] | None = None) -> None:
        """Sample the share `ratio` (0 to 1) of requests without a context; `export` receives each sampled trace."""
        self.ratio = ratio
        self._random, self._export = random, export
        self._recent: deque[Trace] = deque(maxlen=RECENT_MAX)
        self._slowest: list[tuple[float, int, Trace]] = []
        """Heap, the fastest first."""
        self._number = count()

    @contextmanager
    def trace_request(self, name: str, traceparent: str | None, **attributes: str | int) -> Iterator[Span]:
        """Trace the request that the block handles, if it is sampled; an invalid context is ignored."""
        context = parse_traceparent(traceparent)
        is_sampled = self._random.random() < self.ratio if context is None else context.is_sampled
        root = self._begin(name, context, attributes, is_sampled=is_sampled)
        token = _CURRENT.set(root)
        error: BaseException | None = None
        try:
            yield root
        except BaseException as raised:
            error = raised
            raise
        finally:
            _CURRENT.reset(token)
            self.finish(root, error)

    def adopt_record_context(self, records: Iterable[Headers]) -> None:
        """Continue the trace of the first record with a valid context, if the request brought none itself."""
        root = _CURRENT.get()
        if root is None or root.trace.has_caller:
            return
        for headers, _ in zip(records, range(_HEADERS_SEARCHED), strict=False):
            for (name, value), _ in zip(headers, range(_HEADERS_SEARCHED), strict=False):
                context = parse_traceparent(value) if name == TRACEPARENT else None
                if context is not None:
                    root.trace.trace_id, root.parent_id = context.trace_id, context.span_id
                    root.trace.is_sampled, root.trace.has_caller = context.is_sampled, True
                    return

    def current(self) -> Span | None:
        """Return the root span of the current task's request; None if it is not sampled."""
        root = _CURRENT.get()
        return root if root is not None and root.trace.is_sampled else None

    def continue_trace(self, name: str, traceparent: str, **attributes: str | int) -> Span | None:
        """Begin this broker's part of a trace that another broker began, and return its root span.

        None if the context is invalid or not sampled."""
        context = parse_traceparent(traceparent)
        if context is None or not context.is_sampled:
            return None
        return self._begin(name, context, attributes, is_sampled=True)

    def _begin(
        self, name: str, context: TraceContext | None, attributes: dict[str, str | int], *, is_sampled: bool
    ) -> Span:
        """Begin a trace, in the caller's context if there is one, and return its root span."""
        trace_id = new_trace_id() if context is None else context.trace_id
        trace = Trace(trace_id, is_sampled=is_sampled, has_caller=context is not None)
        return Span(trace, name, "" if context is None else context.span_id, stopwatch(), attributes)

    def finish(self, root: Span, error: BaseException | None = None) -> None:
        """End the root span; keep and export the trace if it is sampled."""
        root.end(error)
        trace = root.trace
        if not trace.is_sampled:
            return
        self._recent.append(trace)
        item = (root.duration_s, next(self._number), trace)
        if len(self._slowest) < SLOWEST_MAX:
            heappush(self._slowest, item)
        else:
            heappushpop(self._slowest, item)
        if self._export is not None:
            self._export(trace)

    def find(self, trace_id: str | None = None) -> list[Trace]:
        """Return the kept traces with this id, or all, each once; the slowest first."""
        kept = {id(trace): trace for trace in (*self._recent, *(each[2] for each in self._slowest))}
        found = [trace for trace in kept.values() if trace_id in (None, trace.trace_id)]
        return sorted(found, key=lambda trace: -trace.spans[0].duration_s)
