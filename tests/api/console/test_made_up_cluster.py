"""Lists of the console over a made-up cluster of 10,000 topics, 100,000 partitions and 10,000 groups.

Routes, permissions, paging and the parts below them are those of a broker; only the controller's state and the reports
of leaders are made up. Each request asks for the rows of its page only, and its answer is small."""

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

import pytest

from raftlog.api.http.console import paging
from raftlog.partitions.controller.machine import ControllerState
from raftlog.partitions.controller.machine.commands import CreateTopic
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.groups.results import GroupListing, LagReport
from raftlog.partitions.operations.topic_listing import SUMMED_MAX, TopicListing, TopicOutline
from raftlog.partitions.results import PartitionState, TopicState
from raftlog.partitions.routing.finder import Finder
from raftlog.partitions.routing.partition import Partition
from raftlog.partitions.routing.topics import Topic, Topics
from raftlog.runtime import slices
from raftlog.types import Offset
from tests.loop_hold import LoopTurns
from tests.placement.balancing.cluster import Controller, replica

TOPICS = 10_000
PARTITIONS = 10
GROUPS = 10_000
WIDE = "wide"
"""Topic with so many partitions that its leaders are not asked for a list."""
WIDE_PARTITIONS = SUMMED_MAX + 1
ANSWER_BYTES_MAX = 100_000
MADE: list[Topics] = []
"""Topics of the made-up state, which all tests read."""


class MadeUpReports:
    """Reports of leaders that do not exist; counts the partitions that were asked for."""

    def __init__(self) -> None:
        self.asked = 0

    async def describe(self, topics: Sequence[Topic], deadline: Deadline) -> list[TopicState]:
        return [
            TopicState(topic.name, str(topic.row.topic_id), 3, {}, {}, 0, False, self._states(topic.partitions))
            for topic in topics
        ]

    async def describe_partitions(
        self, topic: Topic, partitions: Sequence[Partition], deadline: Deadline
    ) -> list[PartitionState]:
        return self._states(partitions)

    def _states(self, partitions: Sequence[Partition]) -> list[PartitionState]:
        self.asked += len(partitions)
        return [
            PartitionState(
                each.number, 1, [1, 2, 3], [1, 2, 3], None, 5, Offset(10), Offset(4), (), {}, 1, (1, 2, 3), 1_000
            )
            for each in partitions
        ]


@pytest.fixture(scope="module")
def state() -> ControllerState:
    """Return a controller's state with all topics, made by its own commands."""
    controller = Controller(3)
    placed = tuple(map(replica, (1, 2, 3)))
    counts = {f"topic-{number:05}": PARTITIONS for number in range(TOPICS)} | {WIDE: WIDE_PARTITIONS}
    for number, (name, count) in enumerate(counts.items(), 100):
        controller.apply(CreateTopic(name, UUID(int=number << 64), (placed,) * count, (), 5_000))
    return controller.state


@pytest.fixture
async def large(api: Any, state: ControllerState) -> Any:
    """Serve the made-up state; the reports are `api.reports`."""
    if not MADE:
        MADE.append(Topics(api.broker.parts.shared))
        MADE[0].refresh(state)
    [topics] = MADE
    api.reports = MadeUpReports()
    finder = Finder(topics, api.broker.metadata, api.broker.parts.router)
    api.broker.operations.topics = TopicListing(topics, finder, api.reports, api.broker.check_ready)
    return api


async def get(api: Any, path: str) -> Any:
    async with api.session.get(f"{api.url}/console/api/{path}") as response:
        body = await response.read()
        assert response.status == 200, body
        assert len(body) <= ANSWER_BYTES_MAX, f"{path} has {len(body)} bytes"
        return await response.json()


async def test_a_page_of_topics_asks_for_its_own_partitions_only(large) -> None:
    page = await get(large, "topics?limit=50")
    assert (page["total"], page["matching"], len(page["topics"])) == (TOPICS + 1, TOPICS + 1, 50)
    assert large.reports.asked == 50 * PARTITIONS
    assert page["topics"][0]["records"] == PARTITIONS * 6
    assert page["topics"][0]["bytes"] == PARTITIONS * 1_000
    found = await get(large, "topics?filter=-0999&limit=50")
    assert [each["name"] for each in found["topics"]] == [f"topic-0999{digit}" for digit in range(10)]
    last = await get(large, "topics?sort=-name&limit=2&filter=topic")
    assert [each["name"] for each in last["topics"]] == ["topic-09999", "topic-09998"]


async def test_all_pages_have_all_topics(large) -> None:
    names, after = [], ""
    while after is not None:
        page = await get(large, f"topics?limit=200&filter=topic&after={after}")
        names += [each["name"] for each in page["topics"]]
        after = page["next"]
    assert names == [f"topic-{number:05}" for number in range(TOPICS)]
    assert large.reports.asked == TOPICS * PARTITIONS


async def test_a_topic_with_very_many_partitions_has_no_sums_in_the_list(large) -> None:
    page = await get(large, "topics?sort=-partitions&limit=2")
    wide, other = page["topics"]
    assert (wide["name"], wide["partitions"], wide["records"]) == (WIDE, WIDE_PARTITIONS, None)
    assert other["records"] == PARTITIONS * 6
    assert large.reports.asked == PARTITIONS


async def test_a_page_of_partitions_asks_for_them_only(large) -> None:
    page = await get(large, f"topics/{WIDE}/partitions?limit=100")
    assert (len(page["partitions"]), page["total"], large.reports.asked) == (100, WIDE_PARTITIONS, 100)
    second = await get(large, f"topics/{WIDE}/partitions?limit=100&after={page['next']}")
    assert second["partitions"][0]["partition"] == 100
    large.reports.asked = 0
    problems = await get(large, f"topics/{WIDE}/partitions?only=problems")
    assert (problems["partitions"], problems["matching"], large.reports.asked) == ([], 0, WIDE_PARTITIONS)


async def test_a_page_of_groups_reads_their_lags_only(large, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = large.broker.groups
    listed: list[int] = []
    read: list[str] = []

    async def listings(*, deadline: Deadline) -> list[GroupListing]:
        listed.append(GROUPS)
        return [GroupListing(f"group-{number:05}", "Empty", "consumer", "", 1, 0, 1) for number in range(GROUPS)]

    async def lag(group: str, *, deadline: Deadline) -> list[LagReport]:
        read.append(group)
        return [LagReport("t", 0, 4, 0, 10, 6, None)]

    monkeypatch.setattr(groups, "listings", listings)
    monkeypatch.setattr(groups, "lag", lag)
    page = await get(large, "groups?limit=50")
    assert (page["total"], len(page["groups"]), page["groups"][0]["lag"]) == (GROUPS, 50, 6)
    second = await get(large, f"groups?limit=50&after={page['next']}")
    assert second["groups"][0]["group"] == "group-00050"
    assert len(read) == 100
    assert listed == [GROUPS]


async def test_a_page_does_not_hold_the_loop(large, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tasks run while a request goes through all topics, after each slice of the rows."""
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    listing = large.broker.operations.topics
    list_all = listing.outlines
    seen: list[int] = []

    async with LoopTurns() as turns:

        def outlines() -> Iterator[TopicOutline]:
            for outline in list_all():
                seen.append(turns.count)
                yield outline

        monkeypatch.setattr(listing, "outlines", outlines)
        await get(large, "topics?filter=no-topic-has-this")
    assert len(seen) > TOPICS
    assert seen[-1] - seen[0] >= TOPICS // paging._SLICE - 1
