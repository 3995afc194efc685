"""Wire in virtual time: a server with one worker that answers by a script."""

from collections.abc import Callable

from raftlog.loadgen import LoadTarget
from raftlog.loadgen.wire import Arrival

Script = Callable[[float, str, bytes], tuple[float, int, bytes, str]]
"""Maps start time, address and request to duration in seconds, status, body and leader."""
SENT = b'{"offsets":[{"offset":5,"error_code":null}]}'
PLACE = LoadTarget(["a:1", "b:2", "c:3"], "t", {0: "b:2"}, {0: 0})


class VirtualWire:
    """`Wire` in virtual time that serves requests one after another, in the order of sending."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._now = 100.0
        self._free_at = 0.0
        self._coming: list[Arrival] = []
        self.under_way_max = 0
        self.sent: list[tuple[float, int, str, bytes]] = []

    def now(self) -> float:
        return self._now

    def send(self, token: int, client: int, address: str, request: bytes) -> None:
        self.sent.append((self._now, client, address, request))
        begun = max(self._now, self._free_at)
        seconds, status, body, leader = self._script(begun, address, request)
        self._free_at = begun + seconds
        self._coming.append(Arrival(token, status, body, leader, self._free_at))
        self.under_way_max = max(self.under_way_max, len(self._coming))

    def wait(self, until: float) -> list[Arrival]:
        first = min((arrival.at for arrival in self._coming), default=until)
        assert until > self._now or first <= until, "the run waits for nothing, and time does not advance"
        self._now = max(self._now, min(first, until))
        ended = [arrival for arrival in self._coming if arrival.at <= self._now]
        self._coming = [arrival for arrival in self._coming if arrival.at > self._now]
        return ended
