"""Handler of GET /v1/traces: the traces of produce requests that this broker keeps."""

import re
from typing import Final

from aiohttp import web

from raftlog.api.codes import BAD_REQUEST
from raftlog.api.http.openapi.parts import string
from raftlog.api.http.server.answers import value_answer
from raftlog.api.http.server.endpoint import HttpEndpoint, parameter
from raftlog.api.http.server.handlers import Handlers
from raftlog.api.http.server.permissions import DESCRIBE_CLUSTER
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.routing import Target
from raftlog.runtime.tracing.spans import Trace
from raftlog.values.traces import BrokerTrace, BrokerTraces, TraceSpan

_TRACES_MAX: Final = 50
_ID_PATTERN: Final = "^[0-9a-f]{32}$"
_TRACE_ID = parameter(
    "query",
    "trace_id",
    string(pattern=_ID_PATTERN),
    "Trace to return, as 32 lower-case hexadecimal digits; all without it.",
)


class TraceHandlers(Handlers):
    """Handler of /v1/traces."""

    @HttpEndpoint("GET /v1/traces", BrokerTraces, (_TRACE_ID,), permissions=DESCRIBE_CLUSTER)
    async def traces(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return traces of produce requests, the slowest first."""
        trace_id = target.query.get("trace_id")
        if trace_id is not None and not re.fullmatch(_ID_PATTERN, trace_id):
            raise HttpProblem(
                BAD_REQUEST,
                f"the query parameter 'trace_id' is {trace_id!a:.60}; send 32 lower-case hexadecimal digits",
            )
        tracer = self._broker.measuring.counters.tracer
        found = [] if tracer is None else tracer.find(trace_id)[:_TRACES_MAX]
        return value_answer(BrokerTraces(tracer is not None, [self._describe(trace) for trace in found]))

    def _describe(self, trace: Trace) -> BrokerTrace:
        """Return the part of a trace that this broker recorded, with times of the wall clock in microseconds."""
        offset = trace.wall_offset_s
        spans = [
            TraceSpan(
                each.span_id,
                each.parent_id,
                each.name,
                int((each.began + offset) * 1e6),
                int(each.duration_s * 1e6),
                each.attributes,
                each.error,
            )
            for each in trace.spans
        ]
        return BrokerTrace(trace.trace_id, self._broker.node_id, spans, trace.dropped)
