"""Settings of one broker's gossip."""

from dataclasses import dataclass
from typing import Final

from raftlog.errors import InvalidArgument

RACK_BYTES_MAX: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class GossipSettings:
    """Address for gossip. The keys are derived from the cluster secret; without a secret there is no gossip."""

    host: str = "127.0.0.1"
    port: int = 0
    """Port for UDP and TCP; 0 takes any port that is free for both."""
    advertise: tuple[str, int] | None = None
    """Address that is advertised to other brokers; None: the bound one."""
    advertise_host: str = ""
    """Host to advertise with the bound port, when `advertise` is None; empty: the bound host."""
    is_required: bool = True
    """Whether the port must be available.

    Otherwise any free port is used, and without one the broker runs without gossip."""

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65_535:
            raise InvalidArgument(f"the gossip port {self.port} is out of range: it must be 0 to 65535")


def check_rack(rack: str) -> None:
    """Raise `InvalidArgument` for a rack that is too long for a description."""
    if len(rack.encode()) > RACK_BYTES_MAX:
        raise InvalidArgument(f"the rack {rack[:80]!r} is too long: the limit is {RACK_BYTES_MAX} bytes")
