"""Workload `broadcast`: values spread to all nodes through the topology's neighbours, despite lost messages.

    body      {"type": "gossip", "from": i, "to": j, "base": b, "values": […], "heard": h}
    values    the sender's values with indexes i to j - 1, without those that it received from the receiver
    base      the receiver has confirmed all values of the sender with lower indexes
    heard     the sender has all values of the receiver with lower indexes

    confirmed ≤ sent ≤ values here,   at most one message to a neighbour in `gossip_ms`

Values that are not confirmed are sent again after an interval, which doubles. A confirmation is sent with values, or
alone a little later. There is no log: a node that stops loses its values. Values are distinguished by their text."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from raftlog.api.maelstrom.errors import Malformed
from raftlog.api.maelstrom.messages import text_of
from raftlog.errors import Overloaded

TYPE: Final = "gossip"
VALUES_MAX: Final = 1_000_000
"""Maximum number of values of one node; further ones are refused."""
MESSAGE_VALUES_MAX: Final = 2_000
MESSAGE_CHARACTERS_MAX: Final = 1 << 20
_AGAIN_FIRST: Final = 20
_AGAIN_MAX: Final = 80
"""First and longest interval, in rounds, after which unconfirmed values are sent again."""
_CONFIRM_WITHIN: Final = 5
"""Rounds after which a confirmation is sent without values."""
_NEVER: Final = float("inf")
Body = dict[str, Any]


class _Peer:
    """State of the exchange with another node, as indexes into `BroadcastGossip.values`."""

    def __init__(self) -> None:
        self.confirmed = 0
        self.sent = 0
        self.has: set[int] = set()
        """Indexes of values that this peer sent; none below `confirmed`."""
        self.again_after = _AGAIN_FIRST
        """Rounds until unconfirmed values are sent again."""
        self.again_at = _NEVER
        self.heard = 0
        """Index in the peer's list below which this node has all values of the peer."""
        self.confirm_at = _NEVER
        """Latest time of the confirmation of `heard` to the peer."""


class BroadcastGossip:
    """Values of one node, and their exchange with other nodes. `post(name, body)` sends a message."""

    def __init__(self, others: Iterable[str], post: Callable[[str, Body], None], interval_s: float) -> None:
        """Exchange values with the nodes `others`; `post` sends a message, and rounds take `interval_s` seconds."""
        self.values: list[Any] = []
        self._texts: list[str] = []
        self._places: dict[str, int] = {}
        self._peers = {name: _Peer() for name in others}
        self._neighbours = set(self._peers)
        """Nodes to which values are sent: all until a topology is set. Never iterated, because its order varies."""
        self._post, self._interval_s = post, interval_s
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def set_neighbours(self, names: Sequence[object]) -> None:
        """Send values only to these nodes from now on."""
        self._neighbours = self._peers.keys() & set(filter(lambda name: isinstance(name, str), names))
        self._schedule_round()

    def add(self, value: object) -> None:
        """Add a client's value. Raises `Overloaded` and `Malformed`."""
        if len(self.values) >= VALUES_MAX:
            raise Overloaded(f"this node has its maximum of {VALUES_MAX} values")
        self._add_value(value)
        self._schedule_round()

    def receive(self, name: str, body: Body) -> None:
        """Process a message of another node. Raises `Malformed` and `Overloaded`."""
        peer = self._peers[name]
        match body:
            case {"from": int(first), "to": int(end), "base": int(base), "values": [*values], "heard": int(heard)} if (
                0 <= base <= first <= end
            ):
                if len(self.values) + len(values) > VALUES_MAX:
                    raise Overloaded(f"this node has its maximum of {VALUES_MAX} values")
                peer.has.update(self._add_value(value) for value in values)
                peer.heard = max(peer.heard, base)
                if first <= peer.heard:
                    peer.heard = max(peer.heard, end)
                if values:
                    peer.confirm_at = min(peer.confirm_at, self._loop.time() + _CONFIRM_WITHIN * self._interval_s)
                self._confirm(peer, heard)
                self._schedule_round()
            case _:
                raise Malformed("the gossip message cannot be decoded")

    def _add_value(self, value: object) -> int:
        """Return the index of a value; add the value if it is new."""
        text = text_of(value)
        place = self._places.setdefault(text, len(self.values))
        if place == len(self.values):
            self._texts.append(text)
            self.values.append(value)
        return place

    def _confirm(self, peer: _Peer, received: int) -> None:
        """Record that the peer has received the first `received` values; stop sending them again."""
        if peer.confirmed < received <= len(self.values):
            peer.confirmed = received
            peer.sent = max(peer.sent, received)
            peer.again_after = _AGAIN_FIRST
            is_open = peer.confirmed < peer.sent
            peer.again_at = self._loop.time() + peer.again_after * self._interval_s if is_open else _NEVER
        peer.has = {place for place in peer.has if place >= peer.confirmed}

    # rounds

    def _schedule_round(self) -> None:
        """Schedule the next round, unless one is scheduled."""
        if self._timer is None:
            self._timer = self._loop.call_later(self._interval_s, self._run_round)

    def stop(self) -> None:
        """Stop sending values."""
        if self._timer is not None:
            self._timer.cancel()

    def _run_round(self) -> None:
        """Send new values, values not confirmed in time, and confirmations; schedule the next round if needed."""
        self._timer = None
        now = self._loop.time()
        is_open = False
        for name, peer in self._peers.items():
            is_neighbour = name in self._neighbours
            values = self._next_values(peer, now) if is_neighbour else []
            if values or peer.confirm_at <= now:
                self._send(name, peer, values, now)
            is_open |= peer.confirm_at < _NEVER or (is_neighbour and peer.confirmed < len(self.values))
        if is_open:
            self._schedule_round()

    def _next_values(self, peer: _Peer, now: float) -> list[int]:
        """Return the indexes of the values to send now: new ones, or after a timeout all unconfirmed ones."""
        if peer.again_at <= now:
            peer.sent = peer.confirmed
            peer.again_after = min(2 * peer.again_after, _AGAIN_MAX)
        while peer.sent == peer.confirmed and peer.sent in peer.has:
            peer.has.discard(peer.sent)
            peer.sent = peer.confirmed = peer.sent + 1
        found: list[int] = []
        size = 0
        for place in range(peer.sent, len(self.values)):
            if place in peer.has:
                continue
            size += len(self._texts[place])
            if found and (size > MESSAGE_CHARACTERS_MAX or len(found) >= MESSAGE_VALUES_MAX):
                break
            found.append(place)
        return found

    def _send(self, name: str, peer: _Peer, places: Sequence[int], now: float) -> None:
        """Send values, and the confirmation of the peer's own values."""
        first = peer.sent
        if places:
            peer.sent = places[-1] + 1
            peer.again_at = now + peer.again_after * self._interval_s
        peer.confirm_at = _NEVER
        body = {
            "type": TYPE,
            "from": first,
            "to": peer.sent,
            "base": peer.confirmed,
            "values": [self.values[place] for place in places],
            "heard": peer.heard,
        }
        self._post(name, body)
