"""Bytes in flight are bounded; requests without room wait in order."""

import asyncio

import pytest

from raftlog.errors import Overloaded
from raftlog.partitions.budget import Budget
from raftlog.partitions.deadline import NEVER, deadline_in


async def test_waiting_requests_are_served_in_order():
    budget = Budget(10, "b")
    await budget.take(10, NEVER)
    order = []

    async def take(name, size):
        await budget.take(size, NEVER)
        order.append(name)

    waiting = [asyncio.create_task(take("big", 8)), asyncio.create_task(take("small", 1))]
    await asyncio.sleep(0)
    assert not budget.try_take(1), "a newcomer does not overtake those in line"
    budget.release(10)
    await asyncio.gather(*waiting)
    assert order == ["big", "small"]
    assert budget.used == 9


async def test_a_request_above_the_limit_is_admitted_alone():
    budget = Budget(10, "b")
    assert budget.try_take(50)
    assert not budget.try_take(1)


async def test_the_deadline_ends_a_wait_and_the_next_waiter_is_served():
    budget = Budget(10, "b")
    await budget.take(5, NEVER)
    too_big = asyncio.create_task(budget.take(6, deadline_in(1)))
    await asyncio.sleep(0)
    fits = asyncio.create_task(budget.take(5, NEVER))
    with pytest.raises(Overloaded, match="5 of 10 bytes"):
        await too_big
    await fits
    assert budget.used == 10


async def test_a_cancelled_waiter_leaves_the_queue():
    budget = Budget(10, "b")
    await budget.take(10, NEVER)
    gone = asyncio.create_task(budget.take(10, NEVER))
    stays = asyncio.create_task(budget.take(1, NEVER))
    await asyncio.sleep(0)
    gone.cancel()
    budget.release(10)
    await stays
    assert budget.used == 1


async def test_a_waiter_cancelled_when_served_returns_its_bytes():
    budget = Budget(10, "b")
    await budget.take(10, NEVER)
    gone = asyncio.create_task(budget.take(10, NEVER))
    await asyncio.sleep(0)
    budget.release(10)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert budget.used == 0
