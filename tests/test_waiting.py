"""The waits of the tests return what they waited for, and fail with their text."""

import asyncio
import itertools

import pytest

from tests.waiting import block_until, until, until_async


async def test_the_value_of_the_condition_is_returned() -> None:
    numbers = itertools.count()
    assert await until(lambda: next(numbers)) == 1

    async def read() -> int:
        return next(numbers)

    assert await until_async(read) == 2
    numbers = itertools.count()
    assert block_until(lambda: next(numbers)) == 1


async def test_a_condition_that_does_not_hold_fails_with_its_text() -> None:
    with pytest.raises(AssertionError, match=r"within 0.01 s: \[0\]"):
        await until(lambda: False, lambda: [0], within_s=0.01)
    with pytest.raises(AssertionError, match=r"within 0.01 s: \[0\]"):
        await until_async(asyncio.Event().wait, lambda: [0], within_s=0.01)
    with pytest.raises(AssertionError, match=r"within 0.01 s: \[0\]"):
        block_until(lambda: False, lambda: [0], within_s=0.01)


async def test_a_timeout_of_the_condition_itself_is_raised() -> None:
    async def fail() -> object:
        raise TimeoutError("of a request")

    with pytest.raises(TimeoutError, match="of a request"):
        await until_async(fail)
