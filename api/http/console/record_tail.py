"""Live tail of one partition: a line for each record that passes the filter, until the client disconnects.

    line of a record       a `ShownRecord`
    line without records   `{"heartbeat": {"next_offset", "high_watermark", "scanned"}}`, at the end of the log: at
                           once if the tail begins there, and after `HEARTBEAT_MS` of quiet
    last line of an error  the error's body with `next_offset`

Lines are written at the reader's speed, and none is dropped: the next batches are fetched after all lines of the last
ones were written. Called by `records`."""

import asyncio
import logging
from typing import Any, Final

import orjson
from aiohttp import web
from multidict import CIMultiDict

from raftlog.api.http.console.record_scan import RecordScan
from raftlog.api.http.server.connections import ConnectionEnds, run_until
from raftlog.api.http.server.media import Format
from raftlog.api.http.server.paced_answer import STALL_S
from raftlog.api.http.server.problems import INTERNAL_ERROR_BODY, error_body
from raftlog.api.http.server.request_quotas import pace
from raftlog.errors import RaftlogError, Unavailable
from raftlog.partitions.caller import Caller
from raftlog.partitions.security.client_rates import FETCHED, ClientRates
from raftlog.values.value import to_json

logger = logging.getLogger(__name__)

HEARTBEAT_MS: Final = 5_000
TAILS_MAX: Final = 100
"""Tails of the console at once, on one broker."""
_FIRST_MS: Final = 1_000
_LINES_AT_ONCE: Final = 100
_UNAVAILABLE_S: Final = 30.0
"""Time without a leader after which a tail ends."""
_AGAIN_S: Final = 0.25


class RecordTail:
    """Stream of a partition's records to one client, as lines."""

    def __init__(self, scan: RecordScan, ends: ConnectionEnds, rates: ClientRates, caller: Caller) -> None:
        self._scan, self._ends, self._rates, self._caller = scan, ends, rates, caller
        self._loop = asyncio.get_running_loop()
        self._next_offset = scan.next_offset
        """Offset after the last finished record: its line was written, or it did not pass the filter."""

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """Stream lines; an error before the first one is raised and sets the status of the answer."""
        await self._scan.fetch(_FIRST_MS, min_bytes=0)
        headers = {
            "Content-Type": Format.NDJSON.value,
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
        }
        response = web.StreamResponse(headers=CIMultiDict(headers))
        try:
            await response.prepare(request)
            if request.method != "HEAD":
                last = await self._run(response, self._ends.disconnected(request))
                if last is not None:
                    await self._write(response, last)
            await response.write_eof()
        except (ConnectionError, TimeoutError) as error:
            logger.debug("the reader of a tail disconnected, or reads nothing: %r", error)
            response.force_close()
            if request.transport is not None:
                request.transport.abort()
        return response

    async def _run(self, response: web.StreamResponse, disconnected: "asyncio.Future[None]") -> bytes | None:
        """Write lines until the tail ends; return the error to write as last line, or None."""
        scan = self._scan
        since: float | None = None
        try:
            if not scan.has_batches:
                await self._write(response, self._heartbeat())
            while not disconnected.done():
                while scan.has_batches:
                    rows = await scan.show(_LINES_AT_ONCE)
                    if rows:
                        await self._write(response, b"".join(to_json(row) + b"\n" for row in rows))
                    self._next_offset = scan.next_offset
                    scan.release_shown()
                if self._ends.stopping.done():
                    raise Unavailable("the broker is stopping; continue at another one")
                try:
                    if not await self._fetch_next(disconnected) and not disconnected.done():
                        await self._write(response, self._heartbeat())
                    since = None
                except Unavailable:
                    since = self._loop.time() if since is None else since
                    if self._loop.time() - since >= _UNAVAILABLE_S:
                        raise
                    await asyncio.wait((disconnected, self._ends.stopping), timeout=_AGAIN_S)
        except RaftlogError as error:
            return self._error_line(error_body(error)[1])
        except (ConnectionError, TimeoutError):
            raise
        except Exception:
            logger.exception("a tail of the console failed")
            return self._error_line(INTERNAL_ERROR_BODY)
        return None

    async def _fetch_next(self, disconnected: "asyncio.Future[None]") -> bool:
        """Fetch the next batches; return whether there are any before a heartbeat is due or the tail ends."""
        fetching = await run_until(self._scan.fetch(HEARTBEAT_MS, min_bytes=1), disconnected, self._ends.stopping)
        size = fetching.result() if fetching.done() else 0
        await pace(self._rates, self._caller, FETCHED, size)
        return size > 0

    async def _write(self, response: web.StreamResponse, lines: bytes) -> None:
        """Write lines. Raises `TimeoutError` if that takes longer than `STALL_S`, because the client does not read."""
        async with asyncio.timeout(STALL_S):
            await response.write(lines)

    def _heartbeat(self) -> bytes:
        """Return a heartbeat line with the progress of the tail."""
        scan = self._scan
        found = {"next_offset": self._next_offset, "high_watermark": scan.high_watermark, "scanned": scan.scanned}
        return orjson.dumps({"heartbeat": found}) + b"\n"

    def _error_line(self, body: bytes) -> bytes:
        """Return an error's body with the offset at which a new tail can continue."""
        shown: dict[str, Any] = orjson.loads(body)
        return orjson.dumps(shown | {"next_offset": self._next_offset}) + b"\n"
