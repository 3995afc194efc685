"""Handlers of the console's reads of records: pages, live tails and counts of one partition.

    work of one answer ≤ `SCANNED_BYTES_MAX` stored bytes and about `SCAN_S`, whatever the filter finds

The answer has the offset at which the next request continues, even if no record was found yet."""

import asyncio
from collections import deque
from typing import Final, NamedTuple

from aiohttp import web

from raftlog.api.codes import BAD_REQUEST, NOT_ACCEPTABLE
from raftlog.api.http.console.record_scan import RecordScan
from raftlog.api.http.console.record_tail import TAILS_MAX, RecordTail
from raftlog.api.http.console.shown_records import ALL, HEADERS, KEY, VALUE, RecordFilter, shown_size
from raftlog.api.http.openapi.parts import BOOLEAN, OFFSET, integer, string
from raftlog.api.http.records.isolation import ISOLATION, isolation_of
from raftlog.api.http.server.answer_memory import AnswerMemory
from raftlog.api.http.server.answers import value_answer
from raftlog.api.http.server.connection import caller_of
from raftlog.api.http.server.endpoint import HttpEndpoint, in_query
from raftlog.api.http.server.handlers import HandlerContext, Handlers
from raftlog.api.http.server.media import Format, accepted_format
from raftlog.api.http.server.permissions import on_topic
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.request_headers import header
from raftlog.api.http.server.request_quotas import mark_stream
from raftlog.api.http.server.routing import Target, flag, parse_integer, partition_number, query_choice, query_int
from raftlog.errors import Overloaded
from raftlog.partitions.deadline import Deadline
from raftlog.security.permissions import AclOperation
from raftlog.types import Isolation, TopicPartition
from raftlog.values.console import RecordCount, RecordPage, ShownRecord

_PARTITION: Final = "/console/api/topics/{topic}/partitions/{partition}"
LIMIT_DEFAULT: Final = 50
LIMIT_MAX: Final = 500
BYTES_DEFAULT: Final = 4_096
BYTES_MAX: Final = 65_536
FILTER_BYTES_MAX: Final = 1_024
SCANNED_BYTES_MAX: Final = 16 * 1024 * 1024
SCAN_S: Final = 0.7
ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024
_WAIT_MS: Final = 1_000
_WIDER: Final = 8
"""Factor by which the searched range of offsets grows if it has too few records, as after compaction."""
_WIDER_STEPS: Final = 3
_OFFSET_MAX: Final = (1 << 63) - 1
_PARTS: Final = (ALL, KEY, VALUE, HEADERS)
_STARTS: Final = ("offset", "timestamp", "newest")
_RECORDS: Final = (
    in_query(
        "offset",
        {"anyOf": [OFFSET, string(enum=["beginning", "end"])]},
        "First offset to show. One of offset, timestamp and newest is required.",
    ),
    "timestamp",
    in_query("newest", integer(1, LIMIT_MAX), "Number of the newest records to show."),
    in_query("filter", string(maxLength=FILTER_BYTES_MAX), "Only records with this text, in the same case."),
    in_query("in", string(enum=list(_PARTS), default=ALL), "Part of the record with the text of the filter."),
    in_query("limit", integer(1, LIMIT_MAX) | {"default": LIMIT_DEFAULT}, "Maximum number of records."),
    in_query(
        "value_bytes", integer(0, BYTES_MAX) | {"default": BYTES_DEFAULT}, "Bytes to show of a key, value or header."
    ),
    ISOLATION,
    in_query(
        "follow",
        BOOLEAN | {"default": False},
        "Stream records as lines (`Accept: application/x-ndjson`), and continue with new ones.",
    ),
    "timeout",
)
_FROM: Final = in_query("offset", OFFSET, "Offset from which to count; without it, the log start.")


class _Wanted(NamedTuple):
    """Parameters of a read of records."""

    place: TopicPartition
    filter: RecordFilter
    limit: int
    bytes_max: int
    isolation: Isolation
    deadline: Deadline


class ConsoleRecordHandlers(Handlers):
    """Handlers of GET /console/api/topics/{topic}/partitions/{partition}/records and …/count."""

    kind = tag = "console"

    def __init__(self, context: HandlerContext) -> None:
        super().__init__(context)
        self._tails = 0

    @HttpEndpoint(
        f"GET {_PARTITION}/records",
        RecordPage,
        _RECORDS,
        text="Records, or with `follow` a `ShownRecord` on each line.",
        streams={Format.NDJSON.value: string("A record on each line.")},
        fails=(400, 404, 406, 422, 429, 503, 504),
        permissions=on_topic(AclOperation.READ),
    )
    async def console_records(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return records of a partition that pass a filter, with the first bytes of long values.

        A search stops after a bounded amount of work; it continues at `next_offset`."""
        wanted = _parse(target)
        is_followed = flag(target, "follow")
        names = [name for name in _STARTS if name in target.query]
        if len(names) != 1:
            raise HttpProblem(BAD_REQUEST, f"the query has {len(names)} of {', '.join(_STARTS)}; send one of them")
        if is_followed and accepted_format(header(request, "Accept"))[0] is not Format.NDJSON:
            raise HttpProblem(
                NOT_ACCEPTABLE, f"a tail is only sent as {Format.NDJSON.value}; name it in the header Accept"
            )
        if is_followed and names == ["newest"]:
            raise HttpProblem(BAD_REQUEST, "a tail begins at an offset or a timestamp, not at the newest records")
        with AnswerMemory(self._answers) as memory:
            if names == ["newest"]:
                return value_answer(await self._read_newest(request, target, wanted, memory))
            scan = self._scan(request, wanted, await self._first_offset(target, wanted), memory)
            if is_followed:
                return await self._follow(request, scan)
            return value_answer(await self._read_page(scan, wanted.limit))

    async def _first_offset(self, target: Target, wanted: _Wanted) -> int:
        """Return the offset at which the query begins. Raises `HttpProblem` 400."""
        text = target.query.get("offset")
        if text is not None and text not in ("beginning", "end"):
            return parse_integer(text, "the query parameter 'offset' (or beginning, end)", 0, _OFFSET_MAX)
        bounds = await self._broker.offsets(*wanted.place, deadline=wanted.deadline, isolation=wanted.isolation)
        if text is not None:
            return bounds.beginning if text == "beginning" else bounds.end
        timestamp = query_int(target, "timestamp", None, 0, _OFFSET_MAX)
        found = await self._broker.offset_for_timestamp(
            *wanted.place, timestamp, deadline=wanted.deadline, isolation=wanted.isolation
        )
        return bounds.end if found is None else found[0]

    def _scan(self, request: web.BaseRequest, wanted: _Wanted, offset: int, memory: AnswerMemory) -> RecordScan:
        """Return a scan of the wanted partition from `offset` on, for the caller of the request."""
        return RecordScan(
            self._broker,
            caller_of(request),
            wanted.place,
            offset,
            wanted.filter,
            wanted.bytes_max,
            wanted.isolation,
            memory,
        )

    async def _read_page(self, scan: RecordScan, limit: int) -> RecordPage:
        """Return up to `limit` records; fewer at the end of the log or at a bound: time, scanned or shown bytes."""
        records: list[ShownRecord] = []
        until = asyncio.get_running_loop().time() + SCAN_S
        size = 0
        while True:
            if not scan.has_batches and not await scan.fetch(_WAIT_MS, min_bytes=0):
                break
            some = await scan.show(limit - len(records))
            records += some
            size += sum(map(shown_size, some))
            is_enough = len(records) >= limit or size >= ANSWER_BYTES_MAX or scan.fetched_bytes >= SCANNED_BYTES_MAX
            if is_enough or scan.is_at_end or asyncio.get_running_loop().time() >= until:
                break
        return RecordPage(
            records=records,
            next_offset=scan.next_offset,
            log_start_offset=scan.log_start_offset,
            high_watermark=scan.high_watermark,
            scanned=scan.scanned,
            is_end=scan.is_at_end,
        )

    async def _read_newest(
        self, request: web.BaseRequest, target: Target, wanted: _Wanted, memory: AnswerMemory
    ) -> RecordPage:
        """Return the newest records, as many as the query parameter `newest` says.

        Compaction leaves offsets without records, so the read is repeated from an earlier offset if it finds too
        few."""
        number = query_int(target, "newest", None, 1, LIMIT_MAX)
        bounds = await self._broker.offsets(*wanted.place, deadline=wanted.deadline, isolation=wanted.isolation)
        back = number
        for step in range(_WIDER_STEPS):
            first = max(bounds.beginning, bounds.end - back)
            newest: deque[ShownRecord] = deque(maxlen=number)
            memory.release()
            scan = self._scan(request, wanted, first, memory)
            page = await self._read_page(scan, LIMIT_MAX)
            newest.extend(page.records)
            while not page.is_end and scan.fetched_bytes < SCANNED_BYTES_MAX and scan.next_offset < bounds.end:
                page = await self._read_page(scan, LIMIT_MAX)
                newest.extend(page.records)
            if len(newest) == number or first == bounds.beginning or step == _WIDER_STEPS - 1 or wanted.filter.needle:
                break
            back *= _WIDER
        return page.copy_with(records=list(newest))

    async def _follow(self, request: web.BaseRequest, scan: RecordScan) -> web.StreamResponse:
        """Stream new records as lines. Raises `Overloaded` if `TAILS_MAX` streams are open."""
        if self._tails >= TAILS_MAX:
            raise Overloaded(
                f"{TAILS_MAX} tails of the console are open on this broker; close one, or use another broker"
            )
        self._tails += 1
        mark_stream(request)
        try:
            return await RecordTail(scan, self._ends, self._broker.security.rates, caller_of(request)).serve(request)
        finally:
            self._tails -= 1

    @HttpEndpoint(f"GET {_PARTITION}/count", RecordCount, (_FROM, "timeout"), permissions=on_topic(AclOperation.READ))
    async def console_count(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the number of committed records of a partition, from the headers of its batches.

        A count stops after a bounded amount of work; it continues at `next_offset`."""
        wanted = _parse(target)
        bounds = await self._broker.offsets(*wanted.place, deadline=wanted.deadline, isolation=wanted.isolation)
        first = max(bounds.beginning, query_int(target, "offset", bounds.beginning, 0, _OFFSET_MAX))
        count = 0
        until = asyncio.get_running_loop().time() + SCAN_S
        with AnswerMemory(self._answers) as memory:
            scan = self._scan(request, wanted, min(first, bounds.end), memory)
            while await scan.fetch(_WAIT_MS, min_bytes=0):
                count += await scan.count_records()
                is_enough = scan.fetched_bytes >= SCANNED_BYTES_MAX or asyncio.get_running_loop().time() >= until
                if is_enough or scan.is_at_end:
                    break
        return value_answer(
            RecordCount(
                records=count,
                first_offset=min(first, bounds.end),
                next_offset=scan.next_offset,
                end_offset=scan.high_watermark,
                is_complete=scan.is_at_end,
            )
        )


def _parse(target: Target) -> _Wanted:
    """Return the parameters of a read. Raises `HttpProblem` 400."""
    needle, part = target.query.get("filter", "").encode(), query_choice(target, "in", _PARTS, ALL)
    if len(needle) > FILTER_BYTES_MAX:
        raise HttpProblem(BAD_REQUEST, f"the filter has more than {FILTER_BYTES_MAX} bytes")
    return _Wanted(
        TopicPartition(target.args[0], partition_number(target.args[1])),
        RecordFilter(needle, part),
        query_int(target, "limit", LIMIT_DEFAULT, 1, LIMIT_MAX),
        query_int(target, "value_bytes", BYTES_DEFAULT, 0, BYTES_MAX),
        isolation_of(target),
        target.deadline(),
    )
