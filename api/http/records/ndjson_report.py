"""Report of the stored records of an NDJSON stream: at the end, or line by line during the stream.

    every written line is a correct report of that moment
    the stream does not wait for a client that does not read lines; this client gets fewer of them

Used by `ndjson_ingest`."""

import asyncio
import logging
from typing import Any

import orjson
from aiohttp import web

from raftlog.api.http.records.ndjson_block import Block
from raftlog.api.http.server.answers import json_answer
from raftlog.api.http.server.media import Format
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.request_headers import header
from raftlog.errors import RaftlogError
from raftlog.partitions.produce.shares import Share
from raftlog.values.error_codes import status_and_code

logger = logging.getLogger(__name__)

PARTIAL = "partial"
"""Outcome of a stream whose records before a line are stored, and none from that line on."""


class _Stored:
    """Records of a stream that one partition stored: number, offsets, and the error after which no more are stored."""

    __slots__ = ("error", "first", "last", "line", "records")

    def __init__(self) -> None:
        self.records = 0
        self.first: int | None = None
        self.last: int | None = None
        self.error: RaftlogError | None = None
        """Error of the first append that failed here; `line` is its first line, whose record may not be stored."""
        self.line = 0

    def as_json(self, partition: int) -> dict[str, Any]:
        """Return the report of one partition; error fields are present only after an error."""
        shown: dict[str, Any] = {
            "partition": partition,
            "records": self.records,
            "first_offset": self.first,
            "last_offset": self.last,
        }
        if self.error is not None:
            code, outcome = status_and_code(self.error)[1], self.error.outcome
            shown |= {"line": self.line, "error_code": code, "error": str(self.error), "outcome": outcome}
        return shown


class StreamReport:
    """Result of a stream; `problem` is the error that ended it, of several the one with the lowest line number."""

    def __init__(self) -> None:
        self.problem: HttpProblem | RaftlogError | None = None
        self.has_failed = False
        """Whether an append failed; no later record may be appended then."""
        self._line = 0
        self._stored: dict[int, _Stored] = {}

    def add_share(self, share: Share, block: Block) -> None:
        """Add the result of the block's records in one partition."""
        stored = self._stored.setdefault(share.partition, _Stored())
        if share.error is None:
            stored.records += len(share.places)
            if share.base_offset is not None:
                stored.first = share.base_offset if stored.first is None else stored.first
                stored.last = share.base_offset + len(share.places) - 1
            return
        stored.error, stored.line = share.error, block.line_of(share.places[0])
        self.record_failure(share.error, stored.line)

    def record_failure(self, error: RaftlogError, line: int) -> None:
        """Record that an append from this line on failed or has an unknown outcome; the stream ends."""
        self.has_failed = True
        self.set_problem(error, line)

    def set_problem(self, problem: HttpProblem | RaftlogError, line: int) -> None:
        """Record why the stream ends; the problem of the earliest line is kept."""
        if self.problem is None or line < self._line:
            self.problem, self._line = problem, line

    def as_json(self) -> dict[str, Any]:
        """Return the report as an object of an answer's body."""
        records = sum(stored.records for stored in self._stored.values())
        shown: dict[str, Any] = {
            "records": records,
            "partitions": [stored.as_json(partition) for partition, stored in sorted(self._stored.items())],
        }
        if self.problem is None:
            return shown
        _, code, outcome = _error_fields(self.problem)
        errors = (stored.error for stored in self._stored.values())
        if any(error is not None and error.outcome == "unknown" for error in errors):
            outcome = "unknown"
        elif records and outcome == "failed":
            outcome = PARTIAL
        message = f"line {self._line}: {self.problem}"
        return shown | {"error_code": code, "message": message, "outcome": outcome, "line": self._line}

    @property
    def status(self) -> int:
        """HTTP status of an answer that is sent only at the end of the stream."""
        return 200 if self.problem is None else _error_fields(self.problem)[0]


class StreamAnswer:
    """Answer to one stream: one line after each block if `Accept` allows lines, and always one at the end."""

    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        self._wants_lines = Format.NDJSON.value in (header(request, "Accept") or "").lower()
        self._response: web.StreamResponse | None = None
        self._writing: asyncio.Task[None] | None = None

    def write_progress(self, report: StreamReport) -> None:
        """Write the present report, unless an earlier line is still being written."""
        if not self._wants_lines or (self._writing is not None and not self._writing.done()):
            return
        if self._response is None:
            if report.problem is not None:
                return  # the status will report it
            self._response = web.StreamResponse(headers={"Content-Type": Format.NDJSON.value})
        self._writing = asyncio.get_running_loop().create_task(self._write(self._response, report))

    async def _write(self, response: web.StreamResponse, report: StreamReport) -> None:
        """Write a report as one line of JSON. A sender that disconnected is ignored."""
        try:
            if not response.prepared:
                await response.prepare(self._request)
            await response.write(orjson.dumps(report.as_json()) + b"\n")
        except ConnectionError as error:
            logger.debug("the sender of a stream disconnected: %s", error)

    async def finish(self, report: StreamReport) -> web.StreamResponse:
        """Write the final report and return the response."""
        response = self._response
        if response is None:
            response = json_answer(report.as_json(), report.status)
        else:
            if self._writing is not None:
                await self._writing
            await self._write(response, report)
        if report.problem is not None:
            # The rest of the body is not received.
            response.force_close()
        return response

    def cancel(self) -> None:
        """Cancel the line that is being written."""
        if self._writing is not None:
            self._writing.cancel()


def _error_fields(problem: HttpProblem | RaftlogError) -> tuple[int, int, str]:
    """Return status, error code and outcome of an error."""
    if isinstance(problem, HttpProblem):
        return problem.status, problem.code, "failed"
    return *status_and_code(problem), problem.outcome
