"""`RequestServer` alone: refused requests, and its answers when memory is short or a handler fails."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from raftlog.errors import OutcomeUnknown, Overloaded, RaftlogError
from raftlog.runtime.rpc.calls import Answer, Call, decode_answer, encode_call
from raftlog.runtime.rpc.config import RpcConfig
from raftlog.runtime.rpc.frames.bulk_codec import call_of
from raftlog.runtime.rpc.frames.frame import FrameKind, kind_of
from raftlog.runtime.rpc.request_server import RequestServer
from raftlog.runtime.transfer.bulk import LogRequest
from raftlog.topic_config import KIB
from raftlog.types import NodeId
from tests.rpc.test_calls import GROUP, make_frame

CONFIG = RpcConfig(
    header_bytes_max=KIB,
    list_items_max=100,
    frame_bytes_max=64 * KIB,
    body_bytes_max=64 * KIB,
    turn_bytes=4 * KIB,
    calls_served_max=3,
    served_bytes_max=1_000,
)


class FakeConnection:
    """Fake connection for answers of up to `room_bytes` bytes."""

    def __init__(self, room_bytes: int = 64 * KIB) -> None:
        self.room_bytes = room_bytes
        self.answers: dict[int, Answer | RaftlogError] = {}

    def post_frame(self, frame: list[Any]) -> bool:
        if sum(map(len, frame)) > self.room_bytes:
            return False
        correlation, answer = decode_answer(make_frame(frame, FrameKind(kind_of(frame))), CONFIG)
        assert correlation not in self.answers, f"{correlation} answered twice"
        self.answers[correlation] = answer
        return True


class ServerBench:
    """Request server whose requests are served by a function of the test."""

    def __init__(self, serve: Callable[[object], Awaitable[object]], room_bytes: int = 64 * KIB) -> None:
        endpoint: Any = SimpleNamespace(config=CONFIG, loop=asyncio.get_running_loop(), tasks={})
        self.connection = FakeConnection(room_bytes)
        self.serving = RequestServer(endpoint, NodeId(2), self.connection, serve)

    def ask(self, correlation: int, call: Call) -> None:
        self.serving.take(make_frame(encode_call(correlation, call, CONFIG), FrameKind.CALL))

    async def answer(self, correlation: int) -> Answer | RaftlogError | None:
        """Return the answer after a few turns of the loop."""
        for _ in range(5):
            await asyncio.sleep(0)
        return self.connection.answers.get(correlation)


def call_with_bytes(count: int) -> Call:
    return Call("work", None, (bytes(count),))


async def test_an_answer_without_space_is_an_unknown_outcome() -> None:
    async def serve(call: object) -> object:
        return Answer(None, (bytes(1_000),))

    bench = ServerBench(serve, room_bytes=500)
    bench.ask(7, call_with_bytes(1))
    error = await bench.answer(7)
    assert isinstance(error, OutcomeUnknown)
    assert "no room for its answer" in str(error)


async def test_an_answer_that_cannot_be_sent_is_an_unknown_outcome() -> None:
    async def serve(call: object) -> object:
        return Answer("x" * CONFIG.header_bytes_max)

    bench = ServerBench(serve)
    bench.ask(7, call_with_bytes(1))
    error = await bench.answer(7)
    assert isinstance(error, OutcomeUnknown)
    assert "cannot be sent" in str(error)


@pytest.mark.parametrize("call", [call_with_bytes(1), call_of(LogRequest(GROUP), 1_000)])
@pytest.mark.parametrize("error", [OSError("the disk failed"), ZeroDivisionError("a bug")])
async def test_an_unexpected_error_of_a_handler_is_an_unknown_outcome(call: Call, error: Exception) -> None:
    async def serve(call: object) -> object:
        raise error

    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))
    bench = ServerBench(serve)
    bench.ask(7, call)
    assert isinstance(await bench.answer(7), OutcomeUnknown)
    assert reported == ([] if isinstance(error, OSError) else [error])


async def test_requests_past_the_bounds_are_refused_until_others_end() -> None:
    done = asyncio.Event()

    async def serve(call: object) -> object:
        await done.wait()
        return Answer()

    bench = ServerBench(serve)
    bench.ask(0, call_with_bytes(2 * CONFIG.served_bytes_max))  # alone it is served, however large
    bench.ask(1, call_with_bytes(1))
    assert isinstance(await bench.answer(1), Overloaded)
    done.set()
    assert isinstance(await bench.answer(0), Answer)
    done.clear()
    for correlation in range(2, 2 + CONFIG.calls_served_max):
        bench.ask(correlation, call_with_bytes(1))
        assert await bench.answer(correlation) is None
    bench.ask(9, call_with_bytes(1))
    assert isinstance(await bench.answer(9), Overloaded)
    done.set()
    assert isinstance(await bench.answer(2), Answer)
