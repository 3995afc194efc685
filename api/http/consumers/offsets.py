"""Handlers that set the positions of a consumer instance, and commit and return its offsets.

As in the REST Proxy, the offsets that a client *sends* to commit are those of records that it has consumed; the
committed and returned offset is the next one, at which its group continues."""

from typing import Any

from aiohttp import web

from raftlog.api.codes import BAD_REQUEST, EMPTY_REQUEST, INVALID_JSON
from raftlog.api.http.bounds import TEXT
from raftlog.api.http.consumers.consumers import DONE, INSTANCE, READ, check_count, instance_of, places_of
from raftlog.api.http.openapi.parts import BOOLEAN, NODE
from raftlog.api.http.requests import ConsumedBody, PartitionsBody, SeekBody
from raftlog.api.http.server.connection import caller_of
from raftlog.api.http.server.endpoint import in_query
from raftlog.api.http.server.handlers import GroupAnswers
from raftlog.api.http.server.permissions import LISTED_TOPICS, READ_GROUP, TOPICS_READ
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.routing import Target, flag, partition_number
from raftlog.errors import ConsumerState
from raftlog.partitions.consumers.results import ChosenPosition, CommitOutcome, ConsumedRecord
from raftlog.records.json_record import read_timestamp
from raftlog.security.permissions import AclOperation
from raftlog.types import TopicPartition
from raftlog.values.consumers import CommitResult, InstanceOffset, InstanceOffsets
from raftlog.values.error_codes import status_and_code

_POSITIONS = INSTANCE + "/positions"
_OFFSETS = INSTANCE + "/offsets"
_ASYNC = in_query("async", BOOLEAN | {"default": False}, "Answer before it is committed.")
_TOPIC = in_query("topic", TEXT, "With `partition`: this partition only.")
_PARTITION = in_query("partition", NODE, "With `topic`.")


class ConsumerOffsetHandlers(GroupAnswers):
    """Handlers of POST …/positions, …/positions/beginning, …/positions/end, and POST and GET …/offsets."""

    kind = tag = "consumers"

    @DONE(f"POST {_POSITIONS}", body=SeekBody, permissions=(*READ_GROUP, *TOPICS_READ))
    async def seek(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Set positions of a consumer instance to offsets or timestamps.

        By offset or timestamp; the body is `{"offsets": [{"topic", "partition", "offset"}],
        "timestamps": [{"topic", "partition", "timestamp"}]}`."""
        body = await self._bodies.read(request, SeekBody)
        chosen = [ChosenPosition(row.place, offset=row.offset) for row in body.offsets or ()]
        chosen += [
            ChosenPosition(row.place, timestamp_ms=_parse_timestamp(row.timestamp)) for row in body.timestamps or ()
        ]
        return await self._seek(request, target, chosen)

    @DONE(f"POST {_POSITIONS}/beginning", body=PartitionsBody, permissions=(*READ_GROUP, *TOPICS_READ))
    async def seek_to_beginning(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Set positions of a consumer instance to the log start.

        The body is `{"partitions": [{"topic", "partition"}]}`."""
        return await self._seek_to("beginning", request, target)

    @DONE(f"POST {_POSITIONS}/end", body=PartitionsBody, permissions=(*READ_GROUP, *TOPICS_READ))
    async def seek_to_end(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Set positions of a consumer instance to the end of the log.

        The body is `{"partitions": [{"topic", "partition"}]}`."""
        return await self._seek_to("end", request, target)

    async def _seek_to(self, edge: str, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Move the positions of the partitions in the body to the `edge`: beginning or end."""
        body = await self._bodies.read(request, PartitionsBody)
        return await self._seek(
            request, target, [ChosenPosition(each, edge=edge) for each in places_of(body.partitions)]
        )

    async def _seek(self, request: web.BaseRequest, target: Target, chosen: list[ChosenPosition]) -> web.StreamResponse:
        """Set the positions, at least one, and each partition once. Raises `HttpProblem` otherwise."""
        if not chosen:
            raise HttpProblem(EMPTY_REQUEST, "the body names no partition")
        check_count(len(chosen), "partitions")
        if len({each.partition for each in chosen}) < len(chosen):
            raise HttpProblem(BAD_REQUEST, "the body names a partition twice")
        self._authorize_read(request, (each.partition.topic for each in chosen))
        await self._broker.consumers.seek(*instance_of(target), chosen, deadline=target.deadline())
        return self._answer(target.args[0])

    @READ(
        f"POST {_OFFSETS}",
        list[CommitResult],
        (_ASYNC, "timeout"),
        ConsumedBody | None,
        "Result of the commit.",
        permissions=(*READ_GROUP, *TOPICS_READ),
    )
    async def commit_consumed(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Commit the offsets of consumed records.

        The body is `{"offsets": [{"topic", "partition", "offset", "metadata"?}]}`; by default all delivered records."""
        given = await self._bodies.read_if_any(request, ConsumedBody)
        consumed = None if given is None else _parse_consumed_offsets(given)
        self._authorize_read(request, (each.partition.topic for each in consumed or ()))
        is_async = flag(target, "async")
        outcomes = await self._broker.consumers.commit(
            *instance_of(target), consumed, is_waited_for=not is_async, deadline=target.deadline()
        )
        return self._answer(target.args[0], [_describe_commit(each) for each in outcomes])

    @READ(
        f"GET {_OFFSETS}", InstanceOffsets, (_TOPIC, _PARTITION, "timeout"), permissions=(*READ_GROUP, *LISTED_TOPICS)
    )
    async def consumer_offsets(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return committed offsets of the consumer group, for partitions in the query or in a body.

        By default, of all partitions that the instance reads.

        The body has the partitions, as in the REST Proxy. A client that cannot send a body with GET names one partition
        in the query."""
        partitions = await self._read_requested_partitions(request, target)
        self._authorizer.authorize_topics(
            caller_of(request), AclOperation.DESCRIBE, (place.topic for place in partitions or ())
        )
        found = await self._broker.consumers.committed(*instance_of(target), partitions, deadline=target.deadline())
        visible = self._visibility(request)
        shown = [InstanceOffset(*each) for each in found if visible.has_topic(each.topic)]
        return self._answer(target.args[0], InstanceOffsets(shown))

    async def _read_requested_partitions(self, request: web.BaseRequest, target: Target) -> list[TopicPartition] | None:
        """Return the partition in the query, or those in the body; None if the request names none."""
        topic, partition = target.query.get("topic"), target.query.get("partition")
        if (topic is None) != (partition is None):
            raise HttpProblem(BAD_REQUEST, "the query must have both 'topic' and 'partition', or none of them")
        if topic is not None and partition is not None:
            return [TopicPartition(topic, partition_number(partition))]
        given = await self._bodies.read_if_any(request, PartitionsBody)
        return None if given is None else places_of(given.partitions)


def _parse_timestamp(value: Any) -> int:
    """Return a timestamp in milliseconds. Raises `HttpProblem` for an invalid value."""
    try:
        return read_timestamp(value)
    except ValueError as error:
        raise HttpProblem(INVALID_JSON, str(error)) from None


def _parse_consumed_offsets(body: ConsumedBody) -> list[ConsumedRecord] | None:
    """Return the offsets in the body; None if it has none. Raises `HttpProblem` if there are too many."""
    if body.offsets is None:
        return None
    check_count(len(body.offsets), "offsets")
    return [ConsumedRecord(row.place, row.offset, row.metadata or "") for row in body.offsets]


def _describe_commit(outcome: CommitOutcome) -> CommitResult:
    """Return the result of a commit for one partition, with the error if it failed."""
    found = CommitResult(outcome.topic, outcome.partition, outcome.consumed, outcome.committed)
    if outcome.error is None:
        return found
    code = status_and_code(ConsumerState())[1]
    return found.copy_with(error_code=code, error=outcome.error, outcome=ConsumerState.outcome)
