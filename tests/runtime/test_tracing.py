"""Traces: contexts of W3C, sampling, the bounded store."""

from random import Random
from typing import Any

import pytest

from raftlog.cli.trace.waterfall import format_waterfall
from raftlog.runtime.tracing.context import TraceContext, parse_traceparent
from raftlog.runtime.tracing.spans import SPANS_MAX
from raftlog.runtime.tracing.tracer import RECENT_MAX, SLOWEST_MAX, Tracer
from raftlog.values.traces import BrokerTrace, TraceSpan

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CALLER = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    ("text", "is_sampled"),
    [
        (CALLER, True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f"00-{TRACE}-{SPAN}-03", True),
        (f"cc-{CALLER[3:]}-more", True),
    ],
)
def test_a_context_is_parsed(text: str, is_sampled: bool) -> None:
    assert parse_traceparent(text) == parse_traceparent(text.encode()) == TraceContext(TRACE, SPAN, is_sampled)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        CALLER[:-1],
        CALLER + "0",
        CALLER + "-more",
        CALLER.upper(),
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f" {CALLER}",
        f"cc-{CALLER[3:]}-" + "x" * 300,
        b"\xff" * 55,
        f"{CALLER}\n",
    ],
)
def test_an_invalid_context_is_ignored(text: Any) -> None:
    assert parse_traceparent(text) is None


def test_a_context_survives_its_text() -> None:
    assert parse_traceparent(TraceContext(TRACE, SPAN, False).to_text()) == TraceContext(TRACE, SPAN, False)


def trace(tracer: Tracer, traceparent: str | None = None) -> None:
    with tracer.trace_request("r", traceparent):
        pass


@pytest.mark.parametrize(("ratio", "kept"), [(0.0, 0), (1.0, 100)])
def test_the_ratio_decides_for_requests_without_a_context(ratio: float, kept: int) -> None:
    tracer = Tracer(ratio, Random(1))
    for _ in range(100):
        trace(tracer)
    assert len(tracer.find()) == kept
    trace(tracer, CALLER)
    trace(tracer, f"00-{TRACE}-{SPAN}-00")
    assert len(tracer.find()) == kept + 1


def test_a_bounded_number_of_traces_is_kept_with_the_slowest() -> None:
    tracer = Tracer(1.0, Random(1))
    with tracer.trace_request("slow", CALLER) as span:
        span.began -= 10.0
    for _ in range(10 * RECENT_MAX):
        trace(tracer)
    assert tracer.find()[0].trace_id == TRACE
    assert RECENT_MAX < len(tracer.find()) <= RECENT_MAX + SLOWEST_MAX


def test_a_bounded_number_of_spans_is_kept() -> None:
    tracer = Tracer(0.0, Random(1))
    with tracer.trace_request("r", CALLER) as root:
        for _ in range(2 * SPANS_MAX):
            root.begin_child("step").end()
    (kept,) = tracer.find(TRACE)
    assert (len(kept.spans), kept.dropped) == (SPANS_MAX, SPANS_MAX + 1)


def test_the_context_of_a_record_counts_unless_the_request_has_one() -> None:
    tracer = Tracer(0.0, Random(1))
    records = [[("traceparent", b"nonsense"), ("a", None)], [("traceparent", CALLER.encode())]]
    for own in (None, f"00-{TRACE[::-1]}-{SPAN}-01"):
        with tracer.trace_request("r", own):
            tracer.adopt_record_context(records)
    assert sorted(each.trace_id for each in tracer.find()) == sorted([TRACE, TRACE[::-1]])


def test_an_error_is_kept() -> None:
    tracer = Tracer(1.0, Random(1))
    with pytest.raises(ValueError, match="no"), tracer.trace_request("r", None):
        raise ValueError("no")
    assert tracer.find()[0].spans[0].error == "ValueError: no"
    assert tracer.current() is None


def test_a_waterfall_shows_children_below_their_parents_and_orphans_at_the_top() -> None:
    def span(number: int, parent: int, name: str, begin_us: int, duration_us: int) -> TraceSpan:
        return TraceSpan(str(number), str(parent) if parent else "", name, begin_us, duration_us, {})

    here = BrokerTrace(TRACE, 1, [span(1, 9, "request", 1_000, 1_000), span(2, 1, "queue", 1_000, 500)])
    there = BrokerTrace(TRACE, 2, [span(3, 1, "append", 1_500, 500), span(4, 4, "loop", 1_500, 0)])
    lines = format_waterfall([there, here])
    assert [line.rsplit("| ", 1)[1] for line in lines] == ["request @1", "  queue @1", "  append @2", "loop @2"]
    assert lines[2].startswith("     0.50 ms      0.50 ms |" + " " * 15 + "█" * 15 + "|")
