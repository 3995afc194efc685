"""Requests without an answer are logged after a second, once per address, except requests that wait on purpose."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from jepsen.simulation import VirtualLoop
from raftlog.client import slow_answers
from raftlog.client.broker import BrokerClient
from raftlog.client.slow_answers import SlowAnswers
from raftlog.errors import Unavailable
from tests.waiting import until

Scripted = Callable[[Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]], Awaitable[str]]


@pytest.fixture
def warn_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_answers, "WARN_AFTER_S", 0.05)


def list_warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


async def wait_for_warning(caplog: pytest.LogCaptureFixture) -> None:
    await until(lambda: list_warnings(caplog))


async def test_a_broker_that_does_not_answer_is_named(
    warn_quickly: None, scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    released = asyncio.Event()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        await released.wait()
        return web.json_response({"message": "not now"}, status=503)

    address = await scripted(answer)
    async with BrokerClient(address) as client:
        asking = asyncio.ensure_future(client.topics())
        await wait_for_warning(caplog)
        released.set()
        with pytest.raises(Unavailable):
            await asking
    assert list_warnings(caplog) == [f"{address}: no answer to GET /topics after 0.05 s, waiting for up to 15 s"]


def test_an_address_is_named_again_after_it_answered(caplog: pytest.LogCaptureFixture) -> None:
    slow = SlowAnswers()

    async def wait(count: int) -> None:
        with slow.watch("a:1", "GET /x", 5.0, 0.0):
            await asyncio.sleep(slow_answers.WARN_AFTER_S + 0.001)
        assert len(list_warnings(caplog)) == count

    async def run() -> None:
        await wait(1)
        slow.record_status("a:1", 503)
        await wait(1)
        slow.record_status("a:1", 200)
        await wait(2)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(run())


async def test_an_intended_wait_is_not_logged(
    warn_quickly: None, scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    """Intended waits: a fetch at the end of a partition, a waiting heartbeat, a join held until others have joined.

    The first warning about the address is about a later request, which has no such wait."""
    arrived, released = asyncio.Event(), asyncio.Event()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        arrived.set()
        await released.wait()
        if request.path == "/topics":
            return web.json_response([])
        return web.json_response({"message": "not now"}, status=503)

    async with BrokerClient(await scripted(answer)) as client:
        membership: Any = type("Membership", (), {"_asdict": lambda self: {}})()
        for request in (
            client.fetch_batches("t", 0, 0, timeout_ms=1_000),
            client.groups.heartbeat("g", membership, wait_ms=1_000),
            client.groups.join("g", {"range": b""}),
            client.groups.sync("g", membership),
        ):
            waiting = asyncio.ensure_future(request)
            await arrived.wait()
            later = asyncio.ensure_future(client.topics())
            await wait_for_warning(caplog)
            released.set()
            with pytest.raises(Unavailable):
                await waiting
            assert await later == []
            [warning] = list_warnings(caplog)
            assert "no answer to GET /topics after" in warning
            caplog.clear()
            arrived.clear()
            released.clear()
