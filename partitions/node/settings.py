"""What one process of a cluster can be told. Those of the driver and of the transport are nested."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from raftlog.cluster_secret import ClusterSecret
from raftlog.errors import InvalidArgument
from raftlog.raft import RaftSettings
from raftlog.runtime.config import DriverConfig
from raftlog.runtime.rpc.config import RpcConfig
from raftlog.runtime.rpc.tls import TlsContexts, check_certificate
from raftlog.types import NodeId


def node_driver_config() -> DriverConfig:
    """Election timeouts of 315 to 630 ms, heartbeats every 105 ms; a group sleeps after a second without work.

    Shorter ticks find a dead leader sooner and cost every idle process more.
    """
    return DriverConfig(tick_ms=35, raft=RaftSettings(election_ticks_min=9, quiesce_after_ticks=28))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """Sizes in bytes, times in milliseconds."""

    data_dir: str
    """Where everything is kept; made when it is missing. It belongs to one node id and one process."""
    node_id: int
    host_label: str
    """Replicas of a partition never share one."""
    rpc_host: str = "127.0.0.1"
    rpc_port: int | None = 0
    """0: any free one. None: it does not listen, for a process that is alone."""
    cluster_id: str | None = None
    """None: whatever the directory says, or none yet."""
    peers: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    """The other nodes and where they are, as far as known; `Node.set_peers` changes it. With any, this process waits
    for one handshake before its groups do anything: it could run on an old copy of its disk."""
    driver: DriverConfig = field(default_factory=node_driver_config)
    rpc: RpcConfig = field(default_factory=RpcConfig)
    advertise_rpc: tuple[str, int] | None = None
    """The address that others are told, where it is not the one that is bound."""
    secret: ClusterSecret | None = None
    """What proves to other processes that this one belongs to the cluster; None: its certificate does."""
    tls: TlsContexts | None = None
    insecure: bool = False
    """Listen where other machines can connect, without TLS."""
    open_files_max: int = 512
    """Descriptors of segments and journal kept open; files past it are opened again when they are used."""
    sync_threads: int = 4
    """Syncs that can run at once."""
    sync_method: str = "auto"
    """Method for the syncs of commits: `aio` (Linux AIO), `threads`, or `auto`: the faster one, as measured."""
    peers_save_ms: int = 10_000
    """What is remembered of other disks is saved at least this often while it changes."""
    housekeeping_ms: int = 1_000
    """Between two looks at leaders and at what is to be saved."""
    transfers_max: int = 8
    """Leaderships that this process hands to preferred leaders at the same time."""
    transfer_lag_entries_max: int = 1_024
    """A preferred leader that lacks more entries than these is not caught up."""
    settle_ms: int = 3_000
    """A node is given leaderships once it has been connected for so long."""
    transfer_retry_ms: int = 5_000
    """After a hand-over that did not happen the group is left alone for so long; doubled each time, up to 64 times."""
    slow_rest_ms: int = 10_000
    """After a stall of its disk or loop a process leads nothing for so long, if others can; doubled each time that it
    stalls again soon afterwards, up to 32 times."""
    stop_transfers_ms: int = 1_200
    """An orderly stop takes so much time at most to hand leaderships over."""
    stop_answers_ms: int = 400
    """Then so much to answer what others have asked."""
    stop_flush_ms: int = 1_200
    """And so much to make durable what was taken."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "data_dir", os.path.abspath(self.data_dir))
        for name, low, high in _BOUNDS:
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise InvalidArgument(f"{name}={value} is out of range: it must lie in {low} … {high}")
        if self.tls is not None:
            check_certificate(self.tls, NodeId(self.node_id))
        if self.node_id in self.peers:
            raise InvalidArgument(f"node {self.node_id} is named among its own peers")


_BOUNDS: tuple[tuple[str, int, int], ...] = (
    ("node_id", 0, (1 << 31) - 1),
    ("rpc_port", 0, 65_535),
    ("open_files_max", 16, 1 << 20),
    ("sync_threads", 1, 64),
    ("peers_save_ms", 100, 600_000),
    ("housekeeping_ms", 10, 60_000),
    ("transfers_max", 1, 10_000),
    ("transfer_lag_entries_max", 0, 1 << 20),
    ("settle_ms", 0, 600_000),
    ("transfer_retry_ms", 1, 600_000),
    ("slow_rest_ms", 1, 600_000),
    ("stop_transfers_ms", 0, 60_000),
    ("stop_answers_ms", 0, 60_000),
    ("stop_flush_ms", 0, 60_000),
)
