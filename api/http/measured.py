"""What the HTTP server counts of its requests: answers by status, and how long they took by what was asked for.

    class of a request: what its handlers are for; `stream` for every answer that is sent in pieces

One addition and one bucket for each request. Kept by the app, shown by `metrics_http`.
"""

from typing import Final

from aiohttp import web

from raftlog.runtime.histogram import Histogram, stopwatch

STREAM: Final = "stream"
UNKNOWN: Final = "unknown"
"""No handler was found, or it failed before there was an answer."""


class HttpMeasured:
    """Answers so far. The classes are few and fixed: those of the handlers."""

    def __init__(self) -> None:
        self.responses: dict[int, int] = {200: 0}
        """By status."""
        self.times: dict[str, Histogram] = {}
        """By class, from the head of the request to the end of its handler."""

    def note(self, kind: str, began: float, response: web.StreamResponse) -> None:
        """A request of this class, whose head was read at `began`, was answered."""
        status = response.status
        self.responses[status] = self.responses.get(status, 0) + 1
        if not isinstance(response, web.Response):
            kind = STREAM
        times = self.times.get(kind)
        if times is None:
            times = self.times[kind] = Histogram()
        times.observe(stopwatch() - began)
