"""Handlers of GET of records, by offset with long poll as JSON or as stored batches or as lines, and of offsets."""

from collections.abc import Sequence
from typing import NamedTuple

from aiohttp import web

from raftlog.api.http.leader_header import leader_header
from raftlog.api.http.openapi.parts import BOOLEAN, OFFSET, integer, string
from raftlog.api.http.records.isolation import ISOLATION, isolation_of
from raftlog.api.http.records.json_records import Encoded, JsonRecords
from raftlog.api.http.records.produce import TOPIC_ID_HEADER
from raftlog.api.http.records.produce_endpoints import TOPIC_ID
from raftlog.api.http.records.tail import TIMEOUT_MS_MAX, Tails
from raftlog.api.http.server.answer_memory import AnswerMemory
from raftlog.api.http.server.answers import value_answer
from raftlog.api.http.server.connection import caller_of
from raftlog.api.http.server.endpoint import LEADER, HttpEndpoint, in_query
from raftlog.api.http.server.handlers import HandlerContext, Handlers
from raftlog.api.http.server.media import JSON_TYPE, Format, accepted_format
from raftlog.api.http.server.paced_answer import send_body
from raftlog.api.http.server.permissions import DESCRIBE_TOPIC, on_topic
from raftlog.api.http.server.request_headers import header
from raftlog.api.http.server.routing import Target, flag, partition_number, query_int
from raftlog.partitions.caller import Caller
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.results import Fetched
from raftlog.records import read_header
from raftlog.security.permissions import AclOperation, AclResourceType
from raftlog.types import Buffer, Isolation
from raftlog.values.records import LogOffsets, RecordAsJson

OFFSET_MAX = (1 << 63) - 1
TIMEOUT_MS_DEFAULT = 1_000
MAX_BYTES_DEFAULT = 1024 * 1024
_PARTITION = "/topics/{topic}/partitions/{partition}"
_FETCH = (
    in_query(
        "offset",
        {"anyOf": [OFFSET, string(enum=["beginning", "end"])]},
        "First offset to return. Required, except for lines, which can begin at a timestamp or at either end.",
    ),
    in_query(
        "timeout",
        integer() | {"default": TIMEOUT_MS_DEFAULT},
        "Milliseconds to wait for `min_bytes`; for lines, without a leader.",
    ),
    in_query("min_bytes", integer() | {"default": 1}, "Stored bytes to wait for."),
    in_query(
        "max_bytes", integer(1) | {"default": MAX_BYTES_DEFAULT}, "Bytes to answer at most, and at least one record."
    ),
    "timestamp",
    ISOLATION,
    in_query("follow", BOOLEAN | {"default": False}, "Lines: continue with new records."),
    in_query(
        "heartbeat", integer(0, TIMEOUT_MS_MAX), "Lines: milliseconds without a record until an empty line is sent."
    ),
)
_BOUNDS = {
    "X-Raftlog-High-Watermark": integer(),
    "X-Raftlog-Log-Start": integer(),
    "X-Raftlog-Next-Offset": integer(text="Next offset to fetch."),
    "X-Raftlog-Leader-Epoch": integer(),
    **TOPIC_ID,
}
_LINEARIZABLE = in_query(
    "linearizable", BOOLEAN | {"default": False}, "Include every record that was acknowledged before."
)


class _Options(NamedTuple):
    """Options of a fetch, from the query."""

    offset: int
    timeout_ms: int
    max_bytes: int
    min_bytes: int
    isolation: Isolation


class FetchHandlers(Handlers):
    """Handlers of GET /topics/{topic}/partitions/{partition}/records and …/offsets."""

    kind, tag = "fetch", "records"

    def __init__(self, context: HandlerContext) -> None:
        super().__init__(context)
        self._tails = Tails(self._broker, self._ends, self._answers)

    @HttpEndpoint(
        f"GET {_PARTITION}/records",
        list[RecordAsJson],
        _FETCH,
        text="Records, or as lines (the last can be an error body with `next_offset`), or as stored.",
        headers=_BOUNDS | LEADER,
        content_types=(JSON_TYPE, Format.JSON.value, Format.BINARY.value),
        streams={
            Format.BATCHES.value: string("Bytes.", format="binary"),
            Format.NDJSON.value: string("A record on each line."),
        },
        fails=(400, 404, 406, 422, 429, 503),
        permissions=on_topic(AclOperation.READ),
    )
    async def fetch(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return records from an offset on, with long poll, or stream them as lines.

        Stored batches are sent unchanged, so the first may begin below the offset. JSON begins at the offset and
        ends when the answer has `max_bytes`, with at least one record: batches that compaction has emptied are
        skipped."""
        topic, partition = target.args[0], partition_number(target.args[1])
        format_, content_type = accepted_format(header(request, "Accept"))
        if format_ is Format.NDJSON:
            return await self._tails.serve(request, target, partition, self._leader_header(topic, partition))
        settings = self._broker.settings
        options = _Options(
            query_int(target, "offset", None, 0, OFFSET_MAX),
            min(query_int(target, "timeout", TIMEOUT_MS_DEFAULT, 0, OFFSET_MAX), settings.fetch_wait_ms_max),
            min(query_int(target, "max_bytes", MAX_BYTES_DEFAULT, 1, OFFSET_MAX), settings.fetch_bytes_max),
            query_int(target, "min_bytes", 1, 0, OFFSET_MAX),
            isolation_of(target),
        )
        deadline = deadline_in(options.timeout_ms)
        with AnswerMemory(self._answers) as memory:
            caller = caller_of(request)
            fetched = await self._fetch(caller, topic, partition, options, deadline, memory)
            if format_ is Format.BATCHES:
                body: Sequence[Buffer] = fetched.batches
                next_offset = read_header(fetched.batches[-1]).next_offset if fetched.batches else options.offset
            else:
                encoder = JsonRecords(topic, partition, format_, self._broker.opener, memory)
                parts = await encoder.encode(fetched.batches, options.offset, memory.room(options.max_bytes))
                while not parts and fetched.batches:
                    options = options._replace(offset=encoder.next_offset)
                    memory.release()
                    fetched = await self._fetch(caller, topic, partition, options, deadline, memory)
                    parts = await encoder.encode(fetched.batches, options.offset, memory.room(options.max_bytes))
                next_offset = encoder.next_offset
                body = _json_array(parts)
                memory.release_part(sum(map(len, fetched.batches)))
                fetched = fetched._replace(batches=[])
            headers = _offset_headers(fetched, next_offset) | self._leader_header(topic, partition)
            return await send_body(request, body, content_type, headers)

    async def _fetch(
        self, caller: Caller, topic: str, partition: int, options: _Options, deadline: Deadline, memory: AnswerMemory
    ) -> Fetched:
        """Fetch batches, with memory reserved for them.

        Raises `MemoryBudgetExceeded` if there is no memory for the first batch."""
        fetched = await self._fetch_at_most(caller, topic, partition, options, deadline, memory.room(options.max_bytes))
        if memory.try_add(sum(map(len, fetched.batches))):
            return fetched
        # Other requests took memory while this one waited for records.
        del fetched
        fetched = await self._fetch_at_most(caller, topic, partition, options, deadline, memory.room(options.max_bytes))
        memory.add(sum(map(len, fetched.batches)))
        return fetched

    async def _fetch_at_most(
        self, caller: Caller, topic: str, partition: int, options: _Options, deadline: Deadline, max_bytes: int
    ) -> Fetched:
        """Fetch batches; raises `TopicNotAuthorized` if the permission ends meanwhile."""
        async with self._authorizer.while_allowed(caller, AclOperation.READ, AclResourceType.TOPIC, (topic,)):
            return await self._broker.fetch(
                topic,
                partition,
                options.offset,
                max_bytes=max_bytes,
                min_bytes=options.min_bytes,
                deadline=deadline,
                isolation=options.isolation,
            )

    def _leader_header(self, topic: str, partition: int) -> dict[str, str]:
        """Return the header with the leader's address; empty if this broker leads the partition."""
        return leader_header(self._broker, self._broker.leader_of(topic, partition))

    @HttpEndpoint(
        f"GET {_PARTITION}/offsets",
        LogOffsets,
        ("timeout", _LINEARIZABLE, "timestamp", ISOLATION),
        permissions=DESCRIBE_TOPIC,
    )
    async def offsets(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return first and end offset, and the first record from a time on.

        `?linearizable=true`: the answer includes every record that was acknowledged before the request."""
        topic, partition = target.args[0], partition_number(target.args[1])
        deadline = target.deadline()
        is_linearizable, isolation = flag(target, "linearizable"), isolation_of(target)
        beginning, end = await self._broker.offsets(
            topic, partition, linearizable=is_linearizable, deadline=deadline, isolation=isolation
        )
        found = LogOffsets(beginning, end)
        if "timestamp" in target.query:
            timestamp = query_int(target, "timestamp", None, 0, OFFSET_MAX)
            first = await self._broker.offset_for_timestamp(
                topic, partition, timestamp, deadline=deadline, isolation=isolation
            )
            found = LogOffsets(beginning, end, *(first or (None, None)))
        return value_answer(found)


def _json_array(parts: Sequence[Encoded]) -> list[Buffer]:
    """Return a JSON array of encoded objects as buffers."""
    body: list[Buffer] = [b"["]
    for part in parts:
        body += (part, b",")
    if parts:
        body.pop()
    body.append(b"]")
    return body


def _offset_headers(fetched: Fetched, next_offset: int) -> dict[str, str]:
    """Return the headers of an answer with records: offsets of the log, leader epoch and topic id."""
    return {
        "X-Raftlog-Next-Offset": str(next_offset),
        "X-Raftlog-High-Watermark": str(fetched.high_watermark),
        "X-Raftlog-Log-Start": str(fetched.log_start_offset),
        "X-Raftlog-Leader-Epoch": str(fetched.leader_epoch),
        TOPIC_ID_HEADER: str(fetched.topic_id),
    }
