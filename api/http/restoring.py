"""Handler of POST …/{topic}/{partition}/restore: append of stored batches that keep their offsets."""

from typing import Final

from aiohttp import web
from aiohttp.hdrs import CONTENT_TYPE

from raftlog.api.codes import WRONG_CONTENT_TYPE
from raftlog.api.http.admin.parameters import place_of
from raftlog.api.http.leader_header import leader_header
from raftlog.api.http.openapi.parts import Json
from raftlog.api.http.server.answers import value_answer
from raftlog.api.http.server.endpoint import LEADER, HttpEndpoint
from raftlog.api.http.server.handlers import Handlers
from raftlog.api.http.server.media import Format, content_format
from raftlog.api.http.server.permissions import ALTER_CLUSTER
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.request_headers import header
from raftlog.api.http.server.routing import Target
from raftlog.partitions.deadline import deadline_in
from raftlog.values.records import RestoredBatches

_BODY: Final[Json] = {
    "required": True,
    "content": {Format.BATCHES.value: {"schema": {"description": "Record batches v2, one after another."}}},
}


class RestoringHandlers(Handlers):
    """Handler of `POST …/restore`, which appends batches of a backup at their own offsets."""

    @HttpEndpoint(
        "POST /v1/partitions/{namespace}/{topic}/{partition}/restore",
        RestoredBatches,
        body=_BODY,
        text="End of the log after the append.",
        headers=LEADER,
        permissions=ALTER_CLUSTER,
    )
    async def restore_batches(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Append stored batches at their own offsets, which begin at the end of the log."""
        topic, number = place_of(target)
        if content_format(header(request, CONTENT_TYPE)) is not Format.BATCHES:
            raise HttpProblem(WRONG_CONTENT_TYPE, f"restored batches have the content type {Format.BATCHES.value}")
        deadline = deadline_in(target.timeout_ms())
        async with self._bodies.receive(request) as body:
            await body.held.cover(2 * len(body.data), deadline)  # each batch is copied, to be stamped
            done = await self._broker.operations.restoring.restore_batches(topic, number, body.data, deadline=deadline)
        response = value_answer(RestoredBatches(done.next_offset, done.leader_epoch, done.high_watermark))
        response.headers.update(leader_header(self._broker, self._broker.leader_of(topic, number)))
        return response
