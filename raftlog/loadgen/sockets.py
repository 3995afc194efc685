"""Requests over real connections in real time; a client opens lanes to a broker on demand.

    lanes of a client to a broker ≤ its requests in flight;   every request ends: answered, broken, or timed out

Waits are exact to the microsecond: `select` on the selector's own descriptor has that resolution, while the timeouts of
epoll are whole milliseconds."""

import select
import selectors
import ssl
import time
from collections import defaultdict

from raftlog.context import ClosedAtExit
from raftlog.loadgen.lane import LaneBroken, RequestLane
from raftlog.loadgen.wire import LOST, NEVER_SENT, Arrival

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class SocketWire(ClosedAtExit):
    """`HttpWire` over sockets; its `with` block closes the connections."""

    def __init__(self, timeout_s: float, tls: ssl.SSLContext | None = None) -> None:
        """Create no connection yet; a request without an answer fails after `timeout_s` seconds."""
        self._timeout_s, self._tls = timeout_s, tls
        self._selector = selectors.DefaultSelector()
        self._idle: defaultdict[tuple[int, str], list[RequestLane]] = defaultdict(list)
        self._busy: dict[int, RequestLane] = {}
        """Lanes with a request in flight by its token, in the order of their deadlines."""
        self._ended: list[Arrival] = []

    def close(self) -> None:
        for key in list(self._selector.get_map().values()):
            key.data.close()
        self._selector.close()

    def now(self) -> float:
        return time.perf_counter()

    def send(self, token: int, client: int, address: str, request: bytes) -> None:
        """Send a request over an idle connection of the client to this address, or over a new one."""
        idle = self._idle[client, address]
        try:
            lane = idle.pop() if idle else self._connect(client, address)
        except OSError:
            self._ended.append(Arrival(token, NEVER_SENT, b"", "", self.now()))
            return
        self._busy[token] = lane
        try:
            lane.begin(token, request, self.now() + self._timeout_s)
            self._watch(lane)
        except LaneBroken:
            self._drop(lane)

    def wait(self, until: float) -> list[Arrival]:
        """Wait for ended requests, at most until `until`, and return them."""
        self._expire()
        if not self._ended:
            oldest = next(iter(self._busy.values()), None)
            if oldest is not None:
                until = min(until, oldest.deadline)
            self._poll(max(0.0, until - self.now()))
        ended, self._ended = self._ended, []
        return ended

    def _poll(self, seconds: float) -> None:
        """Wait at most `seconds` for socket events, and process them."""
        if not select.select((self._selector,), (), (), seconds)[0]:
            return
        for key, events in self._selector.select(0):
            lane: RequestLane = key.data
            try:
                if events & _WRITE:
                    lane.handle_writable()
                    self._watch(lane)
                if events & _READ:
                    self._read(lane)
                    if lane.is_secured:
                        self._watch(lane)
            except LaneBroken:
                self._drop(lane)

    def _connect(self, client: int, address: str) -> RequestLane:
        """Open a connection and watch its socket; raises `OSError`."""
        key = (client, address)
        lane = RequestLane(address, key, self._tls)
        self._selector.register(lane.socket, _READ | _WRITE, lane)
        return lane

    def _watch(self, lane: RequestLane) -> None:
        """Watch the socket for writing only while the connection has bytes to send."""
        events = _READ | _WRITE if lane.wants_to_write else _READ
        if self._selector.get_key(lane.socket).events != events:
            self._selector.modify(lane.socket, events, lane)

    def _read(self, lane: RequestLane) -> None:
        """Read from a lane; a complete answer ends its request and makes the lane idle."""
        token = lane.token
        answer = lane.handle_readable()
        if answer is not None:
            del self._busy[token]
            self._idle[lane.key].append(lane)
            self._ended.append(Arrival(token, *answer, self.now()))

    def _drop(self, lane: RequestLane) -> None:
        """Close a lane that broke or timed out, and end its request."""
        self._selector.unregister(lane.socket)
        lane.close()
        if lane.token >= 0:
            del self._busy[lane.token]
            status = LOST if lane.is_sent else NEVER_SENT
            self._ended.append(Arrival(lane.token, status, b"", "", self.now()))
        elif lane in self._idle[lane.key]:
            self._idle[lane.key].remove(lane)

    def _expire(self) -> None:
        """End the requests whose deadline has passed, and close their lanes."""
        now = self.now()
        while self._busy and (oldest := next(iter(self._busy.values()))).deadline <= now:
            self._drop(oldest)
