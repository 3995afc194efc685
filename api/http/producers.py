"""Requests of producers and operators besides appending: ids for idempotent producers, and deletion of records."""

from aiohttp import web

from raftlog.api.http.leader_header import leader_header
from raftlog.api.http.openapi.parts import INT64_MAX
from raftlog.api.http.server.answers import value_answer
from raftlog.api.http.server.routing import HttpRouter, Target, flag, partition_number, query_int
from raftlog.partitions.broker import Broker
from raftlog.values.records import AllocatedProducer, LogStart

_RECORDS = "/topics/{topic}/partitions/{partition}/records"


class ProducerHandlers:
    """POST /producers, DELETE /topics/{topic}/partitions/{partition}/records."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def add_to(self, router: HttpRouter) -> None:
        router.add("POST", "/producers", self.allocate, query=("fresh", "timeout"), takes_body=False)
        router.add("DELETE", _RECORDS, self.delete_records, query=("before", "timeout"))

    async def allocate(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return an id that was never used; with `?fresh=true` one above all used ids. A body is ignored."""
        is_fresh = flag(target, "fresh")
        producer_id, epoch = await self._broker.producers.allocate(target.deadline(), is_fresh=is_fresh)
        return value_answer(AllocatedProducer(producer_id, epoch))

    async def delete_records(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Delete all records below the offset `?before=`, and return the new log start offset."""
        topic, partition = target.args[0], partition_number(target.args[1])
        before = query_int(target, "before", None, 0, INT64_MAX)
        deadline = target.deadline()
        start = await self._broker.delete_records(topic, partition, before, deadline=deadline)
        response = value_answer(LogStart(start))
        response.headers.update(leader_header(self._broker, self._broker.leader_of(topic, partition)))
        return response
