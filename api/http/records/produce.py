"""Handlers of POST of records and of stored batches. Hot path: most of it runs for every record."""

from collections.abc import Sequence
from functools import partial

from aiohttp import web
from aiohttp.hdrs import CONTENT_TYPE

from raftlog.api.codes import BAD_REQUEST, INVALID_JSON, WRONG_CONTENT_TYPE
from raftlog.api.http.leader_header import leader_header
from raftlog.api.http.records.large_records import PARSED_BYTES_MAX, parse_large
from raftlog.api.http.records.ndjson_block import LINE_READERS
from raftlog.api.http.records.ndjson_ingest import NdjsonIngest
from raftlog.api.http.records.ndjson_report import StreamAnswer
from raftlog.api.http.records.new_records import PRODUCER_FIELDS, parse_records
from raftlog.api.http.records.octet_stream import OctetStream
from raftlog.api.http.records.produce_answers import encode_single_record, records_answer, whole_records_answer
from raftlog.api.http.records.produce_endpoints import TO_PARTITION, TO_TOPIC
from raftlog.api.http.records.produce_options import ProduceOptions
from raftlog.api.http.server.answers import answer, value_answer
from raftlog.api.http.server.bodies import UNCHARGED_BYTES_MAX, ReceivedBody
from raftlog.api.http.server.connection import caller_of
from raftlog.api.http.server.handlers import HandlerContext, Handlers
from raftlog.api.http.server.held_memory import RECORD_MEMORY_BYTES, HeldMemory
from raftlog.api.http.server.media import Format, content_format
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.repeated_requests import RepeatedHandler
from raftlog.api.http.server.request_headers import header
from raftlog.api.http.server.request_quotas import mark_stream, pace
from raftlog.api.http.server.routing import Handler, Target, partition_number, query_choice
from raftlog.api.http.server.streamed_body import StreamedBody
from raftlog.partitions.caller import Caller
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.results import ALL, Acks, RecordResult
from raftlog.partitions.security.client_rates import PRODUCED
from raftlog.runtime.tracing.context import TRACEPARENT
from raftlog.security.permissions import AclOperation, AclResourceType, Resource
from raftlog.values.records import ProducedBatches, ProducedRecord
from raftlog.values.value import UNSET

TOPIC_ID_HEADER = "X-Raftlog-Topic-Id"
_STREAMED = (Format.NDJSON, Format.OCTETS)
_ACKS: dict[str, Acks] = {"all": ALL, "-1": ALL, "1": 1, "0": 0}


def _parse_options(target: Target) -> ProduceOptions:
    """Return the options in path and query, and store them in `target`, which later requests with the same URL share.

    Raises `HttpProblem`."""
    acks = query_choice(target, "acks", _ACKS, "all")
    lines = query_choice(target, "lines", LINE_READERS, "records")
    partition = partition_number(target.args[1]) if len(target.args) > 1 else None
    transactional_id = target.query.get("transactional_id")
    if transactional_id is not None and _ACKS[acks] != ALL:
        raise HttpProblem(BAD_REQUEST, f"the query parameter 'acks' is {acks!r}; in a transaction it is all")
    options = target.options = ProduceOptions(
        target.args[0], partition, _ACKS[acks], target.timeout_ms(), LINE_READERS[lines], transactional_id
    )
    return options


class ProduceHandlers(Handlers):
    """Handlers of POST /topics/{topic} and /topics/{topic}/partitions/{partition}."""

    kind, tag = "produce", "records"

    def __init__(self, context: HandlerContext) -> None:
        super().__init__(context)
        self._tracer = self._broker.measuring.counters.tracer

    def wrap_handler(self, handler: Handler) -> Handler:
        """Return the handler in a trace of each request, if tracing is on."""
        tracer = self._tracer
        if tracer is None:
            return handler

        async def trace_handler(request: web.BaseRequest, target: Target) -> web.StreamResponse:
            """Call the handler within a span that records the request's path and the answer's status."""
            traceparent = header(request, TRACEPARENT)
            with tracer.trace_request("produce request", traceparent, path=request.path) as span:
                response = await handler(request, target)
                span.attributes["status"] = response.status
                return response

        return trace_handler

    def find_repeated_handler(self, request: web.BaseRequest, target: Target) -> RepeatedHandler | None:
        """Return the handler of records with the same head; None for streams, transactions, and traces."""
        options: ProduceOptions = target.options
        format_ = content_format(header(request, CONTENT_TYPE))
        is_plain = format_ not in _STREAMED and options.transactional_id is None and self._tracer is None
        return partial(self._produce_repeated, options, format_) if is_plain else None

    async def _produce_repeated(self, options: ProduceOptions, format_: Format, body: bytes) -> bytes | web.Response:
        """Append the records of a small body; return the body of a 200 answer, or another answer."""
        if format_ is Format.BATCHES:
            response = await self._produce_batches(options, body, None)
            response.headers.update(self._leader_header(options))
            return response
        results = await self._append_records(options, format_, body)
        done, headers = encode_single_record(results), self._leader_header(options)
        if done is not None and not headers:
            return done
        response = whole_records_answer(results) if done is None else answer(done)
        response.headers.update(headers)
        return response

    @TO_TOPIC
    @TO_PARTITION
    async def produce(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Append the records of the body, which may arrive as a stream; name the partition's leader in a header."""
        options: ProduceOptions = target.options or _parse_options(target)
        format_ = content_format(header(request, CONTENT_TYPE))
        if options.transactional_id is not None:
            self._check_transaction(request, options.transactional_id, format_)
        response: web.StreamResponse
        if format_ in _STREAMED:
            response = await self._produce_stream(request, target, options, format_)
        elif (whole := self._bodies.read_if_arrived(request)) is not None:
            if len(whole) <= UNCHARGED_BYTES_MAX:
                response = await self._produce_body(request, options, format_, whole)
            else:
                with HeldMemory(self._bodies.memory) as held:
                    if not held.try_cover(len(whole)):
                        await held.cover(len(whole), deadline_in(options.timeout_ms))
                    response = await self._produce_body(request, options, format_, whole, held)
        else:
            async with self._bodies.receive(request) as body:
                # The permission may have ended while the body arrived.
                self._authorizer.authorize_topics(caller_of(request), AclOperation.WRITE, (options.topic,))
                response = await self._produce_body(request, options, format_, body.data, body.held)
        if options.partition is not None and not response.prepared:
            response.headers.update(self._leader_header(options))
        return response

    def _check_transaction(self, request: web.BaseRequest, transactional_id: str, format_: Format) -> None:
        """Raise `TransactionalIdNotAuthorized`, and `HttpProblem` for a body that has no producer id."""
        resource = Resource(AclResourceType.TRANSACTIONAL_ID, transactional_id)
        self._authorizer.authorize(caller_of(request), AclOperation.WRITE, resource)
        if format_ in _STREAMED:
            raise HttpProblem(
                WRONG_CONTENT_TYPE,
                f"{format_.value} bodies have no producer id; send records of a transaction as {Format.JSON.value}, "
                f"{Format.BINARY.value} or {Format.BATCHES.value}",
            )

    async def _produce_stream(
        self, request: web.BaseRequest, target: Target, options: ProduceOptions, format_: Format
    ) -> web.StreamResponse:
        """Append an NDJSON body of any length as it arrives, or an octet stream as one record.

        Raises errors of the request as a whole, before anything is stored."""
        body = StreamedBody(request, self._bodies.timeout_ms)
        deadline = deadline_in(options.timeout_ms)
        if format_ is Format.OCTETS:
            return await OctetStream(self._broker, self._bodies.memory).produce(request, target, options, body)
        stream = await self._broker.open_stream(options.topic, options.partition, deadline=deadline)
        ingest = NdjsonIngest(
            stream,
            options,
            StreamAnswer(request),
            self._bodies.memory,
            self._ends.stopping,
            partial(self._admit, caller_of(request), options.topic),
        )
        mark_stream(request)
        return await ingest.run(body)

    async def _admit(self, caller: Caller, topic: str, size: int) -> None:
        """Check permission and quota of the caller before a block of `size` bytes is appended; wait for the quota.

        Raises `NotAuthorized`."""
        writing = (AclOperation.WRITE, AclResourceType.TOPIC, (topic,))
        async with self._authorizer.while_allowed(caller, *writing):
            await pace(self._broker.security.rates, caller, PRODUCED, size)

    def _leader_header(self, options: ProduceOptions) -> dict[str, str]:
        """Return the header with the leader's address; empty if no partition is named, or this broker leads it."""
        if options.partition is None:
            return {}
        return leader_header(self._broker, self._broker.leader_of(options.topic, options.partition))

    async def _produce_body(
        self,
        request: web.BaseRequest,
        options: ProduceOptions,
        format_: Format,
        data: bytes | bytearray,
        held: HeldMemory | None = None,
    ) -> web.StreamResponse:
        """Append the records of a complete body; `held` is the memory that the body takes from the budget."""
        if format_ is Format.BATCHES:
            return await self._produce_batches(options, data, held)
        results = await self._append_records(options, format_, data, held)
        done = encode_single_record(results)
        if done is not None:
            return answer(done)
        return await records_answer(request, results, self._leader_header(options))

    async def _append_records(
        self, options: ProduceOptions, format_: Format, data: bytes | bytearray, held: HeldMemory | None = None
    ) -> Sequence[RecordResult]:
        """Append the records of a complete body in a JSON format; return the result of each.

        Raises `HttpProblem`, and errors of the whole call."""
        topic, choice, acks, timeout, _, transactional_id = options
        deadline = deadline_in(timeout)
        is_large = held is not None and len(data) > PARSED_BYTES_MAX
        if is_large:
            assert held is not None, "a large body holds memory"
            records, partitions, producer = await parse_large(ReceivedBody(data, held), format_, deadline)
        else:
            records, partitions, producer = parse_records(data, format_)
            if held is not None and held.size:
                await held.cover(2 * len(data) + RECORD_MEMORY_BYTES * len(records), deadline)
        if self._tracer is not None:
            self._tracer.adopt_record_context(record.headers for record in records)
        if partitions is not None and choice is not None:
            raise HttpProblem(BAD_REQUEST, "the path names the partition, so a record cannot")
        place = choice if partitions is None else partitions
        if transactional_id is not None:
            if producer is None:
                raise HttpProblem(INVALID_JSON, f"records of a transaction need {', '.join(PRODUCER_FIELDS)}")
            return await self._broker.leader.transaction_appends.append_records(
                topic, place, records, producer, transactional_id=transactional_id, deadline=deadline
            )
        return await self._broker.produce_records(
            topic, place, records, acks=acks, deadline=deadline, producer=producer, is_large=is_large
        )

    async def _produce_batches(
        self, options: ProduceOptions, body: bytes | bytearray, held: HeldMemory | None
    ) -> web.Response:
        """Append the record batches of the body, which are already in the log's format, to one partition.

        Raises `HttpProblem` if the path does not name a partition."""
        topic, partition, acks, timeout, _, transactional_id = options
        if partition is None:
            raise HttpProblem(
                WRONG_CONTENT_TYPE,
                f"stored batches go to one partition; POST them to /topics/{topic}/partitions/{{partition}}",
            )
        deadline = deadline_in(timeout)
        if held is not None and held.size:
            await held.cover(2 * len(body), deadline)  # each batch is copied, to be stamped
        if transactional_id is None:
            done = await self._broker.produce_batches(topic, partition, body, acks=acks, deadline=deadline)
        else:
            done = await self._broker.leader.transaction_appends.append_batches(
                topic, partition, body, transactional_id=transactional_id, deadline=deadline
            )
        is_known = done.base_offset >= 0
        offset, next_offset = (done.base_offset, done.next_offset) if is_known else (None, None)
        response = value_answer(
            ProducedBatches(
                offsets=[ProducedRecord(partition, offset, duplicate=done.is_duplicate or UNSET)],
                next_offset=next_offset,
                leader_epoch=done.leader_epoch,
                high_watermark=done.high_watermark,
            )
        )
        response.headers[TOPIC_ID_HEADER] = str(done.topic_id)
        return response
