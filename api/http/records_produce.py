"""POST of records and of stored batches. The hot path: whatever stands here runs for every single record."""

import orjson
from aiohttp import web

from raftlog.api.codes import BAD_REQUEST, WRONG_CONTENT_TYPE, status_and_code
from raftlog.api.http.answers import answer, json_answer
from raftlog.api.http.bodies import UNCHARGED_BYTES_MAX, BodyReader
from raftlog.api.http.ends import Ends
from raftlog.api.http.held_memory import HeldMemory
from raftlog.api.http.media import Format, content_format
from raftlog.api.http.ndjson_block import LINE_READERS
from raftlog.api.http.new_records import parse_records
from raftlog.api.http.problems import HttpProblem, error_body
from raftlog.api.http.produce_options import ProduceOptions
from raftlog.api.http.records_stream import STREAMED, StreamedProduce
from raftlog.api.http.routing import Router, Target, partition_number, query_int
from raftlog.errors import RaftlogError
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.results import ALL, Acks, RecordResult

TIMEOUT_MS_DEFAULT = 10_000
TIMEOUT_MS_MAX = 600_000
LEADER_HEADER = "X-Raftlog-Leader"
"""HOST:PORT of the broker that leads the partition, where it is not the one that answered."""
TOPIC_ID_HEADER = "X-Raftlog-Topic-Id"
_ACKS: dict[str, Acks] = {"all": ALL, "-1": ALL, "1": 1, "0": 0}
_DUPLICATE: dict[str, int | str | None] = {"duplicate": True}
"""Of records that an idempotent producer had sent before; their offsets are those of then."""
_ONE_DONE = (
    b'{"offsets":[{"partition":%d,"offset":%d,"error_code":null,"error":null}],'
    b'"key_schema_id":null,"value_schema_id":null}'
)


def timeout_ms(target: Target) -> int:
    """`?timeout=` in milliseconds."""
    return query_int(target, "timeout", TIMEOUT_MS_DEFAULT, 1, TIMEOUT_MS_MAX)


def _options(target: Target) -> ProduceOptions:
    acks = target.query.get("acks", "all")
    if acks not in _ACKS:
        raise HttpProblem(BAD_REQUEST, f"the query parameter 'acks' is {acks!r}; it can be all, 1 or 0")
    lines = target.query.get("lines", "records")
    if lines not in LINE_READERS:
        raise HttpProblem(BAD_REQUEST, f"the query parameter 'lines' is {lines!r}; it can be {', '.join(LINE_READERS)}")
    partition = partition_number(target.args[1]) if len(target.args) > 1 else None
    options = target.options = ProduceOptions(
        target.args[0], partition, _ACKS[acks], timeout_ms(target), LINE_READERS[lines]
    )
    return options


class ProduceHandlers:
    """POST /topics/{topic} and /topics/{topic}/partitions/{partition}."""

    def __init__(self, broker: Broker, bodies: BodyReader, ends: Ends) -> None:
        self._broker = broker
        self._bodies = bodies
        self._streamed = StreamedProduce(broker, bodies, ends)

    def add_to(self, router: Router) -> None:
        router.add("POST", "/topics/{topic}", self.produce)
        router.add("POST", "/topics/{topic}/partitions/{partition}", self.produce)

    async def produce(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        options: ProduceOptions = target.options or _options(target)
        format_ = content_format(request.headers.get("Content-Type"))
        response: web.StreamResponse
        if format_ in STREAMED:
            response = await self._streamed.produce(request, target, options, format_)
        elif (whole := self._bodies.whole(request)) is not None:
            response = await self._produce_whole(options, format_, whole)
        else:
            async with self._bodies.receive(request) as body:
                response = await self._produce_body(options, format_, body.data)
        if options.partition is not None:
            leader = self._broker.leader_address(options.topic, options.partition)
            if leader is not None and not response.prepared:
                response.headers[LEADER_HEADER] = leader
        return response

    async def _produce_whole(self, options: ProduceOptions, format_: Format, body: bytes) -> web.Response:
        if len(body) <= UNCHARGED_BYTES_MAX:
            return await self._produce_body(options, format_, body)
        with HeldMemory(self._bodies.memory) as held:
            if not held.maybe_cover(len(body)):
                await held.cover(len(body), deadline_in(options.timeout_ms))
            return await self._produce_body(options, format_, body)

    async def _produce_body(self, options: ProduceOptions, format_: Format, body: bytes | bytearray) -> web.Response:
        if format_ is Format.BATCHES:
            return await self._produce_batches(options, body)
        records, partitions, producer = parse_records(body, format_)
        topic, choice, acks, timeout, _ = options
        if partitions is not None and choice is not None:
            raise HttpProblem(BAD_REQUEST, "the path names the partition, so a record cannot")
        results = await self._broker.produce_records(
            topic,
            choice if partitions is None else partitions,
            records,
            acks=acks,
            deadline=deadline_in(timeout),
            producer=producer,
        )
        if len(results) == 1:
            partition, offset, error, is_duplicate = results[0]
            if error is None and offset is not None and not is_duplicate:
                return answer(_ONE_DONE % (partition, offset))
        return _many_answer(results)

    async def _produce_batches(self, options: ProduceOptions, body: bytes | bytearray) -> web.Response:
        topic, partition, acks, timeout, _ = options
        if partition is None:
            raise HttpProblem(
                WRONG_CONTENT_TYPE,
                f"stored batches go to one partition; POST them to /topics/{topic}/partitions/{{partition}}",
            )
        done = await self._broker.produce_batches(topic, partition, body, acks=acks, deadline=deadline_in(timeout))
        is_known = done.base_offset >= 0
        offset = {
            "partition": partition,
            "offset": done.base_offset if is_known else None,
            "error_code": None,
            "error": None,
            **(_DUPLICATE if done.is_duplicate else {}),
        }
        response = json_answer(
            {
                "offsets": [offset],
                "key_schema_id": None,
                "value_schema_id": None,
                "next_offset": done.next_offset if is_known else None,
                "leader_epoch": done.leader_epoch,
                "high_watermark": done.high_watermark,
            }
        )
        response.headers[TOPIC_ID_HEADER] = str(done.topic_id)
        return response


def _many_answer(results: list[RecordResult]) -> web.Response:
    """200 when any record is done, otherwise the status of an error, unknown before failed."""
    errors = [result.error for result in results if result.error is not None]
    if len(errors) == len(results):
        worst = next((error for error in errors if error.outcome == "unknown"), errors[0])
        status, body = error_body(worst)
        if len(results) == 1:
            return answer(body, status=status)
        described = orjson.loads(body)
        described["offsets"] = [_described(result) for result in results]
        return json_answer(described, status)
    offsets = (
        [_described(result) for result in results]
        if errors or results[0].is_duplicate
        else [
            {"partition": partition, "offset": offset, "error_code": None, "error": None}
            for partition, offset, *_ in results
        ]
    )
    return json_answer({"offsets": offsets, "key_schema_id": None, "value_schema_id": None})


def _described(result: RecordResult) -> dict[str, int | str | None]:
    error: RaftlogError | None = result.error
    if error is None:
        row: dict[str, int | str | None] = {
            "partition": result.partition,
            "offset": result.offset,
            "error_code": None,
            "error": None,
        }
        return row | _DUPLICATE if result.is_duplicate else row
    return {
        "partition": result.partition,
        "offset": None,
        "error_code": status_and_code(error)[1],
        "error": str(error),
        "outcome": error.outcome,
    }
