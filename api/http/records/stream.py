"""Produce bodies that are taken as they come: NDJSON of any length, and octets that are one record."""

from aiohttp import web

from raftlog.api.http.records.ndjson_ingest import NdjsonIngest
from raftlog.api.http.records.ndjson_report import StreamAnswer
from raftlog.api.http.records.octet_stream import OctetStream
from raftlog.api.http.records.produce_options import ProduceOptions
from raftlog.api.http.server.bodies import BodyReader
from raftlog.api.http.server.connections import ConnectionEnds
from raftlog.api.http.server.media import Format
from raftlog.api.http.server.routing import Target
from raftlog.api.http.server.streamed_body import StreamedBody
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import deadline_in

STREAMED = (Format.NDJSON, Format.OCTETS)


class StreamedProduce:
    """Used by `ProduceHandlers`."""

    def __init__(self, broker: Broker, bodies: BodyReader, ends: ConnectionEnds) -> None:
        self._broker, self._bodies, self._ends = broker, bodies, ends

    async def produce(
        self, request: web.BaseRequest, target: Target, options: ProduceOptions, format_: Format
    ) -> web.StreamResponse:
        """Append a streamed body; raises errors of the request as a whole, before anything is stored."""
        body = StreamedBody(request, self._bodies.timeout_ms)
        deadline = deadline_in(options.timeout_ms)
        if format_ is Format.OCTETS:
            return await OctetStream(self._broker, self._bodies.memory).produce(request, target, options, body)
        stream = await self._broker.open_stream(options.topic, options.partition, deadline=deadline)
        ingest = NdjsonIngest(stream, options, StreamAnswer(request), self._bodies.memory, self._ends.stopping)
        return await ingest.run(body)
