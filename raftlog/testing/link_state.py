"""State of a link in the proxy: cut or not, its conditions, and its counters.

    start = time at which the link is free (rate) → + delay ± jitter → + time-outs of lost segments = arrival

All connections over a link share its state, and so its rate and its bound on held bytes: `held_bytes` ≤ `limit`, plus
the last piece of each connection. At the bound the proxy stops reading from the senders, until half of it is free."""

from collections.abc import Callable, Iterable
from random import Random
from typing import Final

from raftlog.testing.network_conditions import Link, NetworkConditions, TrafficCounters

HELD_BYTES_MAX: Final = 8 << 20
HELD_BYTES_MIN: Final = 64 << 10
RATE_S: Final = 1.0
"""Seconds of traffic at the set rate that may be held; more would add a delay that was not requested."""
SEGMENT_BYTES: Final = 1448
RETRANSMISSION_S: Final = 0.2
"""TCP's shortest time-out; it doubles with each further loss of the same segment."""
RETRANSMISSIONS_MAX: Final = 5
HOLD_BACK_S: Final = 0.1
"""Maximum extra delay of a datagram that is held back, so that later ones overtake it."""
PIECES_PER_S: Final = 20
LINKS_MAX: Final = 4096


class LinkState:
    """State and counters of a link. Times are those of the event loop, in seconds."""

    def __init__(self, random: Random) -> None:
        """Begin with a perfect link; `random` draws losses and delays."""
        self._random = random
        self.is_cut = False
        self.conditions: NetworkConditions | None = None
        """Network conditions; None if there are none, which costs nothing."""
        self.counters = TrafficCounters()
        self.held_bytes = 0
        self._free_at = 0.0
        self._waiting: list[Callable[[], None]] = []
        self._sent = self._last_arrived = 0

    def change(self, conditions: NetworkConditions | None) -> bool:
        """Set the conditions; return whether they differ from the earlier ones."""
        if conditions == self.conditions:
            return False
        self.conditions, self._free_at = conditions, 0.0
        return True

    # streams

    @property
    def piece_bytes(self) -> int:
        """Maximum number of stream bytes that arrive at once."""
        rate = self.conditions.rate_bytes_s if self.conditions is not None else 0.0
        return max(SEGMENT_BYTES, int(rate / PIECES_PER_S)) if rate else HELD_BYTES_MAX

    def draw_arrival_time(self, now: float, size: int) -> float:
        """Return the time at which stream bytes that are sent now arrive, with the random delays of the conditions."""
        conditions = self.conditions
        if conditions is None:
            return now
        return (
            self._pass_rate_limit(conditions, now, size)
            + self._draw_delay(conditions)
            + self._draw_stall(conditions, size)
        )

    @property
    def limit(self) -> int:
        """Maximum number of bytes that the link holds: the traffic of `RATE_S` at its rate."""
        rate = self.conditions.rate_bytes_s if self.conditions is not None else 0.0
        return int(min(HELD_BYTES_MAX, max(HELD_BYTES_MIN, rate * RATE_S))) if rate else HELD_BYTES_MAX

    @property
    def is_full(self) -> bool:
        return self.held_bytes >= self.limit

    def wait(self, resume: Callable[[], None]) -> None:
        """Register `resume`, to be called when the link has room again."""
        self._waiting.append(resume)

    def release(self, size: int) -> None:
        """Subtract `size` from the held bytes, and resume waiting senders if there is room."""
        self.held_bytes -= size
        if self._waiting and 2 * self.held_bytes <= self.limit:
            waiting, self._waiting = self._waiting, []
            for resume in waiting:
                resume()

    # datagrams

    def draw_arrival_times(self, now: float, size: int) -> tuple[float, ...]:
        """Return the arrival times of a datagram that is sent now: none if it is lost, two if it is duplicated."""
        conditions = self.conditions
        if conditions is None:
            return (now,)
        if self._random.random() < conditions.loss or self.held_bytes + size > self.limit:
            self.counters.lost_datagrams += 1
            return ()
        times = [self._pass_rate_limit(conditions, now, size) + self._draw_delay(conditions)]
        if self._random.random() < conditions.reorder:
            times[0] += self._random.uniform(0.0, HOLD_BACK_S)
        if self._random.random() < conditions.duplicate:
            self.counters.duplicated_datagrams += 1
            times.append(times[0] + self._draw_delay(conditions))
        return tuple(times)

    def next_number(self) -> int:
        """Return a sequence number for a datagram that is sent."""
        self._sent += 1
        return self._sent

    def count_arrival(self, number: int) -> None:
        """Count a datagram that arrived, and whether a later one was faster."""
        self.counters.passed_datagrams += 1
        self.counters.overtaken_datagrams += number < self._last_arrived
        self._last_arrived = max(number, self._last_arrived)

    # conditions

    def _pass_rate_limit(self, conditions: NetworkConditions, now: float, size: int) -> float:
        """Return the time at which the link has sent `size` bytes, which wait for the bytes before them."""
        if not conditions.rate_bytes_s:
            return now
        self._free_at = max(now, self._free_at) + size / conditions.rate_bytes_s
        return self._free_at

    def _draw_delay(self, conditions: NetworkConditions) -> float:
        """Return a random delay of the conditions, in seconds."""
        jitter = self._random.uniform(-conditions.jitter_ms, conditions.jitter_ms)
        return max(0.0, conditions.delay_ms + jitter) / 1000

    def _draw_stall(self, conditions: NetworkConditions, size: int) -> float:
        """Return the delay that retransmissions of lost segments cause, in seconds.

        Among segments that are lost at the same time only the one with the most time-outs counts."""
        if not conditions.loss:
            return 0.0
        segments = -(-size // SEGMENT_BYTES)
        lost = 0
        while lost < RETRANSMISSIONS_MAX:
            if self._random.random() < (1.0 - conditions.loss) ** segments:
                break
            lost, segments = lost + 1, 1
        self.counters.lost_segments += lost
        return RETRANSMISSION_S * ((1 << lost) - 1)


class LinkStates:
    """States of all links for one kind of traffic."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._states: dict[Link, LinkState] = {}

    def get(self, sender: int | None, receiver: int | None) -> LinkState:
        """Return the state of a link; unknown nodes, and links above the bound, share a state without faults."""
        if sender is None or receiver is None:
            return LinkState(self._random)
        link = (sender, receiver)
        if link not in self._states and len(self._states) >= LINKS_MAX:
            return LinkState(self._random)
        return self._states.setdefault(link, LinkState(self._random))

    def change(self, cut: Iterable[Link], conditions: dict[Link, NetworkConditions]) -> set[LinkState]:
        """Cut exactly these links and set exactly these conditions; return the states whose conditions changed."""
        cut = frozenset(cut)
        for link in [*cut, *conditions]:
            self.get(*link)
        changed = set()
        for link, link_state in self._states.items():
            link_state.is_cut = link in cut
            if link_state.change(conditions.get(link)):
                changed.add(link_state)
        return changed

    def counters(self) -> list[tuple[int, int, TrafficCounters]]:
        """Return the counters of all links: from node, to node, counters."""
        return [(*link, link_state.counters) for link, link_state in self._states.items()]
