"""Coroutines that run their first step without a task."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from raftlog.api.kafka.first_step import start


def begin(work: Coroutine[Any, Any, None]) -> "asyncio.Task[None] | None":
    return start(work, asyncio.get_running_loop())


async def test_a_coroutine_that_does_not_wait_needs_no_task() -> None:
    seen: list[object] = []

    async def work() -> None:
        seen.append(asyncio.current_task())

    outer = asyncio.current_task()
    assert begin(work()) is None
    assert len(seen) == 1
    assert seen[0] is not outer
    assert asyncio.current_task() is outer


async def test_results_and_errors_are_delivered_to_the_waiter() -> None:
    futures = [asyncio.get_running_loop().create_future() for _ in range(4)]
    seen: list[object] = []

    async def work() -> None:
        for future in futures:
            try:
                seen.append(await future)
            except KeyError as error:
                seen.append(error)

    task = begin(work())
    assert task is not None
    futures[0].set_exception(failed := KeyError("x"))
    await asyncio.sleep(0)
    futures[1].set_result(1)
    futures[2].set_exception(failed)
    futures[3].set_result(3)
    await task
    assert seen == [failed, 1, failed, 3]


@pytest.mark.parametrize("is_raised", [False, True])
async def test_a_coroutine_ends_with_the_first_error(is_raised: bool) -> None:
    future = asyncio.get_running_loop().create_future()

    async def work() -> None:
        try:
            await future
        except KeyError:
            if is_raised:
                raise

    task = begin(work())
    assert task is not None
    future.set_exception(KeyError())
    if is_raised:
        with pytest.raises(KeyError):
            await task
    else:
        await task


async def test_an_error_of_the_first_step_is_raised_at_once() -> None:
    async def work() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        begin(work())
    assert asyncio.current_task() is not None


@pytest.mark.parametrize("timeout_s", [0.001, 0])
async def test_a_timeout_of_the_first_step_cancels_the_task(timeout_s: float) -> None:
    ends: list[str] = []

    async def work() -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.get_running_loop().create_future()
        except TimeoutError:
            ends.append("time is up")
        await asyncio.sleep(0)
        ends.append("went on")

    task = begin(work())
    assert task is not None
    await task
    assert ends == ["time is up", "went on"]
    assert task.cancelling() == 0


async def test_a_task_group_of_the_first_step_ends_with_its_error() -> None:
    async def fail() -> None:
        raise KeyError

    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            await asyncio.get_running_loop().create_future()

    task = begin(work())
    assert task is not None
    with pytest.raises(ExceptionGroup):
        await task


@pytest.mark.parametrize("has_begun", [True, False])
async def test_a_cancelled_task_cancels_the_coroutine(has_begun: bool) -> None:
    ends: list[str] = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ends.append("ended")

    task = begin(work())
    assert task is not None
    if has_begun:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ends == ["ended"]


async def test_a_first_step_that_cancels_itself_raises_at_the_waiter() -> None:
    async def work() -> None:
        current = asyncio.current_task()
        assert current is not None
        assert not current.done()
        assert current.get_name()
        current.cancel()
        current.cancel()
        assert current.cancelling() == 2
        assert current.uncancel() == 1
        await asyncio.get_running_loop().create_future()

    task = begin(work())
    assert task is not None
    with pytest.raises(asyncio.CancelledError):
        await task
