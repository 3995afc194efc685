"""Export of traces to a collector over OTLP/HTTP, by OpenTelemetry's SDK (extra `trace`).

Its processor sends batches in a thread of its own, from a bounded queue; what does not fit is dropped."""

import atexit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

import raftlog
from raftlog.runtime.tracing.spans import Span, Trace


class SpanExport:
    """Export of finished traces of one broker."""

    def __init__(self, node_id: int) -> None:
        """Prepare the export of spans by OTLP, under the name of this node."""
        self._resource = Resource.create(
            {"service.name": "raftlog", "service.version": raftlog.__version__, "service.instance.id": str(node_id)}
        )
        self._processor = BatchSpanProcessor(OTLPSpanExporter())
        atexit.register(self._processor.shutdown)

    def __call__(self, trace: Trace) -> None:
        """Queue the spans of a finished trace."""
        for span in trace.spans:
            self._processor.on_end(self._convert(span))

    def flush(self) -> None:
        """Send the queued spans now, and wait for that."""
        self._processor.force_flush()

    def _convert(self, span: Span) -> ReadableSpan:
        """Return a span in the form of OpenTelemetry's SDK, with times by the wall clock."""
        offset = span.trace.wall_offset_s
        ended = span.began if span.ended is None else span.ended
        return ReadableSpan(
            name=span.name,
            context=_make_context(span.trace.trace_id, span.span_id, is_remote=False),
            parent=_make_context(span.trace.trace_id, span.parent_id, is_remote=True) if span.parent_id else None,
            resource=self._resource,
            attributes=span.attributes,
            kind=SpanKind.SERVER if span is span.trace.spans[0] else SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
            start_time=int((span.began + offset) * 1e9),
            end_time=int((ended + offset) * 1e9),
        )


def _make_context(trace_id: str, span_id: str, *, is_remote: bool) -> SpanContext:
    """Return the context of a span for OpenTelemetry."""
    sampled = TraceFlags(TraceFlags.SAMPLED)
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=is_remote, trace_flags=sampled)
