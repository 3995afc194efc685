"""Handler of GET …/records of a consumer instance: poll in the instance's own format.

An answer has records of several partitions; those of one partition are in order. The coordinator chooses the records
and returns stored batches, which are converted to JSON here. A long answer is converted while it is written.

    memory of an answer: the stored batches + one decompressed batch + one slice of records + one part in the connection
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Final

from aiohttp import web

from raftlog.api.codes import NOT_ACCEPTABLE
from raftlog.api.http.consumers.consumers import INSTANCE, instance_of
from raftlog.api.http.openapi.parts import integer, string
from raftlog.api.http.records.json_records import JsonRecords, join_objects
from raftlog.api.http.server.answer_memory import AnswerMemory
from raftlog.api.http.server.answers import answer_with
from raftlog.api.http.server.connection import caller_of
from raftlog.api.http.server.connections import run_until
from raftlog.api.http.server.endpoint import LEADER, HttpEndpoint, in_query, parameter
from raftlog.api.http.server.handlers import GroupAnswers
from raftlog.api.http.server.media import JSON_TYPE, Format, accepted_embedded
from raftlog.api.http.server.paced_answer import PART_BYTES, copy_in_parts, send_parts
from raftlog.api.http.server.permissions import READ_GROUP, TOPICS_READ
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.request_headers import header
from raftlog.api.http.server.routing import Target, query_int
from raftlog.errors import MemoryBudgetExceeded, OffsetOutOfRange
from raftlog.partitions.consumers.deliveries import MAX_BYTES_MAX
from raftlog.partitions.consumers.results import MovedPosition, PollDelivery
from raftlog.partitions.consumers.settings import REQUEST_TIMEOUT_MS_MAX
from raftlog.security.permissions import AclOperation, AclResourceType
from raftlog.types import Buffer, Offset
from raftlog.values.records import RecordAsJson

MAX_BYTES_DEFAULT: Final = 1024 * 1024
RESET_HEADER: Final = "X-Raftlog-Offset-Reset"
_RESETS_MAX: Final = 20
_ACCEPT = parameter("header", "Accept", string(), "The media type of the instance's format, or a general one.")
_WAIT = in_query("timeout", integer(), "Milliseconds to wait, within the instance's own timeout.")
_MAX_BYTES = in_query("max_bytes", integer(1) | {"default": MAX_BYTES_DEFAULT}, "Of keys and values, at most 64 MiB.")
_FORMATS: Final = {"binary": Format.BINARY, "json": Format.JSON}
_INT64_MAX: Final = (1 << 63) - 1


class NoPosition(OffsetOutOfRange):
    """The partition has no valid position, and `auto.offset.reset` is `none`."""

    def __init__(self, moved: MovedPosition) -> None:
        """Describe a partition whose position is out of range (`moved.at`), or never committed (negative)."""
        super().__init__(moved.at, moved.beginning, moved.end)
        place = f"{moved.topic}/{moved.partition}"
        why = f"offset {moved.at} of {place} is out of range" if moved.at >= 0 else f"no offset is committed in {place}"
        self.args = (
            f"{why}, and auto.offset.reset is none: POST a position; the log holds offsets {moved.beginning} to "
            f"{moved.end} (exclusive)",
        )


class ConsumerRecordHandlers(GroupAnswers):
    """Handlers of GET /consumers/{group}/instances/{instance}/records."""

    kind = tag = "consumers"

    @HttpEndpoint(
        f"GET {INSTANCE}/records",
        list[RecordAsJson],
        (_ACCEPT, _WAIT, _MAX_BYTES),
        text="Records; the positions are the offsets after them.",
        headers=LEADER | {RESET_HEADER: string("Positions that `auto.offset.reset` changed.")},
        content_types=(JSON_TYPE, Format.JSON.value, Format.BINARY.value),
        fails=(400, 404, 406, 409, 422, 429, 503, 504),
        has_head=False,
        permissions=(*READ_GROUP, *TOPICS_READ),
    )
    async def poll(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the next records of a consumer instance, with long poll.

        The instance's own timeout is not exceeded."""
        accepted = accepted_embedded(header(request, "Accept"))
        formats = [name for name, format_ in _FORMATS.items() if format_ in accepted]
        wait_ms = min(query_int(target, "timeout", REQUEST_TIMEOUT_MS_MAX, 0, _INT64_MAX), REQUEST_TIMEOUT_MS_MAX)
        max_bytes = min(query_int(target, "max_bytes", MAX_BYTES_DEFAULT, 1, _INT64_MAX), MAX_BYTES_MAX)
        with AnswerMemory(self._answers, is_forced=True) as memory:
            if not memory.has_room:
                self._answers.refused += 1
                raise MemoryBudgetExceeded(
                    f"all {self._answers.limit} bytes of memory for answers are in use (--memory-budget-bytes); "
                    "nothing was read, try again"
                )
            # Once positions have moved the answer cannot be refused any more.
            reading = (AclOperation.READ, AclResourceType.GROUP, (target.args[0],))
            async with self._authorizer.while_allowed(caller_of(request), *reading):
                room = memory.reserve(max_bytes)
                delivery = await self._poll_while_connected(request, target, wait_ms, room, formats)
            memory.end_reservation()
            self._authorize_read(request, (piece.topic for piece in delivery.pieces))
            memory.add(sum(len(batch) for piece in delivery.pieces for batch in piece.batches))
            return await self._answer_poll(request, target, accepted, formats, delivery, memory)

    async def _answer_poll(
        self,
        request: web.BaseRequest,
        target: Target,
        accepted: Mapping[Format, str],
        formats: Sequence[str],
        delivery: PollDelivery,
        memory: AnswerMemory,
    ) -> web.StreamResponse:
        """Encode the delivered records in the instance's format. Raises `HttpProblem` 406 if `Accept` excludes it."""
        if delivery.format not in formats:
            raise HttpProblem(
                NOT_ACCEPTABLE,
                f"this instance answers {_FORMATS[delivery.format].value}, which Accept does not allow; "
                "nothing was read",
            )
        for moved in delivery.moved:
            if moved.to is None:
                raise NoPosition(moved)
        content_type, resets = accepted[_FORMATS[delivery.format]], _format_resets(delivery.moved)
        async with aclosing(self._parts(delivery, memory)) as parts:
            begin = [part async for part in _take_parts(parts, 2)]
            response = self._add_coordinator(answer_with(begin[0], content_type, resets), target.args[0])
            if len(begin) == 1:
                return response
            headers = {name: response.headers[name] for name in response.headers if name != "Content-Length"}
            return await send_parts(request, 200, headers, _chain_parts(begin, parts))

    async def _poll_while_connected(
        self, request: web.BaseRequest, target: Target, wait_ms: int, max_bytes: int, formats: Sequence[str]
    ) -> PollDelivery:
        """Poll; when the client disconnects, cancel the poll, so that no position moves."""
        polling = self._broker.consumers.poll(
            *instance_of(target), wait_ms=wait_ms, max_bytes=max_bytes, formats=formats
        )
        poll = await run_until(polling, self._ends.disconnected(request))
        return poll.result() if poll.done() else PollDelivery(formats[0])

    async def _parts(self, delivery: PollDelivery, memory: AnswerMemory) -> AsyncGenerator[bytes]:
        """Yield the JSON array of the records in parts of about `PART_BYTES`."""
        waiting: list[Buffer] = [b"["]
        size, separator = 0, b""
        for piece in delivery.pieces:
            encoder = JsonRecords(piece.topic, piece.partition, _FORMATS[delivery.format], self._broker.opener, memory)
            for batch in piece.batches:
                async with aclosing(encoder.slices(batch, piece.offset, piece.end)) as slices:
                    async for slice_ in slices:
                        waiting += (separator, join_objects(slice_, b","))
                        size, separator = size + len(waiting[-1]), b","
                        if size >= PART_BYTES:
                            async for part in copy_in_parts(waiting):
                                yield part
                            waiting, size = [], 0
                        await asyncio.sleep(0)
        waiting.append(b"]")
        yield b"".join(waiting)


async def _take_parts(parts: AsyncGenerator[bytes], count: int) -> AsyncGenerator[bytes]:
    """Yield at most `count` further parts of the generator, and leave it open."""
    while count and (part := await anext(parts, None)) is not None:
        yield part
        count -= 1


async def _chain_parts(begin: Sequence[bytes], parts: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Yield the parts in `begin`, then those of the generator."""
    for part in begin:
        yield part
    async for part in parts:
        yield part


def _format_resets(moved: Sequence[MovedPosition]) -> dict[str, str]:
    """Return the header with the positions that the reset policy changed, as `topic/partition from->to`."""
    if not moved:
        return {}
    shown = [f"{each.topic}/{each.partition} {each.at}->{Offset(each.to or 0)}" for each in moved[:_RESETS_MAX]]
    return {RESET_HEADER: ", ".join(shown)}
