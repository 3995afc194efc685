"""Handlers of the console's lists of topics and of the partitions of a topic."""

from typing import Final

from aiohttp import web

from raftlog.api.http.admin.partitions import describe_replica
from raftlog.api.http.console.paging import (
    AFTER,
    LIMIT,
    PAGE_QUERY,
    RowKey,
    choose_sort,
    parse_page,
    select_page,
    sort_field,
)
from raftlog.api.http.openapi.parts import BOOLEAN, string
from raftlog.api.http.server.answers import value_answer
from raftlog.api.http.server.connection import caller_of
from raftlog.api.http.server.endpoint import HttpEndpoint, in_query
from raftlog.api.http.server.handlers import Handlers
from raftlog.api.http.server.permissions import DESCRIBE_TOPIC, LISTED_TOPICS
from raftlog.api.http.server.routing import Target, flag, query_choice
from raftlog.partitions.operations.topic_listing import TopicOutline, TopicSums, count_offsets, sum_partitions
from raftlog.partitions.results import PartitionState
from raftlog.security.permissions import AclOperation, AclResourceType, Resource
from raftlog.values.console import ConfigRow, ConsoleTopic, ListedTopic, PartitionPage, PartitionRow, TopicPage
from raftlog.values.value import leader_number

_TOPIC: Final = "/console/api/topics/{topic}"
_SORTS: Final = ("name", "partitions")
_INTERNAL: Final = in_query("internal", BOOLEAN | {"default": False}, "Include internal topics.")
ALL: Final = "all"
PROBLEMS: Final = "problems"
_ONLY: Final = in_query(
    "only", string(enum=[ALL, PROBLEMS], default=ALL), "`problems`: only those without leader, replica or health."
)
_DESCRIBED_AT_ONCE: Final = 1_000
"""Partitions that are described at a time in the search for those with problems."""


class ConsoleTopicHandlers(Handlers):
    """Handlers of GET /console/api/topics, …/{topic} and …/{topic}/partitions."""

    kind = tag = "console"

    @HttpEndpoint(
        "GET /console/api/topics", TopicPage, (choose_sort(*_SORTS), _INTERNAL, *PAGE_QUERY), permissions=LISTED_TOPICS
    )
    async def console_topics(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return a page of topics, with records and sizes as the leaders of their partitions report them."""
        field, is_descending = sort_field(target, *_SORTS)
        wanted, with_internal = parse_page(target, is_descending=is_descending), flag(target, "internal")
        deadline, visible = target.deadline(), self._visibility(request)

        def key(row: TopicOutline) -> RowKey:
            """Return the key by which the list is sorted; it is unique by the topic's name."""
            return (row.name,) if field == "name" else (row.partitions, row.name)

        page = await select_page(
            self._broker.operations.topics.outlines(),
            wanted,
            key,
            lambda row: (with_internal or not row.is_internal) and visible.has_topic(row.name),
            lambda row: wanted.has(row.name),
        )
        names = [row.name for row in page.rows]
        sums = await self._broker.operations.topics.sums(names, deadline=deadline) if names else {}
        return value_answer(TopicPage(topics=[_row(each, sums.get(each.name)) for each in page.rows], **page.bounds))

    @HttpEndpoint(f"GET {_TOPIC}", ConsoleTopic, permissions=DESCRIBE_TOPIC)
    async def console_topic(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return one topic with its settings."""
        deadline, name = target.deadline(), target.args[0]
        outline = await self._broker.operations.topics.outline(name, deadline=deadline)
        described = await self._broker.describe_topic(name, deadline=deadline)
        topic = Resource(AclResourceType.TOPIC, name)
        is_shown = self._authorizer.allows(caller_of(request), AclOperation.DESCRIBE_CONFIGS, topic)
        configs = [
            ConfigRow(key, value, key not in described.overrides) for key, value in sorted(described.config.items())
        ]
        row = _row(outline, sum_partitions(described.partitions))
        return value_answer(ConsoleTopic(row, configs if is_shown else None))

    @HttpEndpoint(
        f"GET {_TOPIC}/partitions", PartitionPage, (_ONLY, AFTER, LIMIT, "timeout"), permissions=DESCRIBE_TOPIC
    )
    async def console_partitions(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return a page of the partitions of a topic, as their leaders report them."""
        wanted, deadline, name = parse_page(target), target.deadline(), target.args[0]
        only = query_choice(target, "only", (ALL, PROBLEMS), ALL)
        listing = self._broker.operations.topics
        outline = await listing.outline(name, deadline=deadline)
        page = await select_page(
            range(outline.partitions), wanted, lambda number: (number,), lambda _: True, lambda _: True
        )
        if only == ALL:
            found = []
            if page.rows:
                found = await listing.partitions(name, page.rows[0], len(page.rows), deadline=deadline)
        else:
            problems: list[PartitionState] = []
            for first in range(0, outline.partitions, _DESCRIBED_AT_ONCE):
                some = await listing.partitions(name, first, _DESCRIBED_AT_ONCE, deadline=deadline)
                problems += filter(has_problem, some)
            page_of = await select_page(
                problems, wanted, lambda each: (each.partition,), lambda _: True, lambda _: True
            )
            found, page = page_of.rows, page._replace(matching=page_of.matching, next=page_of.next)
        rows = [_partition_row(each, outline.has_dense_offsets) for each in found]
        return value_answer(PartitionPage(partitions=rows, **page.bounds))


def has_problem(state: PartitionState) -> bool:
    """Return whether a partition lacks a leader or a replica in sync, or reports a problem."""
    return state.leader is None or state.problem is not None or len(state.in_sync) < len(state.replicas)


def _row(outline: TopicOutline, sums: TopicSums | None) -> ListedTopic:
    """Return the row of a topic in the list; `sums`: figures over its partitions, None if they are unknown."""
    return ListedTopic(
        name=outline.name,
        topic_id=outline.topic_id,
        partitions=outline.partitions,
        replication_factor=outline.replication_factor,
        is_internal=outline.is_internal,
        created_ms=outline.created_ms,
        records=sums.records if sums else None,
        is_records_exact=outline.has_dense_offsets,
        bytes=sums.bytes if sums else None,
        leaderless=sums.leaderless if sums else None,
        under_replicated=sums.under_replicated if sums else None,
        problem=sums.problem if sums else None,
    )


def _partition_row(state: PartitionState, has_dense_offsets: bool) -> PartitionRow:
    """Return the row of a partition; the number of records is exact only if offsets are dense."""
    return PartitionRow(
        partition=state.partition,
        leader_id=leader_number(state.leader),
        leader_epoch=state.leader_epoch,
        log_start_offset=state.log_start_offset,
        high_watermark=state.high_watermark,
        records=count_offsets(state),
        is_records_exact=has_dense_offsets,
        bytes=state.size_bytes,
        replicas=[describe_replica(node, state) for node in state.replicas],
        problem=state.problem,
        version=state.version,
    )
