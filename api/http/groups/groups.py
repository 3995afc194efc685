"""Groups for simple users: their names, what they committed, and what operators change in that."""

from aiohttp import web

from raftlog.api.codes import BAD_REQUEST, INVALID_JSON
from raftlog.api.http.json_fields import INT32_MAX, INT64_MAX, JsonFields
from raftlog.api.http.leader_header import leader_header
from raftlog.api.http.records.produce import timeout_ms
from raftlog.api.http.server.answers import no_content, value_answer
from raftlog.api.http.server.bodies import BodyReader
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.routing import HttpRouter, Target
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.groups.results import Committed, MemberIdentity, OffsetCommit, ResetTo
from raftlog.types import Offset, TopicPartition
from raftlog.values.groups import CommittedPartition, GroupNames, GroupOffsets, OffsetsReset

_OFFSETS = "/groups/{group}/offsets"
_PLACE = ("topic", "partition")


class GroupHandlers:
    """GET /groups; GET, POST and DELETE /groups/{group}/offsets; POST …/offsets/reset."""

    def __init__(self, broker: Broker, bodies: BodyReader) -> None:
        self._broker = broker
        self._bodies = bodies

    def add_to(self, router: HttpRouter) -> None:
        router.add("GET", "/groups", self.groups, query=("timeout",))
        router.add("GET", _OFFSETS, self.committed, query=("timeout",))
        router.add("POST", _OFFSETS, self.commit, query=("timeout",))
        router.add("DELETE", _OFFSETS, self.forget, query=("topic", "timeout"))
        router.add("POST", _OFFSETS + "/reset", self.reset, query=("timeout",))

    async def groups(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        return value_answer(GroupNames(await self._broker.groups.names(deadline=_deadline(target))))

    async def committed(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """A group that never committed has no offsets; that is no error."""
        group = target.args[0]
        return self._offsets(group, await self._broker.groups.committed(group, deadline=_deadline(target)))

    async def commit(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """`{"offsets": [{"topic", "partition", "offset", "metadata"?}], "member_id"?, "generation"?, "instance_id"?}`;
        answers with all that the group has committed then."""
        known = ("offsets", "member_id", "generation", "instance_id")
        body = JsonFields(await self._bodies.json_object(request), known)
        group = target.args[0]
        member = _member(body)
        offsets = _commits(body, member)
        return self._offsets(
            group, await self._broker.groups.commit(group, offsets, member=member, deadline=_deadline(target))
        )

    async def forget(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """`?topic=`: what the group committed in it is forgotten."""
        topic = target.query.get("topic")
        if topic is None:
            raise HttpProblem(BAD_REQUEST, "the query parameter 'topic' is missing")
        await self._broker.groups.delete_offsets(target.args[0], topic, deadline=_deadline(target))
        return no_content()

    async def reset(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """`{"to": …, "topics"?: […], "partitions"?: [{"topic", "partition"}], "dry_run"?: false}`."""
        body = JsonFields(await self._bodies.json_object(request), ("to", "topics", "partitions", "dry_run"))
        dry_run = body.flag("dry_run", default=False)
        done = await self._broker.groups.reset(
            target.args[0],
            _reset_to(body),
            topics=body.texts("topics"),
            partitions=_places(body),
            dry_run=dry_run,
            deadline=_deadline(target),
        )
        return value_answer(OffsetsReset(done, dry_run))

    def _offsets(self, group: str, committed: Committed) -> web.Response:
        rows = [
            CommittedPartition(topic, partition, found.offset, found.metadata, _known(found.leader_epoch))
            for (topic, partition), found in sorted(committed.items())
        ]
        return with_coordinator(value_answer(GroupOffsets(rows)), self._broker, group)


def with_coordinator(response: web.Response, broker: Broker, group: str) -> web.Response:
    """Say where the group's coordinator is, when that is another broker: clients go there directly."""
    response.headers.update(leader_header(broker, broker.groups.leader_of(group)))
    return response


def _deadline(target: Target) -> Deadline:
    return deadline_in(timeout_ms(target))


def _known(value: int) -> int | None:
    return None if value < 0 else value


def _commits(body: JsonFields, member: MemberIdentity | None) -> dict[TopicPartition, OffsetCommit]:
    """Of several for one partition the last counts, as in any order of commits; of a watermark the greatest."""
    offsets: dict[TopicPartition, OffsetCommit] = {}
    for row in body.objects("offsets", (*_PLACE, "offset", "metadata", "leader_epoch")):
        place = _place(row)
        offset = Offset(row.whole("offset", 0, INT64_MAX))
        commit = OffsetCommit(offset, row.text("metadata", ""), row.whole("leader_epoch", 0, INT32_MAX, default=-1))
        if member is not None or place not in offsets or offset > offsets[place].offset:
            offsets[place] = commit
    return offsets


def _member(body: JsonFields) -> MemberIdentity | None:
    member_id = body.maybe_text("member_id")
    if member_id is None:
        if "generation" in body or "instance_id" in body:
            raise HttpProblem(INVALID_JSON, 'a commit of a member has its "member_id" and "generation"')
        return None
    return MemberIdentity(member_id, body.whole("generation", 0, INT32_MAX), body.maybe_text("instance_id"))


def _place(row: JsonFields) -> TopicPartition:
    return TopicPartition(row.text("topic"), row.whole("partition", 0, INT32_MAX))


def _places(body: JsonFields) -> list[TopicPartition]:
    return [_place(row) for row in body.objects("partitions", _PLACE, can_be_empty=True)]


def _reset_to(body: JsonFields) -> ResetTo:
    to = body["to"]
    if to in ("earliest", "latest"):
        return ResetTo(edge=to)
    if type(to) is dict and len(to) == 1:
        fields = JsonFields(to, ("timestamp", "shift", "offset"), "'to'")
        if "timestamp" in to:
            return ResetTo(timestamp_ms=fields.whole("timestamp", 0, INT64_MAX))
        if "shift" in to:
            return ResetTo(shift=fields.whole("shift", -INT64_MAX, INT64_MAX))
        return ResetTo(offset=fields.whole("offset", 0, INT64_MAX))
    raise HttpProblem(
        INVALID_JSON,
        '"to" has to be "earliest", "latest", {"timestamp": milliseconds}, {"shift": number} or {"offset": number}',
    )
