"""Where a consumer instance stands: positions that a client chooses, offsets that it commits.

As in the REST Proxy, the offsets that a client *sends* to commit are those of records that it has consumed; what is
committed, and answered, is the offset behind, where its group goes on.
"""

from typing import Any

from aiohttp import web

from raftlog.api.codes import BAD_REQUEST, EMPTY_REQUEST, INVALID_JSON
from raftlog.api.http.consumers.consumers import INSTANCE, PLACE, check_count, deadline_of, instance_of, place, places
from raftlog.api.http.groups.groups import with_coordinator
from raftlog.api.http.json_fields import INT64_MAX, JsonFields
from raftlog.api.http.server.answers import json_answer, no_content
from raftlog.api.http.server.bodies import BodyReader
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.routing import HttpRouter, Target, partition_number
from raftlog.errors import ConsumerState
from raftlog.partitions.broker import Broker
from raftlog.partitions.consumers.results import Chosen, CommitOutcome, Consumed
from raftlog.records.json_record import read_timestamp
from raftlog.types import TopicPartition
from raftlog.values.error_codes import status_and_code

_POSITIONS = INSTANCE + "/positions"
_OFFSETS = INSTANCE + "/offsets"


class ConsumerOffsetHandlers:
    """POST …/positions, …/positions/beginning, …/positions/end; POST and GET …/offsets."""

    def __init__(self, broker: Broker, bodies: BodyReader) -> None:
        self._broker = broker
        self._bodies = bodies

    def add_to(self, router: HttpRouter) -> None:
        router.add("POST", _POSITIONS, self.seek, query=("timeout",))
        router.add("POST", _POSITIONS + "/beginning", self.seek_to_beginning, query=("timeout",))
        router.add("POST", _POSITIONS + "/end", self.seek_to_end, query=("timeout",))
        router.add("POST", _OFFSETS, self.commit, query=("async", "timeout"))
        router.add("GET", _OFFSETS, self.committed, query=("topic", "partition", "timeout"))

    async def seek(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """`{"offsets": [{"topic", "partition", "offset"}], "timestamps": [{"topic", "partition", "timestamp"}]}`."""
        body = JsonFields(await self._bodies.json_object(request), ("offsets", "timestamps"))
        chosen = [
            Chosen(place(row), offset=row.whole("offset", 0, INT64_MAX))
            for row in body.objects("offsets", (*PLACE, "offset", "metadata"), can_be_empty=True)
        ]
        chosen += [
            Chosen(place(row), timestamp_ms=_timestamp(row))
            for row in body.objects("timestamps", (*PLACE, "timestamp", "metadata"), can_be_empty=True)
        ]
        return await self._seek(target, chosen)

    async def seek_to_beginning(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """`{"partitions": [{"topic", "partition"}]}`."""
        return await self._seek_to("beginning", request, target)

    async def seek_to_end(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """`{"partitions": [{"topic", "partition"}]}`."""
        return await self._seek_to("end", request, target)

    async def _seek_to(self, edge: str, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        body = JsonFields(await self._bodies.json_object(request), ("partitions",))
        return await self._seek(target, [Chosen(each, edge=edge) for each in places(body, "partitions")])

    async def _seek(self, target: Target, chosen: list[Chosen]) -> web.StreamResponse:
        if not chosen:
            raise HttpProblem(EMPTY_REQUEST, "the body names no partition")
        check_count(len(chosen), "partitions")
        if len({each.partition for each in chosen}) < len(chosen):
            raise HttpProblem(BAD_REQUEST, "the body names a partition twice")
        await self._broker.consumers.seek(*instance_of(target), chosen, deadline=deadline_of(target))
        return with_coordinator(no_content(), self._broker, target.args[0])

    async def commit(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """`{"offsets": [{"topic", "partition", "offset", "metadata"?}]}`; without: behind all that was delivered."""
        given = await self._bodies.json_object_if_any(request)
        consumed = None if given is None else _consumed(JsonFields(given, ("offsets",)))
        is_async = target.query.get("async", "false")
        if is_async not in ("true", "false"):
            raise HttpProblem(BAD_REQUEST, f"the query parameter 'async' is {is_async!r}; it can be true or false")
        outcomes = await self._broker.consumers.commit(
            *instance_of(target), consumed, is_waited_for=is_async == "false", deadline=deadline_of(target)
        )
        return with_coordinator(json_answer([_outcome(each) for each in outcomes]), self._broker, target.args[0])

    async def committed(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Of the partitions in the body, as the REST Proxy has it; for clients whose GET has no body, of the one in the
        query; of all that the instance reads when none is named."""
        partitions = await self._asked(request, target)
        found = await self._broker.consumers.committed(*instance_of(target), partitions, deadline=deadline_of(target))
        return with_coordinator(
            json_answer({"offsets": [each._asdict() for each in found]}), self._broker, target.args[0]
        )

    async def _asked(self, request: web.BaseRequest, target: Target) -> list[TopicPartition] | None:
        topic, partition = target.query.get("topic"), target.query.get("partition")
        if (topic is None) != (partition is None):
            raise HttpProblem(BAD_REQUEST, "the query has 'topic' and 'partition', or neither")
        if topic is not None and partition is not None:
            return [TopicPartition(topic, partition_number(partition))]
        given = await self._bodies.json_object_if_any(request)
        if given is None:
            return None
        return places(JsonFields(given, ("partitions",)), "partitions")


def _timestamp(row: JsonFields) -> int:
    try:
        return read_timestamp(row["timestamp"])
    except ValueError as error:
        raise HttpProblem(INVALID_JSON, str(error)) from None


def _consumed(body: JsonFields) -> list[Consumed] | None:
    if "offsets" not in body:
        return None
    rows = body.objects("offsets", (*PLACE, "offset", "metadata"))
    check_count(len(rows), "offsets")
    return [Consumed(place(row), row.whole("offset", 0, INT64_MAX - 1), row.text("metadata", "")) for row in rows]


def _outcome(outcome: CommitOutcome) -> dict[str, Any]:
    shown: dict[str, Any] = outcome._asdict()
    error = shown.pop("error")
    if error is not None:
        shown |= {"error_code": status_and_code(ConsumerState())[1], "error": error, "outcome": ConsumerState.outcome}
    return shown
