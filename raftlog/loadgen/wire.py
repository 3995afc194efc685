"""Environment of a run: a clock and a transport for requests, real ones or, in tests, scripts and virtual time."""

from typing import Final, NamedTuple, Protocol

LOST: Final = 0
"""Value in place of a status: the connection broke after the request was sent, or no answer came in time."""
NEVER_SENT: Final = -1
"""Value in place of a status: no connection could be opened."""


class Arrival(NamedTuple):
    """End of a request. `at`: time by the wire's clock. `leader`: the address that the answer named; empty: none."""

    token: int
    status: int
    body: bytes
    leader: str
    at: float


class HttpWire(Protocol):
    """Interface for sending requests without blocking, with its own clock; only `wait` blocks."""

    def now(self) -> float:
        """Return the time in seconds."""
        ...

    def send(self, token: int, client: int, address: str, request: bytes) -> None:
        """Begin a client's request, which ends as an `Arrival` with this `token`."""
        ...

    def wait(self, until: float) -> list[Arrival]:
        """Wait for ended requests, at most until `until`, and return them."""
        ...
