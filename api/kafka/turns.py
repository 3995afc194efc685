"""Bound on the time that requests hold the event loop at once, for all connections of a listener.

    requests of one read: begin until `TURN_S` is over → the rest is kept, and the connection waits in a queue
    each later turn of the loop: connections of the queue, the first one first, until `TURN_S` is over;
                                 then requests that arrive, until `TURN_S` is over again; the rest waits too

Most handlers run to their end within the callback that reads a request. Without the bound the requests that clients
send at once would hold the loop, and with it the Raft groups of the process, for seconds. Owned by `connections`."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

TURN_S: Final = 0.005


class _WaitingConnection(Protocol):
    """Connection with requests that have not begun."""

    def begin_kept_requests(self) -> None:
        """Begin requests until `LoopTurns.next_end`; wait again if some are left."""


class LoopTurns:
    """Queue of the connections whose requests begin in later turns of the loop."""

    __slots__ = ("_end", "_is_busy", "_is_serving", "_loop", "_waiting", "clock")

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float]) -> None:
        """Begin with an empty queue; `clock` returns seconds."""
        self._loop, self.clock = loop, clock
        self._waiting: deque[_WaitingConnection] = deque()
        self._is_busy = False
        """Whether the queue is served in the next turn of the loop."""
        self._is_serving = False
        self._end = 0.0
        """Time after which no request begins in this turn, while the queue is served."""

    def next_end(self) -> float:
        """Return the time after which no further request of a read begins in this turn."""
        return self._end if self._is_busy or self._is_serving else self.clock() + TURN_S

    @property
    def is_over(self) -> bool:
        """Whether no request of a read begins in this turn any more; False for the connection that is served."""
        return self._is_busy and not self._is_serving and self.clock() >= self._end

    def wait(self, connection: _WaitingConnection) -> None:
        """Queue a connection; its `begin_kept_requests` is called in a later turn of the loop."""
        self._waiting.append(connection)
        if not self._is_busy:
            self._is_busy = True
            self._end = self.clock()
            self._loop.call_soon(self._serve)

    def _serve(self) -> None:
        """Serve the connections that wait now, until the turn is over."""
        until = self._end = self.clock() + TURN_S
        self._is_serving = True
        try:
            for _ in range(len(self._waiting)):
                self._waiting.popleft().begin_kept_requests()
                if self.clock() >= until:
                    break
        finally:
            self._is_serving = False
            self._end = until + TURN_S
            self._is_busy = bool(self._waiting)
            if self._is_busy:
                self._loop.call_soon(self._serve)
