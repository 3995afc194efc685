"""`Commits` alone: one commit at a time, each against what the one before has left."""

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
    """Commits as they arrive; each waits for its answer."""

    def __init__(self) -> None:
        self.arrived: list[Mapping[TopicPartition, Offset]] = []
        self.answers: list[asyncio.Future[None]] = []

    async def commit(self, group: str, offsets: Mapping[TopicPartition, Offset], member: object) -> None:
        self.arrived.append(dict(offsets))
        self.answers.append(asyncio.get_running_loop().create_future())
        await self.answers[-1]


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_commit_leaves_when_the_one_before_has_its_answer() -> None:
    """On the way the second could overtake the first, and the group would go back."""
    coordinator = Coordinator()
    client: Any = SimpleNamespace(groups=coordinator)
    commits = Commits(client, "g", dict)
    first = asyncio.create_task(commits.commit({PLACE: Offset(5)}))
    second = asyncio.create_task(commits.commit({PLACE: Offset(9)}))
    same = asyncio.create_task(commits.commit({PLACE: Offset(9)}))
    await turns()
    assert coordinator.arrived == [{PLACE: 5}]
    coordinator.answers[0].set_exception(Unavailable("no coordinator"))
    await turns()
    assert coordinator.arrived == [{PLACE: 5}, {PLACE: 9}]
    coordinator.answers[1].set_result(None)
    await asyncio.gather(second, same)
    assert coordinator.arrived == [{PLACE: 5}, {PLACE: 9}], "the third has nothing more to commit"
    with pytest.raises(Unavailable):
        await first
