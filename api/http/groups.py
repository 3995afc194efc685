"""Committed offsets of groups: a plain durable store whose watermarks only rise."""

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from raftlog.api.codes import EMPTY_REQUEST, INVALID_JSON
from raftlog.api.http.answers import json_answer
from raftlog.api.http.bodies import BodyReader
from raftlog.api.http.problems import HttpProblem
from raftlog.api.http.records_produce import LEADER_HEADER, timeout_ms
from raftlog.api.http.routing import Router, Target
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import deadline_in
from raftlog.types import Offset, TopicPartition


class GroupHandlers:
    """GET /groups, GET and POST /groups/{group}/offsets."""

    def __init__(self, broker: Broker, bodies: BodyReader) -> None:
        self._broker = broker
        self._bodies = bodies

    def add_to(self, router: Router) -> None:
        router.add("GET", "/groups", self.groups)
        router.add("GET", "/groups/{group}/offsets", self.committed)
        router.add("POST", "/groups/{group}/offsets", self.commit)

    async def groups(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        return json_answer({"groups": await self._broker.groups(deadline=deadline_in(timeout_ms(target)))})

    async def committed(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """A group that never committed has no offsets; that is no error."""
        group = target.args[0]
        return self._answer(
            group, await self._broker.committed_offsets(group, deadline=deadline_in(timeout_ms(target)))
        )

    async def commit(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """`{"offsets": [{"topic", "partition", "offset"}]}`; answers with the group's watermarks as they are now."""
        offsets = _parse((await self._bodies.json_object(request)).get("offsets"))
        group = target.args[0]
        deadline = deadline_in(timeout_ms(target))
        return self._answer(group, await self._broker.commit_offsets(group, offsets, deadline=deadline))

    def _answer(self, group: str, committed: Mapping[TopicPartition, Offset]) -> web.Response:
        response = json_answer(
            {
                "offsets": [
                    {"topic": topic, "partition": partition, "offset": offset}
                    for (topic, partition), offset in sorted(committed.items())
                ]
            }
        )
        leader = self._broker.group_leader_address(group)
        if leader is not None:
            response.headers[LEADER_HEADER] = leader
        return response


def _parse(entries: Any) -> dict[TopicPartition, Offset]:
    if type(entries) is not list:
        raise HttpProblem(INVALID_JSON, 'the body has no list "offsets"')
    if not entries:
        raise HttpProblem(EMPTY_REQUEST, 'the list "offsets" is empty')
    offsets: dict[TopicPartition, Offset] = {}
    for entry in entries:
        values = (entry.get("topic"), entry.get("partition"), entry.get("offset")) if type(entry) is dict else ()
        if [type(value) for value in values] != [str, int, int]:
            raise HttpProblem(
                INVALID_JSON, 'every entry of "offsets" is an object with a topic (string), a partition and an offset'
            )
        key = TopicPartition(entry["topic"], entry["partition"])
        offset = Offset(entry["offset"])
        offsets[key] = max(offset, offsets.get(key, offset))
    return offsets
