"""What one broker can be told. Settings of topics and logs are in `raftlog.config`."""

import os
from dataclasses import dataclass, field, replace

from raftlog.cluster_secret import ClusterSecret
from raftlog.config import DAY_MS, GIB, KIB, MIB, TopicConfig
from raftlog.errors import InvalidArgument
from raftlog.partitions.controller.settings import MetadataSettings
from raftlog.partitions.gossip.settings import GossipSettings, check_rack
from raftlog.partitions.groups.settings import GroupSettings
from raftlog.partitions.node.settings import NodeSettings, node_driver_config
from raftlog.records.partitioner import hash_by_name
from raftlog.runtime.config import DriverConfig
from raftlog.runtime.memory_budget import MEMORY_BUDGET_BYTES, MemoryShares
from raftlog.runtime.rpc.config import RpcConfig
from raftlog.runtime.rpc.tls import TlsContexts


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """Sizes in bytes, times in the unit that the name ends with."""

    data_dir: str
    """Where everything is kept; made when it is missing."""
    node_id: int = 1
    """The number of this broker; a data directory belongs to one number."""
    rpc: tuple[str, int] | None = None
    """Where other brokers reach this one; None: a broker alone, which listens to no other one. Port 0: any free one."""
    advertise_rpc: tuple[str, int] | None = None
    """The address that others are told, where it is not `rpc`."""
    advertise_http: str = ""
    """HOST:PORT that clients are told; empty: where the HTTP server listens."""
    seeds: tuple[tuple[str, int], ...] = ()
    """RPC addresses of the first brokers, the same list on each of them, or of any brokers of a cluster to join."""
    cluster_id: str | None = None
    """The cluster to found or to belong to; None: a new id, or whatever the data directory and the seeds say."""
    host_label: str = ""
    """Replicas of a partition never share one; empty: `node-{node_id}`."""
    rack: str = ""
    """Where the machine stands, as the others are told by gossip."""
    gossip: GossipSettings | None = None
    """Where and how to gossip with other brokers; None: not at all."""
    secret: ClusterSecret | None = None
    """What proves to other brokers that this one belongs to the cluster; needed with `rpc` unless the certificate names
    the node (`raftlog:node:<id>`)."""
    tls: TlsContexts | None = None
    """Certificates for the connections between brokers."""
    insecure: bool = False
    """Listen for other brokers where other machines can connect, without TLS."""
    partitioner: str = "murmur2"
    """How a key chooses its partition: `murmur2`, as Kafka's clients do, or `crc32`."""
    topic_config: TopicConfig = field(default_factory=TopicConfig)
    """Settings of topics that do not say otherwise."""
    partitions_per_topic_max: int = 10_000
    """A topic cannot be created with more partitions than this."""
    offsets_partitions: int = 16
    """Partitions of the internal topic for groups and their offsets, when it is created."""
    offsets_retention_ms: int = 7 * DAY_MS
    """What a group committed is forgotten when it had no members, and committed nothing, for so long."""
    group_min_session_timeout_ms: int = GroupSettings().min_session_timeout_ms
    """A member cannot ask for a shorter session: the time without a heartbeat after which it is out."""
    group_max_session_timeout_ms: int = GroupSettings().max_session_timeout_ms
    """Nor for a longer one."""
    group_initial_rebalance_delay_ms: int = GroupSettings().initial_rebalance_delay_ms
    """An empty group waits so long for more members after the first one."""
    group_members_max: int = GroupSettings().max_members
    """Members of one group."""
    groups_max: int = GroupSettings().max_groups
    """Groups of one partition of the internal topic."""
    consumer_instances_max: int = 1_000
    """Consumer instances of the REST face that may live on this broker; more are refused (429)."""
    consumer_instance_timeout_ms: int = 300_000
    """An instance that nobody used for so long is deleted."""
    memory_budget_bytes: int = MEMORY_BUDGET_BYTES
    """Held for all connections together: frames from other brokers, bodies of requests, answers (`MemoryShares`)."""
    open_files_max: int = 512
    """Descriptors of segments kept open; more files than these are reopened when they are used."""
    sync_threads: int = 4
    """Syncs that can run at once."""
    producers_max: int = 100_000
    """Idempotent producers that a partition led here knows; for one more the least recently used are expired."""
    partition_pending_bytes_max: int = 32 * MIB
    """Bytes of one partition that may wait for their append and sync; past it producers wait, then get 429."""
    broker_pending_bytes_max: int = 64 * MIB
    """The same for all partitions together."""
    accumulate_bytes_max: int = MIB
    """Single records that arrive together are put into batches of at most this size."""
    fetch_bytes_max: int = 16 * MIB
    """A fetch answers at most this much, and at least one batch, whatever it asks for."""
    fetch_wait_ms_max: int = 60_000
    """A fetch waits for new records at most this long, whatever it asks for."""
    opened_bytes_max: int = 64 * MIB
    """A compressed batch that opens to more than this is only given out as it is stored."""
    retention_interval_s: float = 60.0
    """Seconds between two looks for segments that retention deletes."""
    storage_min_free_bytes: int = 64 * MIB
    """With less room on the file system no records are taken (507), and leaderships go to brokers that have more;
    reads, trims and deletions go on in what is left. 1: only a disk that is really full refuses."""
    replica_lag_time_max_ms: int = 10_000
    """A replica is shown as in sync while it holds what was committed so long ago. For operators only:
    acknowledgements, `min.insync.replicas`, moves and rolling restarts go by what is committed now."""
    catch_up_bytes_per_s: int = 100 * MIB
    """What this broker sends a second, all together, to replicas elsewhere that catch up or are repaired."""
    scrub_interval_days: float = 7.0
    """Days in which the background scrub reads everything once; 0 turns it off."""
    metadata_growth_bytes_max: int = 4 * MIB
    """A log of metadata or of committed offsets is made shorter when it has grown by so much."""

    driver: DriverConfig = field(default_factory=node_driver_config)
    """Timing and sizes of the Raft groups and their journal."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "data_dir", os.path.abspath(self.data_dir))
        object.__setattr__(self, "host_label", self.host_label or f"node-{self.node_id}")
        hash_by_name(self.partitioner)
        check_rack(self.rack)
        for name, low, high in _BOUNDS:
            value = getattr(self, name)
            if not low <= value <= high:
                raise InvalidArgument(f"{name}={value} is out of range: it must lie in {low} … {high}")

    def node_settings(self) -> NodeSettings:
        """What the process below the façade is told."""
        host, port = self.rpc or (_LOOPBACK, None)
        scrub_ms = max(1, round(self.scrub_interval_days * DAY_MS)) if self.scrub_interval_days else _NO_SCRUB_MS
        return NodeSettings(
            data_dir=self.data_dir,
            node_id=self.node_id,
            host_label=self.host_label,
            rpc_host=host,
            rpc_port=port,
            cluster_id=self.cluster_id,
            driver=replace(self.driver, scrub_interval_ms=scrub_ms, storage_min_free_bytes=self.storage_min_free_bytes),
            rpc=RpcConfig(
                bulk_bytes_per_s=self.catch_up_bytes_per_s,
                receive_bytes_max=MemoryShares.of(self.memory_budget_bytes).frames,
            ),
            advertise_rpc=self.advertise_rpc,
            secret=self.secret,
            tls=self.tls,
            insecure=self.insecure,
            open_files_max=self.open_files_max,
            sync_threads=self.sync_threads,
        )

    def group_settings(self) -> GroupSettings:
        """What coordinators of groups are told."""
        return GroupSettings(
            min_session_timeout_ms=self.group_min_session_timeout_ms,
            max_session_timeout_ms=self.group_max_session_timeout_ms,
            initial_rebalance_delay_ms=self.group_initial_rebalance_delay_ms,
            max_groups=self.groups_max,
            max_members=self.group_members_max,
        )

    def metadata_settings(self) -> MetadataSettings:
        """What the host of the controller's group is told."""
        return MetadataSettings(seeds=self.seeds, snapshot_log_bytes=self.metadata_growth_bytes_max)


_LOOPBACK = "127.0.0.1"
_NO_SCRUB_MS = 10_000 * 365 * DAY_MS

_BOUNDS: tuple[tuple[str, float, float], ...] = (
    ("producers_max", 1, 10_000_000),
    ("node_id", 0, (1 << 31) - 1),
    ("partitions_per_topic_max", 1, 10_000),
    ("memory_budget_bytes", MIB, 1 << 40),
    ("open_files_max", 16, 1 << 20),
    ("sync_threads", 1, 64),
    ("partition_pending_bytes_max", 64 * KIB, 4 * GIB),
    ("broker_pending_bytes_max", 64 * KIB, 16 * GIB),
    ("accumulate_bytes_max", 4 * KIB, 64 * MIB),
    ("fetch_bytes_max", 4 * KIB, 256 * MIB),
    ("fetch_wait_ms_max", 0, 3_600_000),
    ("opened_bytes_max", 64 * KIB, GIB),
    ("retention_interval_s", 0.01, 86_400),
    ("storage_min_free_bytes", 1, 1 << 50),
    ("replica_lag_time_max_ms", 0, DAY_MS),
    ("catch_up_bytes_per_s", MIB, 64 * GIB),
    ("scrub_interval_days", 0, 3_650),
    ("offsets_partitions", 1, 1_000),
    ("offsets_retention_ms", 1, 3_650 * DAY_MS),
    ("group_min_session_timeout_ms", 1, DAY_MS),
    ("group_max_session_timeout_ms", 1, DAY_MS),
    ("group_initial_rebalance_delay_ms", 0, 60_000),
    ("group_members_max", 1, 10_000),
    ("groups_max", 1, 1_000_000),
    ("consumer_instances_max", 0, 100_000),
    ("consumer_instance_timeout_ms", 1, 7 * DAY_MS),
    ("metadata_growth_bytes_max", 16 * KIB, GIB),
)
