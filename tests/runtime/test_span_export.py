"""Export of traces over OTLP to a collector, which is a scripted HTTP server."""

import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from random import Random

import pytest

from raftlog.errors import InvalidArgument
from raftlog.runtime.tracing import setup

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


def test_without_a_ratio_there_is_no_tracer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:1")
    assert setup.make_tracer(None, 1, Random(1)) is None


def test_a_missing_exporter_is_an_error_that_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.delitem(sys.modules, "raftlog.runtime.tracing.exporter", raising=False)
    with pytest.raises(InvalidArgument, match=r"install raftlog\[trace\]"):
        setup.make_tracer(0.0, 1, Random(1))


def test_spans_are_sent_to_a_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
        ExportTraceServiceRequest,
        ExportTraceServiceResponse,
    )

    received: list[tuple[str, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            body = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Print nothing."""

    server = HTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        monkeypatch.setenv(ENDPOINT, f"http://127.0.0.1:{server.server_port}")
        tracer = setup.make_tracer(0.0, 7, Random(1))
        assert tracer is not None
        with tracer.trace_request("produce request", f"00-{TRACE}-{SPAN}-01") as root:
            root.begin_child("queue", partition="t/0").end()
        tracer._export.flush()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    [(path, body)] = received
    assert path == "/v1/traces"
    [resource] = ExportTraceServiceRequest.FromString(body).resource_spans
    assert ("service.instance.id", "7") in {
        (each.key, each.value.string_value) for each in resource.resource.attributes
    }
    spans = {span.name: span for scope in resource.scope_spans for span in scope.spans}
    assert {span.trace_id.hex() for span in spans.values()} == {TRACE}
    assert spans["produce request"].parent_span_id.hex() == SPAN
    assert spans["queue"].parent_span_id == spans["produce request"].span_id
    assert spans["queue"].end_time_unix_nano >= spans["queue"].start_time_unix_nano > 1_600_000_000 * 10**9
