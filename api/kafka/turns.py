"""Bound on the time that requests of one client hold the event loop at once.

    requests of one read: begin until `TURN_S` is over → the rest is kept, and the connection waits in a queue
    each later turn of the loop: connections of the queue, the first one first, until `TURN_S` is over

Most handlers run to their end within the callback that reads a request. Without the bound the requests that a client
sends at once would hold the loop, and with it the Raft groups of the process, for seconds. Owned by `connections`."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

TURN_S: Final = 0.005


class _Waiting(Protocol):
    """Connection with requests that wait."""

    def continue_requests(self) -> None:
        """Begin requests for `TURN_S`; wait again if some are left."""


class LoopTurns:
    """Queue of the connections whose requests continue in later turns of the loop."""

    __slots__ = ("_is_scheduled", "_loop", "_waiting", "clock")

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float]) -> None:
        """Begin with an empty queue; `clock` returns seconds."""
        self._loop, self.clock = loop, clock
        self._waiting: deque[_Waiting] = deque()
        self._is_scheduled = False

    def wait(self, connection: _Waiting) -> None:
        """Queue a connection; its `continue_requests` is called in a later turn of the loop."""
        self._waiting.append(connection)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._continue)

    def _continue(self) -> None:
        """Continue the connections that wait now, until the turn is over."""
        self._is_scheduled = False
        until = self.clock() + TURN_S
        try:
            for _ in range(len(self._waiting)):
                self._waiting.popleft().continue_requests()
                if self.clock() >= until:
                    break
        finally:
            if self._waiting:
                self._schedule()
