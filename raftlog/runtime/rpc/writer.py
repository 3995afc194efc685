"""Writer of one connection: it writes all frames of a loop turn at once, within the connection's budget.

Posted frames are written with the Raft messages of the driver's turn, which are written at once, or at the end of the
loop turn. While the socket is paused or the budget is used up, they wait in the send queue, where Raft messages can
still be dropped."""

import asyncio
from collections.abc import Sequence

from raftlog.runtime.rpc.config import RpcConfig
from raftlog.runtime.rpc.connection import Connection
from raftlog.runtime.rpc.send_queue import SendQueue
from raftlog.runtime.rpc.throttle import TokenBucket
from raftlog.runtime.rpc.traffic import Flow
from raftlog.runtime.transport import Envelope, ProcessHeartbeat
from raftlog.types import Buffer


class Writer:
    """Writer of a connection, from its handshake to its end."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        config: RpcConfig,
        connection: Connection,
        budget: TokenBucket | None,
        sent: Flow,
    ) -> None:
        """Prepare to write to a connection; `budget` limits the rate of bytes, None: unlimited.

        `sent` counts bytes and writes."""
        self._loop = loop
        self._connection = connection
        self._sent = sent
        self._budget = budget
        self._frames_bytes = config.turn_bytes if budget is None else 1
        """Bytes of requests in one write; with a budget one frame, because the budget is checked before each frame."""
        self._queue = SendQueue(config, sent)
        self._due: asyncio.Handle | None = None

    @property
    def queued_bytes(self) -> int:
        """Bytes that wait in the queue and in the write buffer of the socket."""
        return self._queue.bytes + self._connection.write_buffer_bytes()

    @property
    def messages_dropped(self) -> int:
        return self._queue.messages_dropped

    def post_envelopes(self, envelopes: Sequence[Envelope]) -> None:
        """Queue the Raft messages of a driver's turn, and write them together with all queued frames."""
        self._queue.add_envelopes(envelopes)
        self.flush()

    def post_heartbeat(self, heartbeat: ProcessHeartbeat) -> None:
        """Queue a heartbeat to be written, in place of an older one that waits."""
        self._queue.add_heartbeat(heartbeat)
        self._schedule_flush()

    def post_frame(self, frame: list[Buffer]) -> bool:
        """Queue a request or an answer to be written; return False if there is no room for it."""
        is_taken = self._queue.add_frame(frame)
        self._schedule_flush()
        return is_taken

    def resume(self) -> None:
        """Continue to write, because the socket accepts more bytes."""
        self._schedule_flush()

    def flush(self) -> None:
        """Write as much as socket and budget allow now."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        connection = self._connection
        while self._queue and not connection.is_paused and not connection.is_closing:
            if self._budget is not None:
                delay_s = self._budget.delay_s(self._loop.time())
                if delay_s > 0:
                    self._due = self._loop.call_later(delay_s, self.flush)
                    return
            buffers = self._queue.take(self._frames_bytes)
            size = sum(map(len, buffers))
            if self._budget is not None:
                self._budget.take(size)
            self._sent.bytes += size
            self._sent.writes += 1
            connection.write(buffers)

    def end(self) -> None:
        """Drop the waiting messages; called after the end of the connection."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        self._queue.discard()

    def _schedule_flush(self) -> None:
        """Write at the end of the loop turn, unless the socket is paused or a write is scheduled."""
        if self._due is None and not self._connection.is_paused:
            self._due = self._loop.call_soon(self.flush)
