"""Streams of the simulated network: ordered, reliable, and broken as a whole, as TCP connections are.

Messages arrive in order and without gaps until the stream breaks; their borders are kept. A stream is broken by:

- a cut: data under way or sent later is lost, and each end detects the broken stream at a time of its own
  (`switchboard.StreamTimes`). If nothing was lost and the cut is over by then, the stream continues;
- a crash of a process: a random part of its sent data still arrives, then a reset, or, as after a loss of power,
  nothing, and the peer detects it late;
- `reset`: a middlebox drops the connection.

A paused process keeps its streams: arrived data waits for the process. `pending_bytes` counts bytes that were sent and
not yet received by the peer's process; `drain` waits until it is small. A lossy link makes a stream late, never wrong.
"""

import asyncio
import errno
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from jepsen.simulation.node import Node, Process

DRAINED_BYTES: Final = 1 << 16


class Carrier(Protocol):
    """Interface of the switchboard that a stream needs."""

    def transmit(self, end: "Stream", message: object, size_bytes: int | None) -> None:
        """Send a message from this end to its peer; the size is computed when it is None."""
        ...

    def finish(self, end: "Stream") -> None:
        """Send the end of the stream to the peer, after all messages."""
        ...

    def refuse(self, end: "Stream") -> None:
        """Refuse a message from this end, because the peer's end no longer exists."""
        ...

    def forget(self, end: "Stream") -> None:
        """Remove this end without notice to the peer."""
        ...


class Stream:
    """One end of a simulated TCP connection. Either set callbacks with `start`, or call `receive` for each message."""

    def __init__(self, board: Carrier, process: Process, peer_node: Node, service: str) -> None:
        self.process, self.peer_node, self.service = process, peer_node, service
        self.pending_bytes = 0
        self.lost: Exception | None = None
        """Reason why nothing more can be sent or received here; `EOFError` when the peer closed."""
        self.peer: Stream
        self._board = board
        self._is_closed = False  # by this end
        self._severed = False  # something that this end sent was lost: nothing that follows it may arrive
        self._last_arrival_ns = 0
        self._inbox: deque[object] = deque()
        self._on_message: Callable[[object], object] | None = None
        self._on_lost: Callable[[Exception], object] | None = None
        self._receiver: asyncio.Future[None] | None = None
        self._drainers: list[asyncio.Future[None]] = []

    def __repr__(self) -> str:
        return f"<stream {self.process.node.name} → {self.peer_node.name} {self.service}>"

    # For the process that has this end

    def start(self, on_message: Callable[[object], object], on_lost: Callable[[Exception], object]) -> None:
        """Deliver by callbacks from now on, buffered messages first. `on_lost` is called once, not after `close`."""
        self._on_message, self._on_lost = on_message, on_lost
        while self._inbox:
            on_message(self._inbox.popleft())
        if self.lost is not None:
            on_lost(self.lost)

    async def receive(self) -> object:
        """Return the next message.

        After the last one, raises the error that broke the stream: `ConnectionError`, or `EOFError`."""
        while not self._inbox:
            if self.lost is not None:
                raise self.lost
            assert self._receiver is None, "one task receives"
            self._receiver = asyncio.get_running_loop().create_future()
            try:
                await self._receiver
            finally:
                self._receiver = None
        return self._inbox.popleft()

    def send(self, message: object, size_bytes: int | None = None) -> None:
        """Send a message after all earlier ones. Raises `ConnectionError` if this end has detected a break.

        Without an error the message may still be lost."""
        if self._is_closed:
            raise ConnectionAbortedError(errno.ECONNABORTED, f"{self} was closed here")
        if self.lost is not None:
            raise ConnectionResetError(errno.ECONNRESET, f"{self}: {self.lost}")
        if self.process.is_alive:
            self._board.transmit(self, message, size_bytes)

    async def drain(self, below_bytes: int = DRAINED_BYTES) -> None:
        """Wait until fewer than `below_bytes` are pending, or the stream breaks."""
        while self.pending_bytes >= below_bytes and self.lost is None:
            future = asyncio.get_running_loop().create_future()
            self._drainers.append(future)
            await future

    def close(self) -> None:
        """Close this end: the peer receives all sent messages, then the end of the stream.

        Nothing more is received here."""
        if self.lost is None and self.process.is_alive:
            self._is_closed = True
            self._inbox.clear()
            self._board.finish(self)
            self._end(ConnectionAbortedError(errno.ECONNABORTED, f"{self} was closed here"))

    # For the switchboard

    def arrival_ns(self, arrival_ns: int) -> int:
        """Return the arrival time, delayed until all earlier data has arrived."""
        self._last_arrival_ns = max(arrival_ns, self._last_arrival_ns)
        return self._last_arrival_ns

    def sever(self) -> None:
        """Discard all data from this end that has not arrived yet."""
        self._severed = True

    @property
    def is_severed(self) -> bool:
        """Whether data from this end was lost, so that nothing that follows may arrive."""
        return self._severed

    def take(self, message: object, size_bytes: int) -> None:
        """Pass an arrived message to the callback or the buffer of `receive`; runs in the process of this end."""
        self.peer.release_pending(size_bytes)
        if self.lost is not None:
            self._board.refuse(self.peer)
        elif self._on_message is not None:
            self._on_message(message)
        else:
            self._inbox.append(message)
            self._wake(self._receiver)

    def release_pending(self, size_bytes: int) -> None:
        """Subtract bytes that the peer has received from the pending ones."""
        self.pending_bytes -= size_bytes
        assert self.pending_bytes >= 0, (self, self.pending_bytes)
        self._wake_drainers()

    def fail(self, error: Exception) -> None:
        """End the stream after an error or the peer's close; only the first call counts.

        Runs in the process of this end."""
        if self.lost is None:
            self.sever()
            self._end(error)

    def _end(self, error: Exception) -> None:
        """Record why the stream ended, and wake all waiting tasks; report the reason unless this end closed it."""
        self.lost = error
        self._board.forget(self)
        self._wake(self._receiver)
        self._wake_drainers()
        if self._on_lost is not None and not self._is_closed:
            self._on_lost(error)

    def _wake_drainers(self) -> None:
        """Wake all tasks that wait in `drain`."""
        drainers, self._drainers = self._drainers, []
        for future in drainers:
            self._wake(future)

    def _wake(self, future: "asyncio.Future[None] | None") -> None:
        """Complete the future of a waiting task; do nothing for None or a completed future."""
        if future is not None and not future.done():
            future.set_result(None)
