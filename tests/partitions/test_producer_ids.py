"""Producer ids of a broker that has just started."""

import asyncio

import pytest

from raftlog.errors import IdentityRefused, Overloaded, Unavailable
from raftlog.partitions.deadline import deadline_in


async def test_allocation_waits_until_the_start_is_registered_or_can_be_retried(open_broker):
    broker = await open_broker()
    broker.metadata.is_ready = False
    waiting = asyncio.ensure_future(broker.producers.allocate(deadline_in(30_000)))
    await asyncio.sleep(0)
    assert not waiting.done()
    broker.metadata.is_ready = True
    assert (await waiting).producer_id == 0

    async def refuse(command, deadline):
        raise IdentityRefused("broker 1 runs with boot epoch 1, not 2")

    broker.metadata.submit = refuse
    broker.producers._next = broker.producers._end
    with pytest.raises(Unavailable, match="; retry"):
        await broker.producers.allocate(deadline_in(5_000))


async def test_a_broker_without_its_controller_asks_to_use_another_broker(open_broker):
    broker = await open_broker()

    async def wait(command, deadline):
        await asyncio.get_running_loop().create_future()

    broker.metadata.submit = wait
    with pytest.raises(Unavailable, match="use another broker") as refused:
        await broker.producers.allocate(deadline_in(1))
    assert not isinstance(refused.value, Overloaded), "clients would repeat the request at this broker"


async def test_ids_are_unique_when_blocks_end(open_broker):
    broker = await open_broker()
    blocks = iter((1_000, 5_000, 3_000))

    async def block(command, deadline):
        return next(blocks)

    broker.metadata.submit = block
    given = [(await broker.producers.allocate(deadline_in(30_000))).producer_id for _ in range(2_001)]
    assert given == [*range(1_000, 2_000), *range(5_000, 6_000), 3_000]


async def test_a_fresh_id_is_above_all_ids_allocated_before_the_call(open_broker):
    broker = await open_broker()
    blocks = iter((1_000, 5_000, 9_000))

    async def block(command, deadline):
        return next(blocks)

    broker.metadata.submit = block
    producers = broker.producers

    async def given(**how) -> int:
        return (await producers.allocate(deadline_in(30_000), **how)).producer_id

    assert [await given(), await given(is_fresh=True), await given()] == [1_000, 5_000, 5_001]
    broker.metadata.is_ready = False
    asked = [asyncio.ensure_future(given(is_fresh=True)) for _ in range(2)]
    await asyncio.sleep(0)
    broker.metadata.is_ready = True
    assert await asyncio.gather(*asked) == [9_000, 9_001], "both were asked for before the block was"
