"""Plan of a run: the load to offer, its targets, and its duration."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from raftlog.errors import InvalidArgument
from raftlog.loadgen.mix import Mix

IN_FLIGHT_MAX: Final = 4_096
"""Bound on requests in flight of all clients together; each request has a connection of its own."""


class LoadMode(StrEnum):
    """Rule for the start of the next operation."""

    OPEN = "open"
    """Start at the scheduled time, independent of earlier operations; the latency counts from that time."""
    CLOSED = "closed"
    """Start after an earlier operation has ended; the latency counts from the send."""


class Targeting(StrEnum):
    """Choice of the broker for an operation."""

    SMART = "smart"
    """The leading broker, as far as earlier answers named it."""
    ANY = "any"
    """Each broker in turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """Settings of a run; raises `InvalidArgument` for invalid ones. Rates are operations a second."""

    mode: LoadMode
    seconds: float
    mix: Mix
    rate: float = 1_000.0
    """Rate of all clients together; closed loops ignore it."""
    clients: int = 4
    in_flight: int = 16
    """Bound on the operations in flight of one client; in an open loop further operations wait, and so are late."""
    targeting: Targeting = Targeting.SMART
    value_bytes: int = 100
    records: int = 1
    """Number of records in one send: a single record is sent as JSON, several as one stored batch."""
    timeout_ms: int = 10_000
    seed: int = 1

    def __post_init__(self) -> None:
        """Raise `InvalidArgument` for a number that is not above 0, or for too many operations in flight."""
        for name in ("rate", "seconds", "clients", "in_flight", "records", "timeout_ms", "value_bytes"):
            if not getattr(self, name) > 0:
                raise InvalidArgument(f"{name} is {getattr(self, name)}; it must be above 0")
        if self.clients * self.in_flight > IN_FLIGHT_MAX:
            raise InvalidArgument(
                f"{self.clients} clients with {self.in_flight} operations in flight each are too many; "
                f"the bound is {IN_FLIGHT_MAX} operations in flight"
            )

    @property
    def offered(self) -> int | None:
        """Number of operations to start in the whole run; None in a closed loop."""
        return max(1, round(self.rate * self.seconds)) if self.mode is LoadMode.OPEN else None
