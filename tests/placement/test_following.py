"""Loop that follows the controller's assignments: errors end it only with its node."""

import asyncio
from typing import Any

import pytest

from raftlog.errors import Unavailable
from raftlog.partitions.placement.assignments.assignments import Assignments
from tests.waiting import until


class FakeNode:
    """Node whose groups have not begun, as at a start without other nodes."""

    is_working = False

    def __init__(self, *, has_failed: bool) -> None:
        self.has_failed = has_failed
        self.loop = asyncio.get_running_loop()

    async def pause(self, until: float) -> None:
        await asyncio.sleep(0)


class FailingOnce(Assignments):
    """Loop whose first comparison with the controller's state fails."""

    followed = 0

    async def _follow(self) -> bool:
        self.followed += 1
        if self.followed == 1:
            raise Unavailable("the controller did not confirm its state in time")
        return True


@pytest.mark.parametrize("has_failed", [False, True])
async def test_an_error_before_the_groups_begin_does_not_end_the_loop(has_failed: bool) -> None:
    nothing: Any = None
    assignments = FailingOnce(FakeNode(has_failed=has_failed), nothing, nothing, nothing, 1)  # type: ignore[arg-type]
    running = asyncio.create_task(assignments._run())
    assignments._changed.set()
    await until(lambda: assignments.is_settled or running.done())
    assert (assignments.is_settled, running.done()) == (not has_failed, has_failed)
    running.cancel()
