"""Connection through the proxy: bytes in both directions, subject to cuts and weather.

    caller --forth--> node        caller <--back-- node

A cut way discards all bytes, and the end of the connection too. Lost bytes leave a hole in a stream, so a connection
that lost some is closed when its way is open again, as a real one would be after a long silence; both sides then
reconnect. No connection is made over a way that is cut: the caller's bytes are discarded."""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from raftlog.testing.lane import Lanes, NetworkLane, Way
from raftlog.testing.side import Side
from raftlog.testing.stream import END, ForwardedStream

INTRODUCTION_SECONDS_MAX: Final = 5.0
"""Time after which a silent caller is disconnected, as by the broker behind the proxy."""


class Introducing(Protocol):
    """Identification of the caller, which is fed the first bytes of a connection."""

    node: int | None
    """Node id of the caller; None until it is read, and for good if the caller sends none."""
    is_over: bool
    """Whether the caller is identified, or has sent something other than an introduction."""

    def feed(self, data: bytes) -> None: ...


class Link:
    """Proxied connection: `front` is the socket to the caller, `back` the one to the node behind."""

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
        """Bytes that arrived before the connection to the node was open."""
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
        """Apply changed cuts and weather: flush changed lanes, and close the connection if it lost bytes."""
        for stream in (self._forth, self._back):
            if stream.lane in changed:
                stream.flush()
        if any(stream.has_lost and not stream.lane.is_cut for stream in (self._forth, self._back)):
            self.front.abort()
            self.back.abort()
            self._go()

    def reset(self, ways: set[Way]) -> bool:
        """Reset the connection if it uses one of these ways, as a middlebox does; return whether it did."""
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
            self._forth.feed(b"".join(self._head))  # counts as lost, even if it is only the connection attempt
            return
        self.front.hold_up("connecting")
        self._connecting = self._loop.create_task(self._reach_node(), name=f"connect to node {self._node}")

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
            self.front.abort()  # the node does not listen: the nearest equivalent of a refused connection
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
        """Forward the end of the caller's side: it closed the connection, or its process ended."""
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
    """Make a receiver that is full hold up its sender until the backlog has been written."""

    def drained() -> None:
        stream.release()
        if not receiver.is_full:
            sender.let_go("full")

    receiver.filled = lambda: sender.hold_up("full")
    receiver.drained = drained
