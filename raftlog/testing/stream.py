"""One direction of a connection through the proxy: bytes in order, then the end, each at its arrival time.

Without network conditions bytes are forwarded at once. Otherwise they wait here, and all later bytes wait after them:
arrival times never decrease. Bytes that are sent or arrive during a cut are lost, and so is the end of the stream; then
`has_lost` is set permanently, because a stream with a hole is useless."""

import asyncio
from collections import deque
from typing import Final, Protocol

from raftlog.testing.link_state import LinkState

END: Final = b""
TICK_S: Final = 0.001
"""Resolution of the event loop's clock."""


class PausableSender(Protocol):
    """Sender that can be paused, for several reasons at once."""

    def pause_reading(self, reason: str) -> None:
        """Pause the sender for this reason."""
        ...

    def resume_reading(self, reason: str) -> None:
        """Remove the reason; the sender continues once no reason is left."""
        ...


class Receiver(Protocol):
    @property
    def is_full(self) -> bool: ...
    def write(self, data: bytes) -> None: ...
    def close(self) -> None: ...


class ForwardedStream:
    """Stream of bytes from a sender's socket to a receiver's socket."""

    def __init__(self, link_state: LinkState, sender: PausableSender, receiver: Receiver) -> None:
        """Forward bytes from `sender` to `receiver` under the conditions of the link."""
        self.link_state = link_state
        self.has_lost = False
        self._sender, self._receiver = sender, receiver
        self._loop = asyncio.get_running_loop()
        self._held: deque[tuple[float, float, bytes]] = deque()
        """Pieces in flight: arrival time, time sent, bytes."""
        self._timer: asyncio.TimerHandle | None = None
        self._waits = False
        """Whether the stream waits for room on the link."""

    def feed(self, data: bytes) -> None:
        """Accept bytes from the sender; `END` means that the sender closed the connection."""
        if self.link_state.is_cut:
            self._discard(data)
        elif self.link_state.conditions is None and not self._held:
            self._deliver(data)
        else:
            self._hold(data)

    def flush(self) -> None:
        """Deliver all bytes in flight now, because the conditions have changed."""
        now = self._loop.time()
        self._held = deque((min(due, now), sent, data) for due, sent, data in self._held)
        self.release()

    def drop(self) -> None:
        """Discard the bytes in flight of a closed connection."""
        self._cancel()
        self.link_state.release(sum(len(data) for _, _, data in self._held))
        self._held.clear()

    def release(self) -> None:
        """Deliver the bytes that are due, until the receiver is full."""
        self._cancel()
        now = self._loop.time()
        while self._held and self._held[0][0] <= now + TICK_S and not self._receiver.is_full:
            _, sent, data = self._held.popleft()
            self.link_state.release(len(data))
            if self.link_state.is_cut:
                self._discard(data)
            else:
                self.link_state.counters.longest_ms = max(
                    self.link_state.counters.longest_ms, round((now - sent) * 1000)
                )
                self._deliver(data)
        if self._held and not self._receiver.is_full:
            self._timer = self._loop.call_at(self._held[0][0], self.release)

    def _hold(self, data: bytes) -> None:
        """Hold bytes in pieces, each with its arrival time; pause the sender if the link holds too many bytes."""
        link_state, now = self.link_state, self._loop.time()
        size = link_state.piece_bytes
        for start in range(0, len(data), size) if data else [0]:
            piece = data[start : start + size]
            due = link_state.draw_arrival_time(now, len(piece))
            if self._held:
                due = max(due, self._held[-1][0])
            self._held.append((due, now, piece))
            link_state.counters.delayed_bytes += len(piece) if due > now + TICK_S else 0
        link_state.held_bytes += len(data)
        if link_state.is_full and not self._waits:
            self._waits = True
            self._sender.pause_reading("held")
            link_state.wait(self._resume_sender)
        if self._timer is None:
            self.release()

    def _resume_sender(self) -> None:
        """Let the sender continue, because the link has room again."""
        self._waits = False
        self._sender.resume_reading("held")

    def _deliver(self, data: bytes) -> None:
        """Write bytes to the receiver, or close it at the end of the stream."""
        if data:
            self.link_state.counters.passed_bytes += len(data)
            self._receiver.write(data)
        else:
            self._receiver.close()

    def _discard(self, data: bytes) -> None:
        """Count bytes that a cut discarded, and set `has_lost`."""
        self.has_lost = True
        self.link_state.counters.dropped_bytes += len(data)

    def _cancel(self) -> None:
        """Cancel the scheduled delivery, if any."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
