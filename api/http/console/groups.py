"""Handlers of the console's lists of consumer groups, their members and lags, and the preview of an offset reset."""

import asyncio
from collections.abc import Sequence
from typing import Final

from aiohttp import web

from raftlog.api.codes import BAD_REQUEST
from raftlog.api.http.console.paging import (
    AFTER,
    FILTER,
    LIMIT,
    PAGE_QUERY,
    RowKey,
    choose_sort,
    parse_page,
    select_page,
    sort_field,
)
from raftlog.api.http.console.recent_answer import RecentAnswer
from raftlog.api.http.groups.v3_shapes import list_assigned_partitions
from raftlog.api.http.openapi.parts import string
from raftlog.api.http.requests import RESET_EDGES
from raftlog.api.http.server.answers import value_answer
from raftlog.api.http.server.endpoint import HttpEndpoint, in_query
from raftlog.api.http.server.handlers import GroupAnswers, HandlerContext
from raftlog.api.http.server.permissions import (
    DESCRIBE_GROUP,
    LISTED_GROUPS,
    LISTED_TOPICS,
    READ_GROUP,
    TOPICS_READ,
    Visibility,
)
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.routing import Target, parse_integer, query_choice
from raftlog.errors import RaftlogError
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.groups.results import GroupListing, LagReport, MemberDescription, ResetTo
from raftlog.partitions.groups.states import ConsumerGroupState
from raftlog.types import Offset
from raftlog.values.console import ConsoleGroup, GroupPage, GroupRow, LagPage, LagRow, MemberRow, OwnedPartition
from raftlog.values.groups import OffsetsReset

_GROUP: Final = "/console/api/groups/{group}"
_SORTS: Final = ("name", "members")
_STATES: Final = [state.value for state in ConsumerGroupState if state is not ConsumerGroupState.DEAD]
_STATE: Final = in_query("state", string(enum=_STATES), "Only groups in this state.")
_TO: Final = in_query(
    "to",
    string(examples=["earliest"]),
    "`earliest`, `latest`, `timestamp:MILLISECONDS`, `shift:NUMBER` or `offset:NUMBER`.",
    is_required=True,
)
_TOPIC: Final = in_query("topic", string(minLength=1), "Only this topic.")
FRESH_S: Final = 2.0
"""Age up to which a list of all groups is used again."""
LIST_MS: Final = 5_000
LAGS_MS: Final = 600
"""Bound on the time to read the lags of a page; a group whose brokers answer later is shown without a lag."""
_LAGS_AT_ONCE: Final = 16
MEMBERS_MAX: Final = 200
"""Members in the description of a group."""
OWNED_MAX: Final = 100
"""Partitions of a member in the description of its group."""
_INT64_MAX: Final = (1 << 63) - 1


class ConsoleGroupHandlers(GroupAnswers):
    """Handlers of GET /console/api/groups, …/{group}, …/lags and …/reset."""

    kind = tag = "console"

    def __init__(self, context: HandlerContext) -> None:
        super().__init__(context)
        self._listings = RecentAnswer(lambda: self._broker.groups.listings(deadline=deadline_in(LIST_MS)), FRESH_S)

    @HttpEndpoint(
        "GET /console/api/groups",
        GroupPage,
        (choose_sort(*_SORTS), _STATE, *PAGE_QUERY),
        permissions=(*LISTED_GROUPS, *LISTED_TOPICS),
    )
    async def console_groups(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return a page of consumer groups with their lags."""
        field, is_descending = sort_field(target, *_SORTS)
        wanted, state = parse_page(target, is_descending=is_descending), query_choice(target, "state", _STATES, None)
        deadline, visible = target.deadline(), self._visibility(request)

        def key(row: GroupListing) -> RowKey:
            """Return the key by which the list is sorted; it is unique by the group's name."""
            return (row.group,) if field == "name" else (row.members, row.group)

        page = await select_page(
            await self._listings.get(),
            wanted,
            key,
            lambda row: visible.has_group(row.group),
            lambda row: state in (None, row.state) and wanted.has(row.group),
        )
        lags = await self._sum_lags([row.group for row in page.rows], visible, deadline)
        rows = [_row(row, lag) for row, lag in zip(page.rows, lags, strict=True)]
        return value_answer(GroupPage(groups=rows, **page.bounds))

    async def _sum_lags(self, groups: Sequence[str], visible: Visibility, deadline: Deadline) -> list[int | None]:
        """Return the summed lag of each group, in order; None if it is unknown or cannot be read in `LAGS_MS`."""
        until, limit = Deadline(min(deadline, deadline_in(LAGS_MS))), asyncio.Semaphore(_LAGS_AT_ONCE)

        async def sum_one(group: str) -> int | None:
            """Return the total lag of a group; None if it cannot be read."""
            async with limit:
                try:
                    return _sum(await self._read_lags(group, visible, until))
                except RaftlogError:
                    return None  # the row shows that it is not known

        return list(await asyncio.gather(*map(sum_one, groups)))

    async def _read_lags(self, group: str, visible: Visibility, deadline: Deadline) -> list[LagReport]:
        """Return the lags of a group in the topics that the caller may see."""
        lags = await self._broker.groups.lag(group, deadline=deadline)
        return [lag for lag in lags if visible.has_topic(lag.topic)]

    @HttpEndpoint(f"GET {_GROUP}", ConsoleGroup, permissions=(*DESCRIBE_GROUP, *LISTED_TOPICS))
    async def console_group(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return one consumer group with its members."""
        deadline, visible, group = target.deadline(), self._visibility(request), target.args[0]
        found = await self._broker.groups.describe(group, deadline=deadline)
        [lag] = await self._sum_lags([group], visible, deadline)
        listing = GroupListing(
            group,
            found.state,
            found.protocol_type,
            found.protocol,
            found.generation,
            len(found.members),
            found.coordinator,
        )
        return self._answer(
            group,
            ConsoleGroup(
                group=_row(listing, lag),
                is_simple=found.is_simple,
                leader=found.leader,
                member_count=len(found.members),
                members=[_member_row(each, visible) for each in found.members[:MEMBERS_MAX]],
            ),
        )

    @HttpEndpoint(
        f"GET {_GROUP}/lags",
        LagPage,
        (FILTER, AFTER, LIMIT, "timeout"),
        permissions=(*DESCRIBE_GROUP, *LISTED_TOPICS),
    )
    async def console_group_lags(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return a page of the lags of a consumer group, by partition; the filter is for topics."""
        wanted, visible, group = parse_page(target), self._visibility(request), target.args[0]
        lags = await self._read_lags(group, visible, target.deadline())
        page = await select_page(
            lags,
            wanted,
            lambda lag: (lag.topic, lag.partition),
            lambda _: True,
            lambda lag: wanted.has(lag.topic),
        )
        total = sum(max(0, lag.lag) for lag in lags)
        return self._answer(group, LagPage(lag=total, lags=list(map(_lag_row, page.rows)), **page.bounds))

    @HttpEndpoint(
        f"GET {_GROUP}/reset", OffsetsReset, (_TO, _TOPIC, "timeout"), permissions=(*READ_GROUP, *TOPICS_READ)
    )
    async def console_reset_preview(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the result that an offset reset of a consumer group would have; nothing is changed."""
        deadline, group = target.deadline(), target.args[0]
        to, topic = _parse_point(target.query.get("to", "")), target.query.get("topic")
        topics = [] if topic is None else [topic]
        named = topics
        if self._authorizer.is_on and not topics:  # all topics with committed offsets
            named = [place.topic for place in await self._broker.groups.committed(group, deadline=deadline)]
        self._authorize_read(request, named)
        found = await self._broker.groups.reset(group, to, topics=topics, dry_run=True, deadline=deadline)
        return value_answer(OffsetsReset(found, dry_run=True))


def _parse_point(text: str) -> ResetTo:
    """Parse the query parameter `to`, the target of an offset reset. Raises `HttpProblem` 400."""
    if text in RESET_EDGES:
        return ResetTo(edge=text)
    kind, colon, number = text.partition(":")
    what = f"the number in the query parameter 'to' ({kind!a:.20})"
    if colon and kind == "timestamp":
        return ResetTo(timestamp_ms=parse_integer(number, what, 0, _INT64_MAX))
    if colon and kind == "shift":
        return ResetTo(shift=parse_integer(number, what, -_INT64_MAX, _INT64_MAX))
    if colon and kind == "offset":
        return ResetTo(offset=Offset(parse_integer(number, what, 0, _INT64_MAX)))
    raise HttpProblem(
        BAD_REQUEST,
        f"the query parameter 'to' is {text!a:.60}; it can be earliest, latest, timestamp:MILLISECONDS, shift:NUMBER "
        "or offset:NUMBER",
    )


def _sum(lags: Sequence[LagReport]) -> int | None:
    """Return the sum of the lags; None if none of them is known."""
    known = [lag.lag for lag in lags if lag.lag >= 0]
    return sum(known) if known or not lags else None


def _row(listing: GroupListing, lag: int | None) -> GroupRow:
    """Return the row of a group in the list; `lag`: total lag, None if it is unknown."""
    return GroupRow(
        group=listing.group,
        state=listing.state,
        protocol_type=listing.protocol_type,
        protocol=listing.protocol,
        members=listing.members,
        generation=listing.generation,
        coordinator_id=listing.coordinator,
        lag=lag,
    )


def _member_row(member: MemberDescription, visible: Visibility) -> MemberRow:
    """Return the row of a group member, with the first of its partitions that the caller may see."""
    places = [place for place in list_assigned_partitions(member) if visible.has_topic(place[0])]
    return MemberRow(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        partition_count=len(places),
        partitions=[OwnedPartition(*place) for place in places[:OWNED_MAX]],
    )


def _lag_row(found: LagReport) -> LagRow:
    """Return the row of a partition with its lag and the member that owns it, if any."""
    member = found.member
    return LagRow(
        topic=found.topic,
        partition=found.partition,
        current_offset=found.current_offset,
        log_start_offset=found.log_start_offset,
        log_end_offset=found.log_end_offset,
        lag=found.lag,
        member_id=member.member_id if member else "",
        client_id=member.client_id if member else "",
    )
