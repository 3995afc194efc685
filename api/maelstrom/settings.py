"""Settings of a Maelstrom node."""

from dataclasses import dataclass
from typing import Final

from raftlog.raft import RaftSettings
from raftlog.runtime.config import DriverConfig
from raftlog.runtime.journal.config import JournalConfig
from raftlog.runtime.rpc.config import RpcConfig
from raftlog.setting_bounds import bounded_field, check_bounds
from raftlog.topic_config import KIB, MIB

_STALL_TICKS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class MaelstromSettings:
    """Settings of a node; times are in milliseconds."""

    data_dir: str
    """Directory of the data; nodes of a cluster may share it, because each creates a subdirectory of its own name."""
    groups: int = bounded_field(3, 1, 1024)
    """Raft groups over which keys are spread; the same at every node."""
    tick_ms: int = bounded_field(100, 1, 1_000_000)
    """Tick of Raft. A follower campaigns after 10 to 20 ticks without its leader; a round trip must be shorter."""
    linger_ms: int = bounded_field(5, 0, 1_000)
    """Time that a message to another node waits to be sent with further ones; 0: to the end of the loop's turn."""
    gossip_ms: int = bounded_field(50, 1, 1_000_000)
    """Time between two messages with broadcast values to one neighbour."""
    timeout_ms: int = bounded_field(4_000, 1, 1_000_000)
    """Time until a request is answered, with a result or an error. Maelstrom's clients wait for 5 seconds."""

    def __post_init__(self) -> None:
        check_bounds(self)

    def driver_config(self) -> DriverConfig:
        """Return driver settings with small files, for many nodes on one disk, and messages that fit into a line."""
        return DriverConfig(
            tick_ms=self.tick_ms,
            raft=RaftSettings(quiesce_after_ticks=20, message_bytes_max=256 * KIB),
            journal=JournalConfig(
                file_bytes=2 * MIB, write_bytes_max=MIB, reserve_bytes=256 * KIB, checkpoint_bytes=8 * MIB
            ),
            segment_bytes=64 * MIB,
            transfer_chunk_bytes=256 * KIB,
            stall_ms=max(1_000, _STALL_TICKS * self.tick_ms),
        )


RPC: Final = RpcConfig(
    frame_bytes_max=4 * MIB,
    body_bytes_max=2 * MIB,
    header_bytes_max=MIB,
    turn_bytes=MIB,
    calls_outstanding_max=16 * KIB,
    calls_served_max=4 * KIB,
    served_bytes_max=16 * MIB,
)
"""Bounds of messages between nodes, before they are written as text."""
