"""State of one way from node to node in the proxy: whether it is cut, its weather, and its counts.

    start = when the way is free (rate) → + delay ± jitter → + time-outs of lost segments = arrival

All connections over a way share its lane, and so its rate and its bound on held bytes: `held_bytes` ≤ `limit`, plus
the last piece of each connection; above that the proxy stops reading from the senders until half of it is released."""

from collections.abc import Callable, Iterable
from random import Random
from typing import Final

from raftlog.testing.weather import LaneSeen, Weather

HELD_BYTES_MAX: Final = 8 << 20
HELD_BYTES_MIN: Final = 64 << 10
RATE_S: Final = 1.0
"""Seconds of traffic at the set rate that may be held; more would add a delay that was not asked for."""
SEGMENT_BYTES: Final = 1448
RETRANSMISSION_S: Final = 0.2
"""TCP's shortest time-out; it doubles with each further loss of the same segment."""
RETRANSMISSIONS_MAX: Final = 5
HOLD_BACK_S: Final = 0.1
"""Longest extra delay of a datagram that later ones are to overtake."""
PIECES_PER_S: Final = 20
LANES_MAX: Final = 4096

Way = tuple[int, int]


class NetworkLane:
    """State and counts of one way. Times are those of the event loop, in seconds."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.is_cut = False
        self.weather: Weather | None = None
        """None is fair weather, and costs nothing."""
        self.seen = LaneSeen()
        self.held_bytes = 0
        self._free_at = 0.0
        self._waiting: list[Callable[[], None]] = []
        self._sent = self._last_arrived = 0

    def change(self, weather: Weather | None) -> bool:
        """Set the weather; return whether it differs from the one before."""
        if weather == self.weather:
            return False
        self.weather, self._free_at = weather, 0.0
        return True

    # streams

    @property
    def piece_bytes(self) -> int:
        """Bound on the bytes that arrive at once."""
        rate = self.weather.rate_bytes_s if self.weather is not None else 0.0
        return max(SEGMENT_BYTES, int(rate / PIECES_PER_S)) if rate else HELD_BYTES_MAX

    def arrival(self, now: float, size: int) -> float:
        """Return the arrival time of bytes of a stream that are sent now."""
        weather = self.weather
        if weather is None:
            return now
        return self._through(weather, now, size) + self._delay(weather) + self._stall(weather, size)

    @property
    def limit(self) -> int:
        rate = self.weather.rate_bytes_s if self.weather is not None else 0.0
        return int(min(HELD_BYTES_MAX, max(HELD_BYTES_MIN, rate * RATE_S))) if rate else HELD_BYTES_MAX

    @property
    def is_full(self) -> bool:
        return self.held_bytes >= self.limit

    def wait(self, resume: Callable[[], None]) -> None:
        """Call `resume` once there is room again."""
        self._waiting.append(resume)

    def release(self, size: int) -> None:
        """Subtract from the held bytes, and resume the waiting senders if there is room."""
        self.held_bytes -= size
        if self._waiting and 2 * self.held_bytes <= self.limit:
            waiting, self._waiting = self._waiting, []
            for resume in waiting:
                resume()

    # datagrams

    def arrivals(self, now: float, size: int) -> tuple[float, ...]:
        """Return the arrival times of a datagram that is sent now: none if it is lost, two if it is duplicated."""
        weather = self.weather
        if weather is None:
            return (now,)
        if self._random.random() < weather.loss or self.held_bytes + size > self.limit:
            self.seen.lost_datagrams += 1
            return ()
        times = [self._through(weather, now, size) + self._delay(weather)]
        if self._random.random() < weather.reorder:
            times[0] += self._random.uniform(0.0, HOLD_BACK_S)
        if self._random.random() < weather.duplicate:
            self.seen.duplicated_datagrams += 1
            times.append(times[0] + self._delay(weather))
        return tuple(times)

    def number(self) -> int:
        """Return the sequence number of the next datagram."""
        self._sent += 1
        return self._sent

    def note_arrival(self, number: int) -> None:
        self.seen.passed_datagrams += 1
        self.seen.overtaken_datagrams += number < self._last_arrived
        self._last_arrived = max(number, self._last_arrived)

    # weather

    def _through(self, weather: Weather, now: float, size: int) -> float:
        if not weather.rate_bytes_s:
            return now
        self._free_at = max(now, self._free_at) + size / weather.rate_bytes_s
        return self._free_at

    def _delay(self, weather: Weather) -> float:
        jitter = self._random.uniform(-weather.jitter_ms, weather.jitter_ms)
        return max(0.0, weather.delay_ms + jitter) / 1000

    def _stall(self, weather: Weather, size: int) -> float:
        """Return the delay by retransmissions, in seconds.

        Of the segments lost at the same time only the one with the most time-outs counts."""
        if not weather.loss:
            return 0.0
        segments = -(-size // SEGMENT_BYTES)
        lost = 0
        while lost < RETRANSMISSIONS_MAX:
            if self._random.random() < (1.0 - weather.loss) ** segments:
                break
            lost, segments = lost + 1, 1
        self.seen.lost_segments += lost
        return RETRANSMISSION_S * ((1 << lost) - 1)


class Lanes:
    """Lanes of one kind of traffic, by sender and receiver."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._lanes: dict[Way, NetworkLane] = {}

    def lane(self, sender: int | None, receiver: int | None) -> NetworkLane:
        """Return the lane of a way; an unknown node, or a way above the bound, gets one without faults."""
        if sender is None or receiver is None:
            return NetworkLane(self._random)
        way = (sender, receiver)
        if way not in self._lanes and len(self._lanes) >= LANES_MAX:
            return NetworkLane(self._random)
        return self._lanes.setdefault(way, NetworkLane(self._random))

    def change(self, cut: Iterable[Way], weather: dict[Way, Weather]) -> set[NetworkLane]:
        """Cut exactly these ways and set exactly this weather; return the lanes whose weather changed."""
        cut = frozenset(cut)
        for way in [*cut, *weather]:
            self.lane(*way)
        changed = set()
        for way, lane in self._lanes.items():
            lane.is_cut = way in cut
            if lane.change(weather.get(way)):
                changed.add(lane)
        return changed

    def seen(self) -> list[tuple[int, int, LaneSeen]]:
        return [(*way, lane.seen) for way, lane in self._lanes.items()]
