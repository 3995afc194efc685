"""One connection through the proxy: bytes both ways, except where the way is cut.

    caller --forth--> node        caller <--back-- node

A cut way swallows what it is given, the end of the connection included. Bytes that are lost leave a hole in a stream,
so a connection that lost some ends when its way is open again, as a real one would that was silent for too long; both
sides then connect anew. Nobody is connected over a way that is cut: the caller's bytes go nowhere.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol, cast

from raftlog.testing.introduction import Introduction

INTRODUCTION_SECONDS_MAX: Final = 5.0
"""A caller that says nothing for so long is let go, as the broker behind would do."""
BUFFER_BYTES_MAX: Final = 1 << 20
"""What may wait on one way; then its sender waits."""


class Cuts(Protocol):
    """Which ways are cut, by node id of sender and receiver."""

    def is_cut(self, sender: int | None, receiver: int) -> bool: ...


class _Way:
    """One direction of a link."""

    def __init__(self) -> None:
        self.lost = False
        """Something was swallowed."""
        self.is_cut = False


class Side(asyncio.Protocol):
    """One of the two sockets of a link."""

    def __init__(self, received: Callable[[bytes], None], ended: Callable[[], None]) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: Side | None = None
        self._received, self._ended = received, ended

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is none by type
        self.transport.set_write_buffer_limits(BUFFER_BYTES_MAX)

    def data_received(self, data: bytes) -> None:
        self._received(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        self._ended()

    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()

    def write(self, data: bytes) -> None:
        if self.transport is not None:
            self.transport.write(data)

    def close(self) -> None:
        """After what waits was written."""
        if self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()


class Link:
    """`front` is the socket of whoever called, `back` the one to the node behind."""

    def __init__(self, cuts: Cuts, node: int, target: tuple[str, int], gone: Callable[["Link"], None]) -> None:
        self._cuts, self._node, self._target, self._gone = cuts, node, target, gone
        self._introduction = Introduction()
        self._head: list[bytes] = []
        """What came before the way to the node stood."""
        self._forth, self._back = _Way(), _Way()
        self._loop = asyncio.get_running_loop()
        self._connecting: asyncio.Task[None] | None = None
        self._timer = self._loop.call_later(INTRODUCTION_SECONDS_MAX, self._too_late)
        self.front = Side(self._from_caller, lambda: self._ended(self._forth, self.back))
        self.back = Side(self._from_node, lambda: self._ended(self._back, self.front))
        self.front.other, self.back.other = self.back, self.front

    def renew(self) -> None:
        """The cuts have changed."""
        if not self._introduction.is_over:
            return
        caller = self._introduction.node
        self._forth.is_cut = self._cuts.is_cut(caller, self._node)
        self._back.is_cut = caller is not None and self._cuts.is_cut(self._node, caller)
        if any(way.lost and not way.is_cut for way in (self._forth, self._back)):
            self.front.abort()
            self.back.abort()
            self._gone(self)

    def _from_caller(self, data: bytes) -> None:
        if self._introduction.is_over:
            self._to_node(data)
            return
        self._head.append(data)
        self._introduction.feed(data)
        if self._introduction.is_over:
            self._timer.cancel()
            self.renew()
            self._connect()

    def _to_node(self, data: bytes) -> None:
        if self._forth.is_cut:
            self._forth.lost = True
        elif self._connecting is not None:
            self._head.append(data)
        else:
            self.back.write(data)

    def _from_node(self, data: bytes) -> None:
        if self._back.is_cut:
            self._back.lost = True
        else:
            self.front.write(data)

    def _connect(self) -> None:
        if self._forth.is_cut:
            self._forth.lost = True
            return
        assert self.front.transport is not None, "somebody without a connection introduced himself"
        self.front.transport.pause_reading()
        self._connecting = self._loop.create_task(self._reach_node(), name=f"the way to node {self._node}")

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
        self._to_node(b"".join(self._head))
        self._head.clear()
        self.front.transport.resume_reading()

    def _ended(self, way: _Way, receiver: Side) -> None:
        """The sender of a way has closed, or its process is gone."""
        self._timer.cancel()
        if way.is_cut:
            way.lost = True
        else:
            receiver.close()
        if self.front.transport is None and self.back.transport is None and self._connecting is None:
            self._gone(self)

    def _too_late(self) -> None:
        self.front.abort()
