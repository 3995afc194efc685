"""Relay of the connections between nodes, with one port for each pair of a calling and a called node.

Bytes are delayed on a link, in order. A cut link loses bytes in flight and later ones, and its connections are reset
when the cut ends, as real connections would be. When a machine crashes, a prefix of its bytes under way still arrives,
and its connections are silent for a moment before they are reset. A real network may deliver any prefix; the relay
chooses the worst one. It runs in its own thread; the methods may be called from any other."""

import asyncio
import socket
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from jepsen.control.messages import Stream
from raftlog.testing.ports import HOST, listen_on_free_port

Link = tuple[int, int]
_HELD_BYTES_MAX: Final = 8 << 20
"""Limit of one direction of one connection; then its sender waits."""
_SILENCE_S: Final = 0.3
"""Delay, in seconds, until connections to a crashed machine are reset."""
_ANSWERED_S: Final = 0.1
"""Time, in seconds, after which clients have received the answer for entries that a majority has confirmed."""
_LOST_ENTRIES_MIN: Final = 60
"""Number of acknowledged entries that a crash must lose to begin at once; it falls while the relay waits."""
_LOOK_S: Final = 0.005
_ANSWER_S_MAX: Final = 10.0
_Result = TypeVar("_Result")


class _Lane:
    """One direction of one relayed connection, with the bytes under way."""

    def __init__(self, relay: "Relay", link: Link) -> None:
        """Create the lane of one link; `source` and `target` are set when its connections exist."""
        self._relay, self.link = relay, link
        self._held: deque[tuple[float, bytes]] = deque()
        self.held_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False
        self._is_dead = False
        self.stream = Stream()
        self.source: asyncio.Transport | None = None
        self.target: asyncio.Transport | None = None
        self.has_lost = False

    def send(self, data: bytes) -> None:
        """Accept bytes of the source and deliver them after the delay.

        They are dropped if the link is cut or the source crashed. Above `_HELD_BYTES_MAX` bytes under way, reading from
        the source is paused."""
        if self.link in self._relay.cut_links or self._is_dead:
            self._record_lost(len(data))
            return
        self.stream.feed(data)
        due = asyncio.get_running_loop().time() + self._relay.delay_s
        self._held.append((due, data))
        self.held_bytes += len(data)
        if self.held_bytes > _HELD_BYTES_MAX and self.source is not None:
            self.source.pause_reading()
        self.deliver_due()

    def end(self) -> None:
        """Close the lane at the source's end; the target receives the close after the bytes under way."""
        if not self._is_dead:
            self._is_over = True
            self.deliver_due()

    def drop(self) -> int:
        """Drop the bytes under way and return their number."""
        lost = self.held_bytes
        self._held.clear()
        self.held_bytes = 0
        self._record_lost(lost)
        return lost

    def crash(self) -> tuple[int, int]:
        """Simulate a crash of the source's machine.

        Returns the number of bytes in flight that still arrived, and of all bytes in flight."""
        data = b"".join(data for _, data in self._held)
        worst = self.stream.find_shortest_log_part()
        arriving = worst.size if worst is not None and self.target is not None else 0
        self.drop()
        if self.target is not None:
            self.target.write(data[:arriving])
        self._is_dead = True
        return arriving, len(data)

    def _record_lost(self, count: int) -> None:
        """Count dropped bytes of the link."""
        self.has_lost = self.has_lost or count > 0
        self._relay.record_lost(self.link, count)

    def deliver_due(self) -> None:
        """Deliver the bytes that are due, and schedule the delivery of later ones."""
        if self._timer is not None or self.target is None:
            return
        loop = asyncio.get_running_loop()
        while self._held and self._held[0][0] <= loop.time():
            _, data = self._held.popleft()
            self.held_bytes -= len(data)
            self.stream.record_delivered(len(data))
            self.target.write(data)
        if self.source is not None and self.held_bytes <= _HELD_BYTES_MAX:
            self.source.resume_reading()  # nothing when it reads already
        if self._held:
            self._timer = loop.call_at(self._held[0][0], self._on_timer)
        elif self._is_over and self.link not in self._relay.cut_links:
            self.target.close()

    def _on_timer(self) -> None:
        """Deliver the bytes that have become due."""
        self._timer = None
        self.deliver_due()


class _End(asyncio.Protocol):
    """Socket at one end of a relayed connection.

    It passes received bytes to `out`, and sends the bytes of `into`."""

    def __init__(self, out: _Lane, into: _Lane, on_end: Callable[[], None]) -> None:
        """Connect a socket to two lanes; `on_end` is called when the socket is closed."""
        self._out, self._into, self._on_end = out, into, on_end

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connect the socket to its lanes, and deliver bytes that waited for it."""
        assert isinstance(transport, asyncio.Transport), "a stream"
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._out.source = self._into.target = transport
        self._into.deliver_due()

    def data_received(self, data: bytes) -> None:
        """Forward received bytes."""
        self._out.send(data)

    def connection_lost(self, error: Exception | None) -> None:
        """Close the outgoing lane; report the end."""
        self._out.source = self._into.target = None
        self._out.end()
        self._on_end()


class _Connection:
    """Connection from one node to another, from its acceptance on."""

    def __init__(self, relay: "Relay", caller: int, called: int, address: tuple[str, int]) -> None:
        """Accept a connection of `caller`, and connect it to `called` at `address`."""
        self._relay, self._address = relay, address
        self.links = (caller, called), (called, caller)
        self._forth, self._back = self.lanes = _Lane(relay, self.links[0]), _Lane(relay, self.links[1])
        self.front = _End(self._forth, self._back, self._on_end)
        self._reaching = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        """Connect to the target; over a cut link nothing answers until the caller gives up or the cut ends."""
        if any(link in self._relay.cut_links for link in self.links):
            self._forth.has_lost = True
            return
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: _End(self._back, self._forth, self._on_end), *self._address
            )
        except OSError:
            self.reset()

    def _on_end(self) -> None:
        """Reset the connection once both of its sockets are closed."""
        if self._forth.source is None and self._back.source is None:
            self.reset()

    def drop(self, links: Iterable[Link]) -> None:
        """Drop the bytes under way on the given links."""
        for lane in self.lanes:
            if lane.link in links:
                lane.drop()

    def crash(self, node: int) -> Iterator[str]:
        """Simulate a crash of the machine at one end, and yield descriptions of the observed effect."""
        for lane in self.lanes:
            arrived, sent = lane.crash()
            if lane.link[0] == node and sent:
                yield f"of {sent:,} bytes under way to node {lane.link[1]} {arrived:,} arrived"
        asyncio.get_running_loop().call_later(_SILENCE_S, self.reset)

    def held_bytes_on(self, link: Link) -> int:
        """Return the number of bytes under way on the link."""
        return sum(lane.held_bytes for lane in self.lanes if lane.link == link)

    @property
    def has_lost(self) -> bool:
        """Whether any bytes of the connection were dropped, so that its stream is broken."""
        return self._forth.has_lost or self._back.has_lost

    def reset(self) -> None:
        """Abort both sockets and remove the connection."""
        self._reaching.cancel()
        for lane in self.lanes:
            if lane.source is not None:
                lane.source.abort()
        self._relay.remove_connection(self)


class Relay:
    """Relay of all connections of a cluster, which can delay, cut and lose bytes.

    `nodes` are the addresses at which the nodes listen."""

    def __init__(self, nodes: Mapping[int, str]) -> None:
        """Listen on a free port for each pair of nodes, in a thread of its own.

        `nodes` has the address of each node."""
        self._nodes = nodes
        self._connections: dict[_Connection, None] = {}
        self.delay_s = 0.0
        self._lost_bytes: dict[Link, int] = {}
        self.cut_links: frozenset[Link] = frozenset()
        self.ports: dict[Link, int] = {}
        """Port at which the link's first node calls the second."""
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="the wires", daemon=True)
        self._thread.start()
        self._call(self._listen)

    def close(self) -> None:
        """End all connections, and stop the thread; may be called again."""
        if self._loop.is_closed():
            return
        self._call(self._end)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_ANSWER_S_MAX)
        self._loop.close()

    def set_delay(self, seconds: float) -> None:
        """Set the delay of all links from now on."""

        async def change() -> None:
            """Set the delay of all later bytes."""
            self.delay_s = seconds

        self._call(change)

    def cut(self, links: Iterable[Link]) -> None:
        """Cut these links and restore all others."""
        wanted = frozenset(links)

        async def change() -> None:
            """Cut the wanted links, and reset connections that lost bytes once both their links are restored."""
            self.cut_links = wanted
            for connection in list(self._connections):
                connection.drop(wanted)
                if connection.has_lost and not wanted.intersection(connection.links):
                    connection.reset()

        self._call(change)

    def crash(self, node: int, wait_s: float = 0.0) -> str:
        """Simulate a crash of a node's machine and return a description of its bytes in flight.

        With `wait_s` it crashes at the worst moment, if there is one within that time."""

        async def change() -> str:
            """Wait for the worst moment, then crash the node's connections; return a description of the lost bytes."""
            await self._wait_for_worst_moment(node, wait_s)
            mine = [connection for connection in self._connections if node in connection.links[0]]
            return "; ".join(said for connection in mine for said in connection.crash(node))

        return self._call(change)

    async def _wait_for_worst_moment(self, node: int, wait_s: float) -> None:
        """Wait for the worst moment: acknowledged entries would then be in no log but the node's own.

        The acknowledgements are those that the node received a while ago."""
        acknowledgements: deque[tuple[float, int]] = deque()
        until = self._loop.time() + wait_s
        while (left_s := until - self._loop.time()) > 0:
            now = self._loop.time()
            lanes = [lane for connection in self._connections for lane in connection.lanes]
            answers = [lane.stream.acknowledged for lane in lanes if lane.link[1] == node]
            acknowledgements.append((now, max(answers, default=0)))
            while len(acknowledgements) > 1 and acknowledgements[1][0] <= now - _ANSWERED_S:
                acknowledgements.popleft()
            since, acknowledged = acknowledgements[0]
            worst = [
                lane.stream.find_shortest_log_part()
                for lane in lanes
                if lane.link[0] == node and lane.target is not None
            ]
            ends = [part.last_index for part in worst if part is not None]
            is_known = since <= now - _ANSWERED_S and bool(ends) and len(ends) == len(worst)
            if is_known and acknowledged - max(ends) >= max(1, _LOST_ENTRIES_MIN * left_s / wait_s):
                return
            await asyncio.sleep(_LOOK_S)

    def bytes_under_way(self, link: Link) -> int:
        """Return the number of bytes that this link holds and has not delivered."""

        async def count() -> int:
            """Sum the bytes under way on the link."""
            return sum(connection.held_bytes_on(link) for connection in self._connections)

        return self._call(count)

    def take_lost(self) -> dict[Link, int]:
        """Return the bytes that links have lost since the last call."""

        async def take() -> dict[Link, int]:
            """Return the dropped bytes by link since the last call."""
            lost, self._lost_bytes = self._lost_bytes, {}
            return lost

        return self._call(take)

    # in the thread of the wires

    def record_lost(self, link: Link, lost: int) -> None:
        """Add `lost` dropped bytes to the count of the link."""
        if lost:
            self._lost_bytes[link] = self._lost_bytes.get(link, 0) + lost

    def remove_connection(self, connection: _Connection) -> None:
        """Forget a connection that has ended."""
        self._connections.pop(connection, None)

    async def _listen(self) -> None:
        """Listen on a free port for each ordered pair of nodes."""
        for caller in self._nodes:
            for called, address in self._nodes.items():
                if caller != called:
                    listening = listen_on_free_port()
                    self.ports[caller, called] = listening.getsockname()[1]
                    host, _, port = address.rpartition(":")
                    accept = self._make_acceptor(caller, called, (host or HOST, int(port)))
                    self._servers.append(await self._loop.create_server(accept, sock=listening))

    def _make_acceptor(self, caller: int, called: int, address: tuple[str, int]) -> Callable[[], _End]:
        """Return the function that creates a relayed connection when `caller` connects."""

        def accept() -> _End:
            """Create and register a connection; return its protocol."""
            connection = _Connection(self, caller, called, address)
            self._connections[connection] = None
            return connection.front

        return accept

    async def _end(self) -> None:
        """Close all servers, and reset all connections."""
        for server in self._servers:
            server.close()
        for connection in list(self._connections):
            connection.reset()

    def _call(self, ask: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
        """Run a coroutine in the relay's event loop, from another thread, and return its result."""
        return asyncio.run_coroutine_threadsafe(ask(), self._loop).result(_ANSWER_S_MAX)
