"""Requests that wait: they end once their permission does, and only then."""

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import Any

import pytest

from raftlog.api.kafka.first_step import start
from raftlog.errors import TopicNotAuthorized
from raftlog.partitions.security.authorizer import Authorizer
from raftlog.partitions.security.permission_watch import _SLICE
from raftlog.security.permissions import AclOperation, AclResourceType
from tests.security.test_authorizer import ALICE, ORDERS, READ_ORDERS
from tests.waiting import until

READING = (ALICE, AclOperation.READ, AclResourceType.TOPIC, (ORDERS.name,))


@pytest.fixture
def authorizer() -> Authorizer:
    found = Authorizer(is_on=True)
    found.refresh([READ_ORDERS], [])
    return found


def revoke(authorizer: Authorizer) -> None:
    authorizer.update([], [READ_ORDERS], [])


async def wait_with(authorizer: Authorizer, work: Awaitable[Any], **options: Any) -> Any:
    async with authorizer.while_allowed(*READING, **options):
        return await work


async def test_a_waiting_request_ends_with_its_permission(authorizer: Authorizer) -> None:
    waiting = [asyncio.create_task(wait_with(authorizer, asyncio.Event().wait())) for _ in range(3)]
    await until(lambda: len(authorizer._watches) == 3)
    authorizer.update([READ_ORDERS._replace(resource_name="other")], [], [])
    await until(lambda: authorizer._watches._checking is None)
    assert not any(each.done() or each.cancelling() for each in waiting), "another change ends nothing"
    revoke(authorizer)
    for each in waiting:
        with pytest.raises(TopicNotAuthorized, match="alice may not READ"):
            await asyncio.wait_for(each, 1)
        assert each.cancelling() == 0
    assert len(authorizer._watches) == 0


async def test_the_permission_is_checked_before_the_wait(authorizer: Authorizer) -> None:
    revoke(authorizer)
    with pytest.raises(TopicNotAuthorized):
        await wait_with(authorizer, asyncio.get_running_loop().create_future())
    assert await wait_with(authorizer, asyncio.sleep(0, "done"), is_checked=True) == "done"
    authorizer.is_on = False
    assert await wait_with(authorizer, asyncio.sleep(0, "off")) == "off"


async def test_a_result_of_the_same_moment_is_not_returned(authorizer: Authorizer) -> None:
    result: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(wait_with(authorizer, result))
    await until(lambda: len(authorizer._watches) == 1)
    revoke(authorizer)
    await asyncio.sleep(0)
    result.cancel() if result.done() else result.set_result("secret")
    with pytest.raises(TopicNotAuthorized):
        await waiting


async def test_work_that_ignores_its_cancellation_has_no_result(authorizer: Authorizer) -> None:
    async def work() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "secret"

    waiting = asyncio.create_task(wait_with(authorizer, work()))
    await until(lambda: len(authorizer._watches) == 1)
    revoke(authorizer)
    with pytest.raises(TopicNotAuthorized):
        await waiting


async def test_a_cancellation_from_elsewhere_stays_one(authorizer: Authorizer) -> None:
    waiting = asyncio.create_task(wait_with(authorizer, asyncio.Event().wait()))
    await until(lambda: len(authorizer._watches) == 1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert len(authorizer._watches) == 0


async def test_errors_of_the_work_are_raised(authorizer: Authorizer) -> None:
    async def fail() -> None:
        raise ValueError("of the work")

    with pytest.raises(ValueError, match="of the work"):
        await wait_with(authorizer, fail())


async def test_a_request_without_a_task_of_its_own_ends_too(authorizer: Authorizer) -> None:
    """Kafka's handlers run their first step without a task."""
    ended: list[BaseException] = []

    async def handle() -> None:
        try:
            await wait_with(authorizer, asyncio.Event().wait())
        except TopicNotAuthorized as error:
            ended.append(error)

    task = start(handle(), asyncio.get_running_loop())
    assert task is not None
    revoke(authorizer)
    await asyncio.wait_for(task, 1)
    assert len(ended) == 1


async def test_many_requests_are_checked_in_slices(authorizer: Authorizer) -> None:
    waiting = [asyncio.create_task(wait_with(authorizer, asyncio.Event().wait())) for _ in range(2 * _SLICE)]
    await until(lambda: len(authorizer._watches) == 2 * _SLICE)
    revoke(authorizer)
    turns = 0
    while authorizer._watches._checking is not None:
        turns += 1
        await asyncio.sleep(0)
    assert turns > 3
    done = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(each) for each in done} == {TopicNotAuthorized}


async def test_a_check_ends_with_the_broker(authorizer: Authorizer) -> None:
    waiting = asyncio.create_task(wait_with(authorizer, asyncio.Event().wait()))
    await until(lambda: len(authorizer._watches) == 1)
    revoke(authorizer)
    checking = authorizer._watches._checking
    assert checking is not None
    authorizer.close()
    await asyncio.wait([checking])
    assert checking.cancelled()
    assert not waiting.done()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
