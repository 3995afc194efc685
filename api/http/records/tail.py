"""Streams of a partition's records as lines, at the reader's speed, until the client disconnects.

    bytes held for one reader ≤ one fetch (`_FETCH_BYTES`, or one batch) and that batch decompressed, charged to
                                the share for answers, + one slice of lines + the socket's buffer

For a client that reads nothing for `HELD_S` only the slice and the socket's buffer stay: the fetched batches are
dropped, and fetched again when the client reads. The tail continues when the leader changes. An error that ends the
tail is its last line: an error body with `next_offset`. It also ends when the client disconnects, even if there is
nothing to write. Called by `fetch`."""

import asyncio
import logging
from contextlib import aclosing
from typing import Any, Final, NamedTuple

import orjson
from aiohttp import web
from multidict import CIMultiDict

from raftlog.api.codes import BAD_REQUEST
from raftlog.api.http.records.isolation import isolation_of
from raftlog.api.http.records.json_records import JsonRecords
from raftlog.api.http.server.answer_memory import AnswerMemory
from raftlog.api.http.server.connection import caller_of
from raftlog.api.http.server.connections import ConnectionEnds, run_until
from raftlog.api.http.server.media import Format
from raftlog.api.http.server.paced_answer import copy_in_parts
from raftlog.api.http.server.problems import INTERNAL_ERROR_BODY, HttpProblem, error_body
from raftlog.api.http.server.request_quotas import mark_stream, pace
from raftlog.api.http.server.routing import Target, flag, parse_integer, query_int
from raftlog.errors import Overloaded, RaftlogError, Unavailable
from raftlog.partitions.broker import Broker
from raftlog.partitions.caller import Caller
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.results import Fetched
from raftlog.partitions.security.client_rates import FETCHED
from raftlog.records import read_header
from raftlog.runtime.memory_budget import MemoryBudget
from raftlog.security.permissions import AclOperation, AclResourceType
from raftlog.types import Buffer, Isolation, Offset

logger = logging.getLogger(__name__)

TAILS_MAX = 1_000
"""Maximum number of open tails on one broker."""
TIMEOUT_MS_DEFAULT = 30_000
TIMEOUT_MS_MAX = 3_600_000
_FETCH_BYTES = 256 * 1024
_POLL_MS = 30_000
_FIRST_MS = 1_000
"""Time for the first fetch: it waits for the leader, which checks the offset, but not for records."""
_AGAIN_S = 0.1
HELD_S: Final = 5.0
"""Time that a fetch is kept for a client that reads nothing."""
_NUMBER_MAX: Final = (1 << 63) - 1


class _Parameters(NamedTuple):
    """Query parameters of a request for records as lines."""

    topic: str
    partition: int
    start: int | str
    """Offset, `beginning` or `end`; ignored when there is a timestamp."""
    timestamp: int | None
    is_followed: bool
    heartbeat_ms: int
    """Time without a record after which an empty line is sent; 0: never."""
    timeout_ms: int
    """Time that the partition may be unavailable."""
    isolation: Isolation


def _parse_parameters(target: Target, partition: int) -> _Parameters:
    """Return the parameters of a tail. Raises `HttpProblem` 400.

    They are `?offset=N|beginning|end` or `?timestamp=`, `&follow=&heartbeat=&timeout=&isolation=`."""
    query = target.query
    if ("offset" in query) == ("timestamp" in query):
        raise HttpProblem(BAD_REQUEST, "the query has no offset or timestamp; send one of them as the start")
    start: int | str = query.get("offset", "")
    if start not in ("beginning", "end", ""):
        start = parse_integer(str(start), "the query parameter 'offset' (or beginning, end)", 0, _NUMBER_MAX)
    elif "offset" in query and not start:
        raise HttpProblem(BAD_REQUEST, "the query parameter 'offset' is empty; it can be a number, beginning or end")
    return _Parameters(
        target.args[0],
        partition,
        start,
        query_int(target, "timestamp", None, 0, _NUMBER_MAX) if "timestamp" in query else None,
        flag(target, "follow"),
        query_int(target, "heartbeat", 0, 0, TIMEOUT_MS_MAX),
        query_int(target, "timeout", TIMEOUT_MS_DEFAULT, 0, TIMEOUT_MS_MAX),
        isolation_of(target),
    )


class Tails:
    """Streams of records as lines (tails) of one broker; their number is limited."""

    def __init__(self, broker: Broker, ends: ConnectionEnds, answers: MemoryBudget) -> None:
        self._broker, self._ends, self._answers = broker, ends, answers
        self._count = 0

    async def serve(
        self, request: web.BaseRequest, target: Target, partition: int, headers: dict[str, str]
    ) -> web.StreamResponse:
        """Stream records as lines; an error before the first line is raised and sets the answer's status."""
        wanted = _parse_parameters(target, partition)
        if self._count >= TAILS_MAX:
            raise Overloaded(f"{TAILS_MAX} tails are open on this broker; use another broker, or retry later")
        self._count += 1
        mark_stream(request)
        try:
            with AnswerMemory(self._answers) as memory:
                return await _Tail(self._broker, self._ends, wanted, memory, caller_of(request)).serve(request, headers)
        finally:
            self._count -= 1


class _Tail:
    """Tail of one client: reads the log and writes its records as lines."""

    def __init__(
        self, broker: Broker, ends: ConnectionEnds, wanted: _Parameters, memory: AnswerMemory, caller: Caller
    ) -> None:
        """Prepare to send records of the wanted partition to one reader; `memory` is charged for them."""
        self._broker, self._ends, self._wanted, self._memory, self._caller = broker, ends, wanted, memory, caller
        self._loop = asyncio.get_running_loop()
        self._encoder = JsonRecords(wanted.topic, wanted.partition, Format.JSON, broker.opener, memory)
        self._offset = Offset(0)
        """Offset of the next line."""
        self._end: Offset | None = None
        """Offset at which the tail ends; None: it follows the log."""

    async def serve(self, request: web.BaseRequest, headers: dict[str, str]) -> web.StreamResponse:
        """Send the records as lines, until the end of the tail or until the reader disconnects; return the response."""
        await self._locate()
        first = await self._fetch(_FIRST_MS, min_bytes=0)
        response = web.StreamResponse(
            headers=CIMultiDict({"Content-Type": Format.NDJSON.value, "Cache-Control": "no-store", **headers})
        )
        try:
            await response.prepare(request)
            is_headers_only = request.method == "HEAD"
            last = None if is_headers_only else await self._run(response, first, self._ends.disconnected(request))
            if last is not None:
                await response.write(last + b"\n")
            await response.write_eof()
        except ConnectionError as error:
            logger.debug("the reader of %s/%s disconnected: %s", self._wanted.topic, self._wanted.partition, error)
        return response

    async def _locate(self) -> None:
        """Look up the first offset and, unless the tail follows the log, the offset at which it ends."""
        wanted = self._wanted
        topic, partition, deadline = wanted.topic, wanted.partition, deadline_in(wanted.timeout_ms)
        start = wanted.start
        if type(start) is int:
            self._offset = Offset(start)
        if type(start) is int and wanted.is_followed:
            return
        isolation = wanted.isolation
        bounds = await self._broker.offsets(topic, partition, deadline=deadline, isolation=isolation)
        if not wanted.is_followed:
            self._end = bounds.end
        if start == "beginning":
            self._offset = bounds.beginning
        elif start == "end":
            self._offset = bounds.end
        elif wanted.timestamp is not None:
            found = await self._broker.offset_for_timestamp(
                topic, partition, wanted.timestamp, deadline=deadline, isolation=isolation
            )
            self._offset = bounds.end if found is None else found[0]

    async def _run(
        self, response: web.StreamResponse, fetched: Fetched | None, disconnected: "asyncio.Future[None]"
    ) -> bytes | None:
        """Write lines until the tail ends; return the error to write as last line, or None."""
        unreached_since: float | None = None
        try:
            while True:
                try:
                    if fetched is not None:
                        writing = await self._write(response, fetched)
                        fetched = unreached_since = None
                        self._memory.release()
                        if writing is not None:
                            await writing
                    if self._end is not None and self._offset >= self._end:
                        return None
                    fetched = await self._fetch_next(disconnected)
                except Unavailable as error:
                    unreached_since = self._loop.time() if unreached_since is None else unreached_since
                    if self._loop.time() - unreached_since >= self._wanted.timeout_ms / 1000:
                        raise
                    logger.debug("tail of %s/%s waits: %s", self._wanted.topic, self._wanted.partition, error)
                    fetched = None
                    self._memory.release()
                    await asyncio.wait((disconnected, self._ends.stopping), timeout=_AGAIN_S)
                if disconnected.done():
                    return None
                if self._ends.stopping.done():
                    raise Unavailable("the broker is stopping; continue at another one")
                if fetched is not None and not fetched.batches and self._wanted.heartbeat_ms:
                    await response.write(b"\n")
        except (RaftlogError, HttpProblem) as error:
            return self._error_line(error_body(error)[1])
        except ConnectionError:
            raise
        except Exception:
            logger.exception("the tail of %s/%s failed", self._wanted.topic, self._wanted.partition)
            return self._error_line(INTERNAL_ERROR_BODY)

    def _error_line(self, body: bytes) -> bytes:
        """Return an error's body with the offset at which a new tail can continue."""
        shown: dict[str, Any] = orjson.loads(body)
        return orjson.dumps(shown | {"next_offset": self._offset})

    async def _write(self, response: web.StreamResponse, fetched: Fetched) -> "asyncio.Task[None] | None":
        """Write the batches as lines; return the pending write if the reader takes it too slowly, else None.

        The batches after a pending write have to be fetched again."""
        authorizer = self._broker.security.authorizer
        for batch in fetched.batches:
            async with aclosing(self._encoder.lines(batch, self._offset, self._end)) as slices:
                async for lines in slices:
                    authorizer.authorize_topics(self._caller, AclOperation.READ, (self._wanted.topic,))
                    writing = self._loop.create_task(_write_in_parts(response, lines))
                    self._offset = Offset(self._encoder.next_offset)
                    # It waits until the reader has taken earlier lines, except for the socket's buffer.
                    if not await self._is_written(writing):
                        return writing
            self._offset = Offset(read_header(batch).next_offset)
        return None

    async def _is_written(self, writing: "asyncio.Task[None]") -> bool:
        """Return whether the write ended in time. Raises its error."""
        try:
            await asyncio.wait((writing,), timeout=HELD_S)
        except asyncio.CancelledError:
            writing.cancel()
            raise
        if writing.done():
            writing.result()
        return writing.done()

    async def _fetch_next(self, disconnected: "asyncio.Future[None]") -> Fetched | None:
        """Return the next batches; None if the client disconnects or the server stops first."""
        fetch = self._fetch(self._wanted.heartbeat_ms or _POLL_MS, min_bytes=1)
        fetching = await run_until(fetch, disconnected, self._ends.stopping)
        return fetching.result() if fetching.done() else None

    async def _fetch(self, wait_ms: int, min_bytes: int) -> Fetched:
        """Fetch batches. Raises the errors of a fetch, and `MemoryBudgetExceeded` if the first batch finds no memory.

        Raises `TopicNotAuthorized` if the permission has ended, or ends meanwhile."""
        wanted, security = self._wanted, self._broker.security
        reading = (AclOperation.READ, AclResourceType.TOPIC, (wanted.topic,))
        async with security.authorizer.while_allowed(self._caller, *reading):
            fetched = await self._broker.fetch(
                wanted.topic,
                wanted.partition,
                self._offset,
                max_bytes=self._memory.room(_FETCH_BYTES),
                min_bytes=min_bytes,
                deadline=deadline_in(wait_ms),
                isolation=wanted.isolation,
            )
            size = sum(map(len, fetched.batches))
            self._memory.add(size)
            await pace(security.rates, self._caller, FETCHED, size)
        return fetched


async def _write_in_parts(response: web.StreamResponse, lines: Buffer) -> None:
    """Write lines in parts, because one line can be as long as a batch and would block the event loop."""
    async for part in copy_in_parts((lines,)):
        await response.write(part)
