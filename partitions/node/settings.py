"""Settings of one process of a cluster, with those of the driver and of the transport."""

import os
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field

from raftlog.cluster_secret import ClusterSecret
from raftlog.errors import InvalidArgument
from raftlog.raft import RaftSettings
from raftlog.runtime.config import DriverConfig
from raftlog.runtime.rpc.config import RpcConfig
from raftlog.runtime.rpc.tls import TlsContexts, check_certificate
from raftlog.setting_bounds import bounded_field, check_bounds
from raftlog.topic_config import KIB
from raftlog.types import NodeId


def node_driver_config() -> DriverConfig:
    """Return election timeouts of 315 to 630 ms, heartbeats every 105 ms, quiescence after 1 s without work.

    Shorter ticks detect a dead leader sooner and cost every idle process more."""
    raft = RaftSettings(election_ticks_min=9, quiesce_after_ticks=28, deferred_bytes_max=16 * KIB)
    return DriverConfig(tick_ms=35, raft=raft)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """Settings of a node: sizes in bytes, times in milliseconds."""

    data_dir: str
    """Directory of all data; created if it is missing. It belongs to one node id and one process."""
    node_id: int = bounded_field(MISSING, 0, (1 << 31) - 1)
    host_label: str
    """Name of the host; replicas of a partition never share one."""
    rpc_host: str = "127.0.0.1"
    rpc_port: int | None = bounded_field(0, 0, 65_535)
    """Port; 0: any free one. None: does not listen, for a cluster of one process."""
    cluster_id: str | None = None
    """Id of the cluster; None: the id in the directory, or none yet."""
    peers: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    """Addresses of the other nodes, as far as known; `Node.set_peers` changes them.

    With any, this process waits for one handshake before its groups begin: it could run on an old copy of its disk."""
    driver: DriverConfig = field(default_factory=node_driver_config)
    rpc: RpcConfig = field(default_factory=RpcConfig)
    advertise_rpc: tuple[str, int] | None = None
    """Address that other nodes use, where it differs from the bound one."""
    secret: ClusterSecret | None = None
    """Secret that authenticates this process in the cluster; None: the certificate authenticates it."""
    tls: TlsContexts | None = None
    insecure: bool = False
    """Whether to listen without TLS where other machines can connect."""
    open_files_max: int = bounded_field(512, 16, 1 << 20)
    """Descriptors of segments and journal kept open; further files are reopened on use."""
    sync_threads: int = bounded_field(4, 1, 64)
    """Concurrent syncs."""
    sync_method: str = "auto"
    """Method for the syncs of commits: `aio` (Linux AIO), `threads`, or `auto`: the faster one, as measured."""
    peers_save_ms: int = bounded_field(10_000, 100, 600_000)
    """Longest interval between saves of the memory of other disks while it changes."""
    housekeeping_ms: int = bounded_field(1_000, 10, 60_000)
    """Interval of the checks of leaders and of unsaved state."""
    transfers_max: int = bounded_field(8, 1, 10_000)
    """Concurrent leadership transfers to preferred leaders."""
    transfer_lag_entries_max: int = bounded_field(1_024, 0, 1 << 20)
    """Missing entries up to which a preferred leader counts as caught up."""
    settle_ms: int = bounded_field(3_000, 0, 600_000)
    """Time for which a node has to be connected before it receives leaderships."""
    transfer_retry_ms: int = bounded_field(5_000, 1, 600_000)
    """Pause of a group after a failed transfer; doubled for each further one, up to the 64-fold."""
    unfit_ms: int = bounded_field(10_000, 1, 600_000)
    """Time for which a process leads nothing after a stall of its disk or loop, if others can.

    Doubled for each stall that follows soon after such a time, up to the 32-fold."""
    stop_transfers_ms: int = bounded_field(1_200, 0, 60_000)
    """Longest time of an orderly stop for leadership transfers."""
    stop_answers_ms: int = bounded_field(400, 0, 60_000)
    """Longest time, after the transfers, for answers to requests of other nodes."""
    stop_flush_ms: int = bounded_field(1_200, 0, 60_000)
    """Longest time, after these answers, for the sync of accepted entries."""

    def __post_init__(self) -> None:
        """Make the data directory absolute. Raises `InvalidArgument` for settings out of range or in contradiction."""
        object.__setattr__(self, "data_dir", os.path.abspath(self.data_dir))
        check_bounds(self)
        if self.tls is not None:
            check_certificate(self.tls, NodeId(self.node_id))
        if self.node_id in self.peers:
            raise InvalidArgument(f"node {self.node_id} is named among its own peers")
