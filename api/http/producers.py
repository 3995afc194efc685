"""Handlers that allocate producer ids and delete records."""

from aiohttp import web

from raftlog.api.http.leader_header import leader_header
from raftlog.api.http.openapi.parts import BOOLEAN, INT64_MAX, OFFSET
from raftlog.api.http.server.answers import value_answer
from raftlog.api.http.server.connection import caller_of
from raftlog.api.http.server.endpoint import HttpEndpoint, in_query
from raftlog.api.http.server.handlers import Handlers
from raftlog.api.http.server.permissions import IN_REQUEST, EndpointPermission, on_topic
from raftlog.api.http.server.routing import Target, flag, partition_number, query_int
from raftlog.security.permissions import AclOperation, AclResourceType
from raftlog.values.records import AllocatedProducer, LogStart

_RECORDS = "/topics/{topic}/partitions/{partition}/records"
_FRESH = in_query("fresh", BOOLEAN, "Greater than every allocated id: for a producer that expired.")
_BEFORE = in_query("before", OFFSET, "The first offset that is kept, at most the end offset.", is_required=True)


class ProducerHandlers(Handlers):
    """Handlers of POST /producers and DELETE /topics/{topic}/partitions/{partition}/records."""

    kind, tag = "producers", "records"

    @HttpEndpoint(
        "POST /producers",
        AllocatedProducer,
        (_FRESH, "timeout"),
        text="An id that no other producer has.",
        permissions=(EndpointPermission(AclOperation.IDEMPOTENT_WRITE, AclResourceType.CLUSTER, IN_REQUEST),),
    )
    async def new_producer(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Allocate a producer id for an idempotent producer."""
        self._authorizer.authorize_producer(caller_of(request))
        is_fresh = flag(target, "fresh")
        producer_id, epoch = await self._broker.producers.allocate(target.deadline(), is_fresh=is_fresh)
        return value_answer(AllocatedProducer(producer_id, epoch))

    @HttpEndpoint(
        f"DELETE {_RECORDS}",
        LogStart,
        (_BEFORE, "timeout"),
        text="The new log start offset.",
        permissions=on_topic(AclOperation.DELETE),
    )
    async def delete_records(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Delete the records of a partition below an offset."""
        topic, partition = target.args[0], partition_number(target.args[1])
        before = query_int(target, "before", None, 0, INT64_MAX)
        deadline = target.deadline()
        start = await self._broker.delete_records(topic, partition, before, deadline=deadline)
        response = value_answer(LogStart(start))
        response.headers.update(leader_header(self._broker, self._broker.leader_of(topic, partition)))
        return response
