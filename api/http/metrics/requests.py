"""Counters of the HTTP server's requests: answers by status, and durations by class of request.

    class of a request   the resource of its handlers; `stream` for tails and answers to NDJSON streams, whose
                         durations depend on their clients
    duration             to the end of the answer; of a large answer (`PacedResponse`) only up to its head

A request adds one to a counter and one to a bucket. `HttpApp` owns the counters; `metrics/http.py` exports them."""

from collections.abc import Mapping
from typing import Final

from aiohttp import web

from raftlog.api.http.server.answers import CompleteResponse
from raftlog.api.http.server.paced_answer import PacedResponse
from raftlog.runtime.histogram import Histogram, stopwatch
from raftlog.runtime.memory_budget import MemoryBudget

STREAM: Final = "stream"
UNKNOWN: Final = "unknown"
"""Class of requests without a handler, or whose handler failed before it had an answer."""


class RequestMetrics:
    """Counters and durations of answers, by the fixed set of handler classes."""

    def __init__(self, memory: Mapping[str, MemoryBudget] | None = None) -> None:
        """Create empty counters; `memory` has the shares of the memory budget by name."""
        self.memory = memory or {}
        """The shares of the memory budget, by name."""
        self.responses: dict[int, int] = {200: 0}
        """Number of answers by status."""
        self.times: dict[str, Histogram] = {}
        """Durations by class, from the head of the request to the end of its handler."""

    def count_answer(self, kind: str, began: float, response: web.StreamResponse) -> None:
        """Count an answer to a request of class `kind`; `began` is the time at which its head was read."""
        until = stopwatch()
        if type(response) is not CompleteResponse:
            if isinstance(response, PacedResponse):
                until = response.began or until
            elif not isinstance(response, web.Response):
                kind = STREAM
        self.count(kind, until - began, response.status)

    def count(self, kind: str, seconds: float, status: int) -> None:
        """Count an answer with `status` to a request of class `kind`, `seconds` after the request's head was read."""
        self.responses[status] = self.responses.get(status, 0) + 1
        times = self.times.get(kind)
        if times is None:
            times = self.times[kind] = Histogram()
        times.observe(seconds)
