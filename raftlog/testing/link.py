"""One connection through the proxy: bytes both ways, except where the way is cut, and as its weather is.

    caller --forth--> node        caller <--back-- node

A cut way swallows what it is given, the end of the connection included. Bytes that are lost leave a hole in a stream,
so a connection that lost some ends when its way is open again, as a real one would that was silent for too long; both
sides then connect anew. Nobody is connected over a way that is cut: the caller's bytes go nowhere.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from raftlog.testing.lane import Lanes, NetworkLane, Way
from raftlog.testing.side import Side
from raftlog.testing.stream import END, ForwardedStream

INTRODUCTION_SECONDS_MAX: Final = 5.0
"""A caller that says nothing for so long is let go, as the broker behind would do."""


class Introducing(Protocol):
    """Finds out who calls. Is fed the first bytes of a connection."""

    node: int | None
    """The node that speaks; None as long as it is not known, and for good with a stranger."""
    is_over: bool
    """Whether it is known who speaks, or that it is nobody who introduces himself."""

    def feed(self, data: bytes) -> None: ...


class Link:
    """`front` is the socket of whoever called, `back` the one to the node behind."""

    def __init__(
        self,
        lanes: Lanes,
        introduction: Introducing,
        node: int,
        target: tuple[str, int],
        gone: Callable[["Link"], None],
    ) -> None:
        self._lanes, self._introduction = lanes, introduction
        self._node, self._target, self._gone = node, target, gone
        self._loop = asyncio.get_running_loop()
        self._connecting: asyncio.Task[None] | None = None
        self._head: list[bytes] = []
        """What came before the way to the node stood."""
        self._timer = self._loop.call_later(INTRODUCTION_SECONDS_MAX, self._too_late)
        self.front = Side(self._from_caller, self._caller_ended, self._called)
        self.back = Side(self._from_node, self._node_ended)
        unknown = lanes.lane(None, node)
        self._forth, self._back = (
            ForwardedStream(unknown, self.front, self.back),
            ForwardedStream(unknown, self.back, self.front),
        )
        for sender, receiver, stream in ((self.front, self.back, self._forth), (self.back, self.front, self._back)):
            _couple(sender, receiver, stream)

    def renew(self, changed: set[NetworkLane]) -> None:
        """The cuts have changed, and the weather of some."""
        for stream in (self._forth, self._back):
            if stream.lane in changed:
                stream.flush()
        if any(stream.has_lost and not stream.lane.is_cut for stream in (self._forth, self._back)):
            self.front.abort()
            self.back.abort()
            self._go()

    def reset(self, ways: set[Way]) -> bool:
        """As a box in the middle does it that has forgotten the connection; whether it is over one of these ways."""
        caller = self._introduction.node
        if caller is None or not {(caller, self._node), (self._node, caller)} & ways:
            return False
        self._forth.lane.seen.resets += 1
        self._back.lane.seen.resets += 1
        self.front.reset()
        self.back.reset()
        self._go()
        return True

    def _called(self) -> None:
        if self._introduction.is_over:
            self._introduced()

    def _from_caller(self, data: bytes) -> None:
        if self._introduction.is_over:
            self._to_node(data)
            return
        self._head.append(data)
        self._introduction.feed(data)
        if self._introduction.is_over:
            self._introduced()

    def _introduced(self) -> None:
        self._timer.cancel()
        caller = self._introduction.node
        self._forth.lane = self._lanes.lane(caller, self._node)
        self._back.lane = self._lanes.lane(self._node, caller)
        if self._forth.lane.is_cut:
            self._forth.feed(b"".join(self._head))  # it has lost something, were it only the call itself
            return
        self.front.hold_up("connecting")
        self._connecting = self._loop.create_task(self._reach_node(), name=f"the way to node {self._node}")

    def _to_node(self, data: bytes) -> None:
        if self._connecting is not None:
            self._head.append(data)
        else:
            self._forth.feed(data)

    def _from_node(self, data: bytes) -> None:
        self._back.feed(data)

    async def _reach_node(self) -> None:
        try:
            await self._loop.create_connection(lambda: self.back, *self._target)
        except OSError:
            self.front.abort()  # nobody listens there: the nearest thing to a refused connection
            return
        finally:
            self._connecting = None
        if self.front.transport is None:
            self.back.abort()
            return
        if self._head:
            self._forth.feed(b"".join(self._head))
            self._head.clear()
        self.front.let_go("connecting")

    def _caller_ended(self) -> None:
        """It has closed, or its process is gone."""
        self._timer.cancel()
        self._ended(self._forth)

    def _node_ended(self) -> None:
        self._ended(self._back)

    def _ended(self, stream: ForwardedStream) -> None:
        stream.feed(END)
        if self.front.transport is None and self.back.transport is None and self._connecting is None:
            self._go()

    def _go(self) -> None:
        self._forth.drop()
        self._back.drop()
        self._gone(self)

    def _too_late(self) -> None:
        self.front.abort()


def _couple(sender: Side, receiver: Side, stream: ForwardedStream) -> None:
    """A receiver that takes no more holds up its sender, until what has arrived meanwhile was taken too."""

    def drained() -> None:
        stream.release()
        if not receiver.is_full:
            sender.let_go("full")

    receiver.filled = lambda: sender.hold_up("full")
    receiver.drained = drained
