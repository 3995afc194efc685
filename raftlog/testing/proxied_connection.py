"""Connection through the proxy: bytes in both directions, subject to cuts and network conditions.

    caller --forth--> node        caller <--back-- node

A cut link discards all bytes, and the end of the connection too. Lost bytes leave a hole in a stream, so a connection
that lost some is closed when its link is open again, like a real one after a long silence; the caller then
reconnects. No connection is made over a link that is cut: the caller's bytes are discarded."""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from raftlog.testing.link_state import LinkState, LinkStates
from raftlog.testing.network_conditions import Link
from raftlog.testing.side import Side
from raftlog.testing.stream import END, ForwardedStream

IDENTIFICATION_SECONDS_MAX: Final = 5.0
"""Time after which a silent caller is disconnected; the broker would do the same."""


class CallerIdentification(Protocol):
    """Identification of the caller from the first bytes of a connection."""

    node: int | None
    """Node id of the caller; None until it is read, and for a caller that sends none."""
    is_complete: bool
    """Whether the caller is identified, or has sent something other than an identification."""

    def feed(self, data: bytes) -> None:
        """Process the next received bytes."""
        ...


class ProxiedConnection:
    """Proxied connection: `front` is the socket to the caller, `back` the socket to the node."""

    def __init__(
        self,
        link_states: LinkStates,
        identification: CallerIdentification,
        node: int,
        target: tuple[str, int],
        closed: Callable[["ProxiedConnection"], None],
    ) -> None:
        """Prepare a connection to `node`, which listens at `target`.

        `closed` is called when both sockets are closed."""
        self._states, self._identification = link_states, identification
        self._node, self._target, self._closed = node, target, closed
        self._loop = asyncio.get_running_loop()
        self._connecting: asyncio.Task[None] | None = None
        self._head: list[bytes] = []
        """Bytes that arrived before the connection to the node was open."""
        self._timer = self._loop.call_later(IDENTIFICATION_SECONDS_MAX, self._on_identification_timeout)
        self.front = Side(self._on_caller_data, self._on_caller_end, self._on_front_made)
        self.back = Side(self._on_node_data, self._on_node_end)
        unknown = link_states.get(None, node)
        self._forth, self._back = (
            ForwardedStream(unknown, self.front, self.back),
            ForwardedStream(unknown, self.back, self.front),
        )
        for sender, receiver, stream in ((self.front, self.back, self._forth), (self.back, self.front, self._back)):
            _connect_backpressure(sender, receiver, stream)

    def apply_changes(self, changed: set[LinkState]) -> None:
        """Apply changed cuts and conditions: flush streams of changed links; abort a connection that lost bytes."""
        for stream in (self._forth, self._back):
            if stream.link_state in changed:
                stream.flush()
        if any(stream.has_lost and not stream.link_state.is_cut for stream in (self._forth, self._back)):
            self.front.abort()
            self.back.abort()
            self._close()

    def reset(self, links: set[Link]) -> bool:
        """Reset the connection, like a middlebox, if it uses one of these links; return whether it does."""
        caller = self._identification.node
        if caller is None or not {(caller, self._node), (self._node, caller)} & links:
            return False
        self._forth.link_state.counters.resets += 1
        self._back.link_state.counters.resets += 1
        self.front.reset()
        self.back.reset()
        self._close()
        return True

    def _on_front_made(self) -> None:
        """Connect to the node at once if the caller is known."""
        if self._identification.is_complete:
            self._connect_to_node()

    def _on_caller_data(self, data: bytes) -> None:
        """Forward bytes of the caller; keep them until the caller is identified."""
        if self._identification.is_complete:
            self._send_to_node(data)
            return
        self._head.append(data)
        self._identification.feed(data)
        if self._identification.is_complete:
            self._connect_to_node()

    def _connect_to_node(self) -> None:
        """Find the links of the identified caller, and connect to the node unless the link is cut."""
        self._timer.cancel()
        caller = self._identification.node
        self._forth.link_state = self._states.get(caller, self._node)
        self._back.link_state = self._states.get(self._node, caller)
        if self._forth.link_state.is_cut:
            self._forth.feed(b"".join(self._head))  # counts as lost, even if it is only the connection attempt
            return
        self.front.pause_reading("connecting")
        self._connecting = self._loop.create_task(self._reach_node(), name=f"connect to node {self._node}")

    def _send_to_node(self, data: bytes) -> None:
        """Forward bytes to the node, or keep them until it is connected."""
        if self._connecting is not None:
            self._head.append(data)
        else:
            self._forth.feed(data)

    def _on_node_data(self, data: bytes) -> None:
        """Forward bytes of the node to the caller."""
        self._back.feed(data)

    async def _reach_node(self) -> None:
        """Connect to the node, and forward the bytes that the caller has sent so far.

        If the node does not listen, abort the caller's side."""
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
        self.front.resume_reading("connecting")

    def _on_caller_end(self) -> None:
        """Forward the end of the caller's side: the caller closed the connection, or its process ended."""
        self._timer.cancel()
        self._forward_end(self._forth)

    def _on_node_end(self) -> None:
        """Forward the end of the node's stream to the caller."""
        self._forward_end(self._back)

    def _forward_end(self, stream: ForwardedStream) -> None:
        """Forward the end of one direction; close the connection once both sides have ended."""
        stream.feed(END)
        if self.front.transport is None and self.back.transport is None and self._connecting is None:
            self._close()

    def _close(self) -> None:
        """Drop all held bytes, and report the end of the connection."""
        self._forth.drop()
        self._back.drop()
        self._closed(self)

    def _on_identification_timeout(self) -> None:
        """Abort a connection whose caller did not identify itself in time."""
        self.front.abort()


def _connect_backpressure(sender: Side, receiver: Side, stream: ForwardedStream) -> None:
    """Make a full receiver pause its sender until the backlog has been written."""

    def drained() -> None:
        """Continue to deliver; let the sender send again once the receiver has room."""
        stream.release()
        if not receiver.is_full:
            sender.resume_reading("full")

    receiver.filled = lambda: sender.pause_reading("full")
    receiver.drained = drained
