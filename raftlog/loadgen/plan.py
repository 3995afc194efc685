"""What is offered, to whom, for how long."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from raftlog.errors import InvalidArgument
from raftlog.loadgen.mix import Mix

IN_FLIGHT_MAX: Final = 4_096
"""Of all clients together; each has a connection of its own."""


class LoadMode(StrEnum):
    """When the next operation begins."""

    OPEN = "open"
    """At its time, whatever became of those before; a latency counts from that time."""
    CLOSED = "closed"
    """When an earlier one has ended; a latency counts from the send."""


class Targeting(StrEnum):
    """Which broker an operation goes to."""

    SMART = "smart"
    """The one that leads, as answers have said."""
    ANY = "any"
    """Each broker in turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """Raises `InvalidArgument` for what cannot be. Rates are operations a second."""

    mode: LoadMode
    seconds: float
    mix: Mix
    rate: float = 1_000.0
    """Offered by all clients together; closed loops have none."""
    clients: int = 4
    in_flight: int = 16
    """Operations that one client has under way at most; in an open loop further ones wait, and are late."""
    targeting: Targeting = Targeting.SMART
    value_bytes: int = 100
    records: int = 1
    """In one send: single records go as JSON, more of them as one stored batch."""
    timeout_ms: int = 10_000
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("rate", "seconds", "clients", "in_flight", "records", "timeout_ms", "value_bytes"):
            if not getattr(self, name) > 0:
                raise InvalidArgument(f"{name} is {getattr(self, name)}; it has to be above 0")
        if self.clients * self.in_flight > IN_FLIGHT_MAX:
            raise InvalidArgument(
                f"{self.clients} clients with {self.in_flight} operations in flight each are too many; "
                f"{IN_FLIGHT_MAX} operations are possible"
            )

    @property
    def offered(self) -> int | None:
        """Operations of the whole run; None where there is no rate."""
        return max(1, round(self.rate * self.seconds)) if self.mode is LoadMode.OPEN else None
