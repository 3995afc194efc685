"""`Commits` alone: one commit in flight at a time, each reduced to the offsets that are not committed yet."""

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from raftlog.client.consumers.commits import Commits
from raftlog.errors import Unavailable
from raftlog.types import Offset, TopicPartition

PLACE = TopicPartition("orders", 0)


class Coordinator:
    """Coordinator that records commits; each waits until the test answers it."""

    def __init__(self) -> None:
        self.arrived: list[Mapping[TopicPartition, Offset]] = []
        self.answers: list[asyncio.Future[None]] = []

    async def commit(self, group: str, offsets: Mapping[TopicPartition, Offset], member: object) -> None:
        self.arrived.append(dict(offsets))
        self.answers.append(asyncio.get_running_loop().create_future())
        await self.answers[-1]


async def run_pending_tasks() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_commit_is_sent_after_the_answer_to_the_one_before() -> None:
    """Otherwise the second commit could overtake the first, and the offsets of the group would fall."""
    coordinator = Coordinator()
    client: Any = SimpleNamespace(groups=coordinator)
    commits = Commits(client, "g", dict)
    first = asyncio.create_task(commits.commit({PLACE: Offset(5)}))
    second = asyncio.create_task(commits.commit({PLACE: Offset(9)}))
    same = asyncio.create_task(commits.commit({PLACE: Offset(9)}))
    await run_pending_tasks()
    assert coordinator.arrived == [{PLACE: 5}]
    coordinator.answers[0].set_exception(Unavailable("no coordinator"))
    await run_pending_tasks()
    assert coordinator.arrived == [{PLACE: 5}, {PLACE: 9}]
    coordinator.answers[1].set_result(None)
    await asyncio.gather(second, same)
    assert coordinator.arrived == [{PLACE: 5}, {PLACE: 9}], "the third has nothing more to commit"
    with pytest.raises(Unavailable):
        await first
