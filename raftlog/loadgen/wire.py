"""What a run needs of the world: a clock and a way for requests. Sockets and real time, or scripts and virtual time."""

from typing import Final, NamedTuple, Protocol

LOST: Final = 0
"""In place of a status: the connection broke after the request was sent, or no answer came in time."""
NEVER_SENT: Final = -1
"""No connection could be made."""


class Arrival(NamedTuple):
    """The end of a request. `at` is by the wire's clock; `leader` is whom the answer named, empty when nobody."""

    token: int
    status: int
    body: bytes
    leader: str
    at: float


class HttpWire(Protocol):
    """Nothing blocks but `wait`."""

    def now(self) -> float:
        """Seconds."""
        ...

    def send(self, token: int, client: int, address: str, request: bytes) -> None:
        """A client's request, over a connection of its own; `token` comes back with its end, which always comes."""
        ...

    def wait(self, until: float) -> list[Arrival]:
        """What ended, as soon as something did, and at `until` at the latest."""
        ...
