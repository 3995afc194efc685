"""Settings of one broker's gossip."""

from dataclasses import dataclass
from typing import Final

from raftlog.errors import InvalidArgument

RACK_BYTES_MAX: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class GossipSettings:
    """Where to gossip. The keys are derived from the cluster secret; without one there is no gossip."""

    host: str = "127.0.0.1"
    port: int = 0
    """0: any that is free for UDP and TCP."""
    advertise: tuple[str, int] | None = None
    """The address that others are told, where it is not the one that is bound."""
    advertise_host: str = ""
    """Without that: the host that they are told, with the port that is bound."""
    is_required: bool = True
    """Without it, any other port will do, and where there is none the broker goes on without gossip."""

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65_535:
            raise InvalidArgument(f"the gossip port {self.port} is out of range: it must lie in 0 … 65535")


def check_rack(rack: str) -> None:
    """Raises `InvalidArgument` for a rack that a description has no room for."""
    if len(rack.encode()) > RACK_BYTES_MAX:
        raise InvalidArgument(f"the rack {rack[:80]!r} is too long: it can have {RACK_BYTES_MAX} bytes")
