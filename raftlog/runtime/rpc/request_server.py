"""Requests of one connection, from their frames to their answers.

    being served ≤ calls_served_max,   their payload ≤ served_bytes_max      (above that: `Overloaded`, at once)

Each request is a task, so a slow one delays no other. A request whose connection breaks is served to its end, because
it may be half done; only its answer is dropped. If a handler fails with an unexpected error, the outcome is "unknown",
and the error goes to the loop's exception handler."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from raftlog.errors import InvalidArgument, OutcomeUnknown, Overloaded, RaftlogError
from raftlog.runtime.rpc.calls import Answer, Call, decode_call, encode_answer, encode_failure
from raftlog.runtime.rpc.endpoint import Endpoint
from raftlog.runtime.rpc.frames.bulk_codec import answer_of, request_of
from raftlog.runtime.rpc.frames.frame import Frame
from raftlog.runtime.transfer.bulk import BulkRequest
from raftlog.types import Buffer, NodeId


class AnswerWriter(Protocol):
    """Receiver of answers; a connection's `Writer` is one."""

    def post_frame(self, frame: list[Buffer]) -> bool:
        """Send an answer; return False if there is no room for it."""
        ...


class RequestServer:
    """Server of one accepted connection's requests; `serve` answers them."""

    def __init__(
        self, endpoint: Endpoint, node: NodeId, writer: AnswerWriter, serve: Callable[[object], Awaitable[object]]
    ) -> None:
        """Serve the requests of `node` by `serve`, and send answers through `writer`."""
        self._endpoint, self._serve_request = endpoint, serve
        self._config = endpoint.config
        self._node = node
        self._writer = writer
        self._tasks: dict[asyncio.Task[None], int] = {}
        """Payload of the request that each task serves, in bytes."""
        self._bytes = 0

    def take(self, frame: Frame) -> None:
        """Start a task that serves a request; raises `BadFrame`."""
        correlation, call = decode_call(frame, self._config)
        size = len(frame.payload)
        is_full = self._tasks and self._bytes + size > self._config.served_bytes_max
        if is_full or len(self._tasks) >= self._config.calls_served_max:
            self._fail(correlation, Overloaded(f"{len(self._tasks)} requests of node {self._node} are being served"))
            return
        coroutine = self._serve(correlation, call, request_of(call))
        task = self._endpoint.loop.create_task(coroutine, name=f"{call.name} for node {self._node}")
        self._tasks[task] = size
        self._endpoint.tasks[task] = None
        self._bytes += size
        task.add_done_callback(lambda ended: self._finish_task(correlation, ended))

    async def _serve(self, correlation: int, call: Call, bulk: BulkRequest | None) -> None:
        """Serve a request and send its answer or error; an `OSError` means an unknown outcome."""
        try:
            answer = await self._serve_request(call if bulk is None else bulk)
        except RaftlogError as error:
            self._fail(correlation, error)
            return
        except OSError as error:
            self._fail(correlation, OutcomeUnknown(f"{call.name} failed half way: {error}"))
            return
        if bulk is not None:
            answer = answer_of(answer)
        assert isinstance(answer, Answer), f"{call.name} was answered with {type(answer).__name__}"
        self._answer(correlation, answer)

    def _answer(self, correlation: int, answer: Answer) -> None:
        """Send an answer; report an unknown outcome if it is too large or the queue is full."""
        try:
            frame = encode_answer(correlation, answer, self._config)
        except InvalidArgument as error:
            self._fail(correlation, OutcomeUnknown(f"it was done, but its answer cannot be sent: {error}"))
            return
        if not self._writer.post_frame(frame):
            self._fail(correlation, OutcomeUnknown("it was done, but there is no room for its answer in the queue"))

    def _fail(self, correlation: int, error: RaftlogError) -> None:
        """Answer with an error; if there is no room for it, the request ends at its deadline."""
        self._writer.post_frame(encode_failure(correlation, error, self._config))

    def _finish_task(self, correlation: int, task: asyncio.Task[None]) -> None:
        """Release the room of an ended request; answer one that failed unexpectedly with an unknown outcome."""
        self._bytes -= self._tasks.pop(task)
        del self._endpoint.tasks[task]
        if task.cancelled():  # the process stops
            return
        error = task.exception()
        if error is not None:
            self._fail(correlation, OutcomeUnknown("it failed with an unexpected error; the log of that broker has it"))
            self._endpoint.loop.call_exception_handler(
                {"message": f"{task.get_name()} failed", "exception": error, "task": task}
            )
