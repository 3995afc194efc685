"""GET of records: by offset with long poll, as JSON or as stored, or as a tail of lines; and a partition's offsets."""

from typing import NamedTuple

from aiohttp import web

from raftlog.api.http.answers import answer_with, json_answer
from raftlog.api.http.ends import Ends
from raftlog.api.http.json_records import JsonRecords
from raftlog.api.http.media import Format, accepted_format
from raftlog.api.http.records_produce import LEADER_HEADER, TOPIC_ID_HEADER, timeout_ms
from raftlog.api.http.request_headers import header
from raftlog.api.http.routing import Router, Target, flag, partition_number, query_int
from raftlog.api.http.tail import Tails
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.results import Fetched
from raftlog.records import read_header

OFFSET_MAX = (1 << 63) - 1
TIMEOUT_MS_DEFAULT = 1_000
MAX_BYTES_DEFAULT = 1024 * 1024
_NOTHING = b"[]"


class _Options(NamedTuple):
    offset: int
    timeout_ms: int
    max_bytes: int
    min_bytes: int


class FetchHandlers:
    """GET /topics/{topic}/partitions/{partition}/records and …/offsets."""

    def __init__(self, broker: Broker, ends: Ends) -> None:
        self._broker = broker
        self._tails = Tails(broker, ends)

    def add_to(self, router: Router) -> None:
        router.add("GET", "/topics/{topic}/partitions/{partition}/records", self.fetch)
        router.add("GET", "/topics/{topic}/partitions/{partition}/offsets", self.offsets)

    async def fetch(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """`?offset=&timeout=&max_bytes=&min_bytes=`; only the offset is required.

        Stored batches come as they are, so the first may begin below the offset. JSON begins at the offset and ends
        when the answer has `max_bytes`, at least with one record: what compaction has left without any is passed over.
        """
        topic, partition = target.args[0], partition_number(target.args[1])
        format_, content_type = accepted_format(header(request, "Accept"))
        if format_ is Format.NDJSON:
            return await self._tails.serve(request, target, partition, self._leader(topic, partition))
        settings = self._broker.settings
        options = _Options(
            query_int(target, "offset", None, 0, OFFSET_MAX),
            min(query_int(target, "timeout", TIMEOUT_MS_DEFAULT, 0, OFFSET_MAX), settings.fetch_wait_ms_max),
            min(query_int(target, "max_bytes", MAX_BYTES_DEFAULT, 1, OFFSET_MAX), settings.fetch_bytes_max),
            query_int(target, "min_bytes", 1, 0, OFFSET_MAX),
        )
        deadline = deadline_in(options.timeout_ms)
        fetched = await self._fetch(topic, partition, options, deadline)
        if format_ is Format.BATCHES:
            batches = fetched.batches
            body = bytes(batches[0]) if len(batches) == 1 else b"".join(batches)
            next_offset = read_header(batches[-1]).next_offset if batches else options.offset
        else:
            encoder = JsonRecords(topic, partition, format_, settings.opened_bytes_max)
            body = await encoder.encode(fetched.batches, options.offset, options.max_bytes)
            while body == _NOTHING and fetched.batches:
                options = options._replace(offset=encoder.next_offset)
                fetched = await self._fetch(topic, partition, options, deadline)
                body = await encoder.encode(fetched.batches, options.offset, options.max_bytes)
            next_offset = encoder.next_offset
        return answer_with(body, content_type, _bounds(fetched, next_offset) | self._leader(topic, partition))

    async def _fetch(self, topic: str, partition: int, options: _Options, deadline: Deadline) -> Fetched:
        return await self._broker.fetch(
            topic,
            partition,
            options.offset,
            max_bytes=options.max_bytes,
            min_bytes=options.min_bytes,
            deadline=deadline,
        )

    def _leader(self, topic: str, partition: int) -> dict[str, str]:
        leader = self._broker.leader_address(topic, partition)
        return {} if leader is None else {LEADER_HEADER: leader}

    async def offsets(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """`{"beginning_offset", "end_offset"}`, and with `?timestamp=` also the first record from then on.

        `?linearizable=true`: nothing that was acknowledged before the request is missing.
        """
        topic, partition = target.args[0], partition_number(target.args[1])
        deadline = deadline_in(timeout_ms(target))
        is_linearizable = flag(target, "linearizable")
        beginning, end = await self._broker.offsets(topic, partition, linearizable=is_linearizable, deadline=deadline)
        body: dict[str, int | None] = {"beginning_offset": beginning, "end_offset": end}
        if "timestamp" in target.query:
            timestamp = query_int(target, "timestamp", None, 0, OFFSET_MAX)
            found = await self._broker.offset_for_timestamp(topic, partition, timestamp, deadline=deadline)
            body["offset"], body["timestamp"] = found or (None, None)
        return json_answer(body)


def _bounds(fetched: Fetched, next_offset: int) -> dict[str, str]:
    return {
        "X-Raftlog-Next-Offset": str(next_offset),
        "X-Raftlog-High-Watermark": str(fetched.high_watermark),
        "X-Raftlog-Log-Start": str(fetched.log_start_offset),
        "X-Raftlog-Leader-Epoch": str(fetched.leader_epoch),
        TOPIC_ID_HEADER: str(fetched.topic_id),
    }
