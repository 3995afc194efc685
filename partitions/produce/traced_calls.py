"""Spans of traced produce calls: their wait in the queue, and the append that they share."""

import asyncio
from collections.abc import Sequence
from functools import partial

from raftlog.partitions.produce.pending import Pending
from raftlog.runtime.histogram import stopwatch
from raftlog.runtime.tracing.spans import Span
from raftlog.runtime.tracing.tracer import Tracer


def begin_wait(pending: Pending, tracer: Tracer, partition: str) -> None:
    """Begin a span for the time that a call spends in the queue, if its request is traced."""
    root = tracer.current()
    if root is not None:
        pending.span = root.begin_child("queue", pending.arrived, partition=partition)


def end_waits(pendings: Sequence[Pending], batches: Sequence[bytearray]) -> Span | None:
    """End the queue spans of traced calls; return the append's span, in the trace of the first one, or None.

    The other traced calls get a span of their own that names this trace (`shared_with`)."""
    append: Span | None = None
    for pending in pendings:
        wait, pending.span = pending.span, None
        if wait is None:
            continue
        wait.end()
        attributes = {
            "partition": wait.attributes["partition"],
            "calls": len(pendings),
            "bytes": sum(map(len, batches)),
        }
        span = Span(wait.trace, "produce", wait.parent_id, stopwatch(), attributes)
        if append is None:
            append = span
        else:
            span.attributes["shared_with"] = append.trace.trace_id
        if pending.future is None:
            span.end()
        else:
            pending.future.add_done_callback(partial(_end_span, span))
    return append


def _end_span(span: Span, done: "asyncio.Future[int]") -> None:
    """End the span of a call, with its error if it failed."""
    span.end(None if done.cancelled() else done.exception())
