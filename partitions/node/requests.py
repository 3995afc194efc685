"""Requests between processes by name, over the transport of Raft's messages. Used by the façade's routing.

    answer = await requests.ask(node, "produce", header, payload, deadline)         here
    requests.on_request("produce", handler)                                         there

One hop and one attempt: a request that may have been sent is never repeated, since its outcome is unknown. The
remaining time travels, never a clock reading; the server begins nothing after the deadline. Errors keep their type.

    NotConnected, Overloaded, InvalidArgument, Unavailable    nothing happened; so too for a handler's `failed` errors
    ConnectionLost, NoAnswer                                  the outcome is unknown
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeAlias

from raftlog.errors import InvalidArgument, Unavailable
from raftlog.partitions.addresses import Address
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.node.environment import NodeTransport
from raftlog.runtime.rpc.calls import Answer, Call
from raftlog.runtime.rpc.handshake import PeerIdentity
from raftlog.types import Buffer, NodeId

REQUEST_MS_MAX: Final = 3_600_000
"""Longest wait of a request, for any deadline."""
_QUIET_S: Final = 0.05
"""Seconds; longer than the transit of a request."""


class Request(NamedTuple):
    """Request of another node. `deadline` is by this process's clock; the caller stops waiting then."""

    node: NodeId
    header: Any
    payload: tuple[Buffer, ...]
    deadline: Deadline
    stranger: PeerIdentity | None = None
    """Identity of the sender of a probe, which need not belong to the cluster."""


Handler: TypeAlias = Callable[[Request], Awaitable[Answer]]
"""Function that serves a request; a `RaftlogError` that it raises is raised at the caller."""


class Requests:
    """Client and server of requests between nodes, in one process."""

    def __init__(self, me: NodeId, transport: NodeTransport) -> None:
        """Begin without handlers, for the node `me`."""
        self._me, self._transport = me, transport
        self._handlers: dict[str, Handler] = {}
        self._open: dict[str, None] = {}
        """Names that are served over probes as well."""
        self._under_way = 0
        """Requests of other nodes that are being served."""
        self._last_at = -math.inf
        """Loop's time of the last answer."""
        self._answered = asyncio.Event()

    def on_request(self, name: str, handler: Handler, *, is_open: bool = False) -> None:
        """Serve requests of this name with `handler`, one for each name; `is_open` includes probes."""
        assert name not in self._handlers, f"requests named {name!r} have a handler already"
        self._handlers[name] = handler
        if is_open:
            self._open[name] = None

    async def ask(self, node: NodeId, name: str, header: Any, payload: Sequence[Buffer], deadline: Deadline) -> Answer:
        """Send one request to a node. `header` consists of numbers, text, bytes, lists and mappings.

        A request to this node itself is a direct call of its handler, with the same header."""
        if node == self._me:
            return await self._handle(name, Request(node, header, tuple(payload), deadline))
        left_ms = _remaining_ms(deadline, f"node {node}", name)
        return await self._transport.call(node, Call(name, header, tuple(payload), left_ms))

    async def probe(self, address: Address, name: str, header: Any, deadline: Deadline) -> tuple[PeerIdentity, Answer]:
        """Send one request to the process at an address; return its identity and its answer."""
        where = f"{address[0]}:{address[1]}"
        return await self._transport.probe(address, Call(name, header, (), _remaining_ms(deadline, where, name)))

    async def serve_probe(self, peer: PeerIdentity, request: object) -> Answer:
        """Serve a request over a probe connection, whose peer may be no member; raises `InvalidArgument`.

        Only requests that were registered for such peers are served."""
        if not isinstance(request, Call) or request.name not in self._open:
            raise InvalidArgument(f"node {self._me} does not serve this over a probe connection")
        return await self.serve(peer.node_id, request, peer)

    async def serve(self, node: NodeId, call: Call, stranger: PeerIdentity | None = None) -> Answer:
        """Serve a request of a node; `stranger` is the sender's identity over a probe connection."""
        return await self._handle(
            call.name, Request(node, call.value, call.payload, deadline_in(call.timeout_ms), stranger)
        )

    async def _handle(self, name: str, request: Request) -> Answer:
        """Serve a request by its name and count it. Raises `Unavailable` for an unknown name."""
        handler = self._handlers.get(name)
        if handler is None:
            raise Unavailable(f"node {self._me} does not serve {name!r}; it may run another release")
        self._under_way += 1
        try:
            return await handler(request)
        finally:
            self._under_way -= 1
            self._last_at = asyncio.get_running_loop().time()
            self._answered.set()

    async def wait_until_quiet(self, seconds: float) -> None:
        """Wait until no request is served and none has arrived recently, at most `seconds`.

        Meanwhile callers learn of the new leaders; the outcome of a request that the end of the process
        interrupts is unknown."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while True:
            quiet_at = until if self._under_way else min(until, self._last_at + _QUIET_S)
            if loop.time() >= quiet_at:
                return
            self._answered.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(quiet_at):
                    await self._answered.wait()


def _remaining_ms(deadline: Deadline, destination: str, name: str) -> int:
    """Return the time until the deadline in ms, for a request. Raises `Unavailable` if none is left."""
    left_ms = min((deadline - asyncio.get_running_loop().time()) * 1000, REQUEST_MS_MAX)
    if left_ms < 1:
        raise Unavailable(f"no time is left to ask {destination} for {name!r}; it was not sent")
    return int(left_ms)
