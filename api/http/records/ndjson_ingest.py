"""Ingest of an NDJSON body of unknown length: blocks are appended as they arrive, in bounded memory.

    received → in a block → in flight → answered          one block in flight, one filling;  blocks come in their order

A block is sent when it is full, or when no block is in flight and no data arrives for a moment. While a block is in
flight the next one fills; when it is full nothing more is received, which slows the sender down. When the stream ends
for any reason, appended records stay; the answer has their number and the line at which the stream ended. Called by
`produce`."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from raftlog.api.http.records.line_splitter import LineSplitter
from raftlog.api.http.records.ndjson_block import BLOCK_BYTES_MAX, BadLine, Block
from raftlog.api.http.records.ndjson_report import StreamAnswer, StreamReport
from raftlog.api.http.records.produce_options import ProduceOptions
from raftlog.api.http.server.held_memory import HeldMemory
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.streamed_body import StreamedBody
from raftlog.errors import RaftlogError, Unavailable
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.produce.shares import Share
from raftlog.partitions.produce.streams import ProduceStream
from raftlog.runtime.memory_budget import MemoryBudget
from raftlog.runtime.slices import run_in_slices

_SILENCE_S = 0.002
"""Silence after which a block that is not full is sent."""
_LINGER_S = 0.02
"""Maximum time that a record waits for further records while no block is in flight."""


class NdjsonIngest:
    """Append of one NDJSON body as it arrives, in blocks.

    `memory` is the budget of all bodies; `stopping` is done when the server stops. `admit` is called before each block
    with its bytes: it raises `NotAuthorized` once the sender may not append any more, and waits while the sender
    exceeds its quota."""

    def __init__(
        self,
        stream: ProduceStream,
        into: ProduceOptions,
        answer: StreamAnswer,
        memory: MemoryBudget,
        stopping: "asyncio.Future[None]",
        admit: Callable[[int], Awaitable[None]],
    ) -> None:
        """Prepare to append the records of `stream`, and to report to `answer`.

        `memory` is charged for blocks. `admit` waits while the sender exceeds its quota; its argument is the size of a
        block in bytes."""
        self._stream, self._into, self._answer, self._memory = stream, into, answer, memory
        self._stopping, self._admit = stopping, admit
        self._block_bytes_max = min(BLOCK_BYTES_MAX, stream.bounds.block_bytes_max)
        self._splitter = LineSplitter(stream.bounds.record_bytes_max)
        self._loop = asyncio.get_running_loop()
        self._block = Block(self._block_bytes_max)
        self._held = HeldMemory(memory)
        """Memory of the block that fills and of the incomplete line; `_held_in_flight`: of the block in flight."""
        self._held_in_flight = HeldMemory(memory)
        self._lines = 0
        self._report = StreamReport()
        self._receiving: asyncio.Task[bytes] | None = None
        self._appending: asyncio.Task[list[Share]] | None = None
        self._in_flight: Block | None = None

    async def run(self, body: StreamedBody) -> web.StreamResponse:
        """Append all of the body, or as much as can be stored, and return the answer."""
        try:
            while self._report.problem is None and not body.at_end:
                if self._block.is_full:
                    await self._send_block()
                else:
                    await self._receive(body)
            if body.at_end and self._report.problem is None:
                await self._take_lines(self._splitter.take_last_line())
            if self._block.records and not self._report.has_failed:
                await self._send_block()
            await self._wait_for_append()
            self._held.release()
            return await self._answer.finish(self._report)
        finally:
            self._answer.cancel()
            _cancel(self._receiving)
            _cancel(self._appending)
            self._held.release()
            self._held_in_flight.release()

    # receiving

    async def _receive(self, body: StreamedBody) -> None:
        """Wait for data, for the end of the append in flight, or until the filling block has to be sent."""
        if self._receiving is None:
            self._receiving = self._loop.create_task(body.piece())
        waits: set[asyncio.Future[Any]] = {self._receiving, self._stopping}
        timeout = None
        if self._appending is not None:
            waits.add(self._appending)
        elif self._block.records:
            timeout = min(_SILENCE_S, max(0.0, self._block.began + _LINGER_S - self._loop.time()))
        done, _ = await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if self._appending in done:
            await self._wait_for_append()
        if self._receiving in done:
            await self._take_piece(self._receiving)
        elif self._stopping in done:
            self._report.set_problem(
                Unavailable("the broker is stopping; send the rest to another one, or retry"), self._lines + 1
            )
        elif not done:
            await self._send_block()

    async def _take_piece(self, receiving: "asyncio.Task[bytes]") -> None:
        """Add the lines of a received piece to the block, and take memory for them.

        An error ends the stream: it becomes the problem of the report."""
        self._receiving = None
        try:
            lines = self._splitter.feed(receiving.result())
            await self._take_lines(lines)
            self._splitter.check_length(self._splitter.rest_bytes)
            await self._cover(self._block.memory_bytes + self._splitter.rest_bytes)
        except (HttpProblem, RaftlogError) as error:
            self._report.set_problem(error, self._lines + 1)

    async def _take_lines(self, lines: list[bytes]) -> None:
        """Add lines to the block; a line that cannot be stored ends the stream."""
        block = self._block
        if not block.records:
            block.began = self._loop.time()
        try:
            await run_in_slices(block.add(lines, self._lines + 1, self._into.line_reader, self._splitter))
            self._lines += len(lines)
        except BadLine as bad:
            self._lines = bad.number
            self._report.set_problem(bad.problem, bad.number)

    async def _cover(self, size: int) -> None:
        """Take memory for `size` bytes from the budget. Raises `MemoryBudgetExceeded` when none is free in time."""
        if not self._held.try_cover(size):
            await self._wait_for_append()  # other requests may wait for its memory
            await self._held.cover(size, deadline_in(self._into.timeout_ms))

    # appending

    async def _send_block(self) -> None:
        """Wait for the append in flight, then begin the append of the filled block.

        If the append in flight failed, the filled block is not appended."""
        await self._wait_for_append()
        if self._report.has_failed:
            return
        block, self._block = self._block, Block(self._block_bytes_max)
        self._held_in_flight, self._held = self._held, HeldMemory(self._memory)
        self._in_flight = block
        self._appending = self._loop.create_task(self._append(block))

    async def _append(self, block: Block) -> list[Share]:
        """Append a block once `admit` has accepted its size; return the outcome of each partition."""
        await self._admit(block.size_bytes)
        deadline = deadline_in(self._into.timeout_ms)
        return await self._stream.append(block.records, block.named, self._into.acks, deadline)

    async def _wait_for_append(self) -> None:
        """Wait for the append of the block in flight, and record its outcome."""
        flight, block = self._appending, self._in_flight
        if flight is None or block is None:
            return
        try:
            shares = await flight
        except RaftlogError as error:
            self._report.record_failure(error, block.line_of(0))
            shares = []
        self._appending = self._in_flight = None
        self._held_in_flight.release()
        for share in shares:
            self._report.add_share(share, block)
        self._answer.write_progress(self._report)


def _cancel(task: "asyncio.Task[Any] | None") -> None:
    """Cancel a task whose result is not needed."""
    if task is None:
        return
    if not task.done():
        task.cancel()
    elif not task.cancelled():
        task.exception()
