"""Settings of one broker; those of topics and logs are in `raftlog.topic_config`."""

import os
from dataclasses import dataclass, field, replace

from raftlog.cluster_secret import ClusterSecret
from raftlog.errors import InvalidArgument
from raftlog.partitions.controller.settings import MetadataSettings
from raftlog.partitions.gossip.settings import GossipSettings, check_rack
from raftlog.partitions.groups.settings import GroupSettings
from raftlog.partitions.node.settings import NodeSettings, node_driver_config
from raftlog.partitions.transactions.settings import TransactionSettings
from raftlog.records.partitioner import find_hash
from raftlog.runtime.config import DriverConfig
from raftlog.runtime.memory_budget import MEMORY_BUDGET_BYTES, MemoryShares
from raftlog.runtime.rpc.config import RpcConfig
from raftlog.runtime.rpc.tls import TlsContexts
from raftlog.setting_bounds import bounded_field, check_bounds
from raftlog.topic_config import DAY_MS, GIB, KIB, MIB, TopicConfig

SYNC_METHODS = ("auto", "aio", "threads")
AUTHORIZATION_OFF, AUTHORIZATION_ACL = AUTHORIZATIONS = ("none", "acl")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """Settings of one broker: sizes in bytes, times in the unit at the end of the name."""

    data_dir: str
    """Data directory; created when it is missing."""
    node_id: int = bounded_field(1, 0, (1 << 31) - 1)
    """Node id of this broker; a data directory belongs to one node id."""
    rpc: tuple[str, int] | None = None
    """Address to listen on for other brokers; None: a single broker that does not listen. Port 0: any free port."""
    advertise_rpc: tuple[str, int] | None = None
    """Address that is advertised to other brokers, when it is not `rpc`."""
    advertise_http: str = ""
    """HOST:PORT that is advertised to clients; empty: the address on which the HTTP server listens."""
    seeds: tuple[tuple[str, int], ...] = ()
    """RPC addresses. To found a cluster: of all its first brokers, the same list on each.

    To join one: of any brokers."""
    cluster_id: str | None = None
    """Cluster to found or to belong to; None: the one of the data directory or the seeds, else a new id."""
    host_label: str = ""
    """Name of the machine; replicas of a partition never share one. Empty: `node-{node_id}`."""
    rack: str = ""
    """Rack of the machine, which is gossiped to the other brokers."""
    gossip: GossipSettings | None = None
    """Settings of gossip with other brokers; None: no gossip."""
    secret: ClusterSecret | None = None
    """Secret that authenticates this broker to the others; needed with `rpc` unless the certificate names the node.

    Such a certificate has the name `raftlog:node:<id>`."""
    tls: TlsContexts | None = None
    """Certificates for the connections between brokers."""
    insecure: bool = False
    """Whether to listen for other brokers without TLS where other machines can connect."""
    authorization: str = "none"
    """Check of permissions: `none`, or `acl` by the access control list of the cluster."""
    superusers: tuple[str, ...] = ()
    """Users that may do everything, besides the superusers of the cluster."""
    partitioner: str = "murmur2"
    """Hash from a key to its partition: `murmur2`, as in Kafka's clients, or `crc32`."""
    topic_config: TopicConfig = field(default_factory=TopicConfig)
    """Defaults for settings of topics."""
    partitions_per_topic_max: int = bounded_field(10_000, 1, 10_000)
    """Maximum number of partitions of a topic, at its creation or after partitions were added."""
    default_partitions: int = bounded_field(1, 1, 10_000)
    """Partitions of a topic whose creation names no number, as Kafka's `num.partitions`."""
    offsets_partitions: int = bounded_field(16, 1, 1_000)
    """Partitions of the internal topic for consumer groups and their offsets, when it is created."""
    offsets_retention_ms: int = bounded_field(7 * DAY_MS, 1, 3_650 * DAY_MS)
    """Time after which committed offsets expire when the consumer group has had no members and no commits."""
    group_min_session_timeout_ms: int = bounded_field(GroupSettings().min_session_timeout_ms, 1, DAY_MS)
    """Shortest session timeout that a group member may ask for: time without a heartbeat after which it is removed."""
    group_max_session_timeout_ms: int = bounded_field(GroupSettings().max_session_timeout_ms, 1, DAY_MS)
    """Longest session timeout that a group member may ask for."""
    group_initial_rebalance_delay_ms: int = bounded_field(GroupSettings().initial_rebalance_delay_ms, 0, 60_000)
    """Time that an empty consumer group waits for more group members after the first one."""
    group_members_max: int = bounded_field(GroupSettings().max_members, 1, 10_000)
    """Most group members of one consumer group."""
    groups_max: int = bounded_field(GroupSettings().max_groups, 1, 1_000_000)
    """Most consumer groups in one partition of the internal topic."""
    transaction_partitions: int = bounded_field(16, 1, 1_000)
    """Partitions of the internal topic for transactions, when it is created."""
    transaction_max_timeout_ms: int = bounded_field(TransactionSettings().max_timeout_ms, 1, DAY_MS)
    """Longest transaction timeout that a producer may ask for."""
    transactional_id_expiration_ms: int = bounded_field(TransactionSettings().id_expiration_ms, 1, 3_650 * DAY_MS)
    """Time without a transaction after which a transactional id expires."""
    transactional_ids_max: int = bounded_field(TransactionSettings().max_ids, 1, 10_000_000)
    """Most transactional ids in one partition of the internal topic."""
    consumer_instances_max: int = bounded_field(1_000, 0, 100_000)
    """Most consumer instances of the REST API on this broker; more are refused (429)."""
    consumer_instance_timeout_ms: int = bounded_field(300_000, 1, 7 * DAY_MS)
    """Idle time after which a consumer instance is deleted."""
    memory_budget_bytes: int = bounded_field(MEMORY_BUDGET_BYTES, MIB, 1 << 40)
    """Bytes held for all connections: frames from other brokers, bodies of requests, answers (`MemoryShares`)."""
    open_files_max: int = bounded_field(512, 16, 1 << 20)
    """Descriptors of segments kept open; further files are reopened when they are used."""
    trace_ratio: float | None = None
    """Share of produce requests without a trace context that are traced; None: no tracing at all."""
    sync_threads: int = bounded_field(4, 1, 64)
    """Syncs that can run at once."""
    sync_method: str = "auto"
    """Method for the syncs of commits: `aio` (Linux AIO), `threads`, or `auto`: the faster one, as measured."""
    producers_max: int = bounded_field(100_000, 1, 10_000_000)
    """Idempotent producers that a partition led here remembers; past it the least recently used expire."""
    partition_pending_bytes_max: int = bounded_field(32 * MIB, 64 * KIB, 4 * GIB)
    """Bytes of one partition that may wait for their append and sync; past it producers wait, then get 429."""
    broker_pending_bytes_max: int = bounded_field(64 * MIB, 64 * KIB, 16 * GIB)
    """Bytes of all partitions together that may wait for their append and sync."""
    accumulate_bytes_max: int = bounded_field(MIB, 4 * KIB, 64 * MIB)
    """Largest batch that is built from single records that arrive together."""
    fetch_bytes_max: int = bounded_field(16 * MIB, 4 * KIB, 256 * MIB)
    """Maximum number of bytes in the answer to a fetch; a larger first batch is returned alone."""
    fetch_wait_ms_max: int = bounded_field(60_000, 0, 3_600_000)
    """Longest time that a fetch waits for new records."""
    opened_bytes_max: int = bounded_field(64 * MIB, 64 * KIB, GIB)
    """Largest batch, after decompression, that the broker decodes; larger ones are only returned as stored."""
    retention_interval_s: float = bounded_field(60.0, 0.01, 86_400)
    """Seconds between two checks for segments that retention deletes."""
    storage_min_free_bytes: int = bounded_field(64 * MIB, 1, 1 << 50)
    """Free bytes on the file system below which records are refused (507) and leaderships are transferred.

    Leaderships go to brokers that have more room; reads, trims and deletions go on. 1: only a full disk refuses
    records."""
    replica_lag_time_max_ms: int = bounded_field(10_000, 0, DAY_MS)
    """Age up to which a replica must hold committed records to be shown as in sync.

    For operators only: acknowledgements, `min.insync.replicas`, moves and rolling restarts use the present high
    watermark."""
    catch_up_bytes_per_s: int = bounded_field(100 * MIB, MIB, 64 * GIB)
    """Bytes a second that this broker sends in total to replicas elsewhere that catch up or are repaired."""
    scrub_interval_days: float = bounded_field(7.0, 0, 3_650)
    """Days in which the background scrub reads everything once; 0 turns it off."""
    metadata_growth_bytes_max: int = bounded_field(4 * MIB, 16 * KIB, GIB)
    """Growth after which a log of metadata or of committed offsets is shortened."""

    driver: DriverConfig = field(default_factory=node_driver_config)
    """Timing and sizes of the Raft groups and their journal."""

    def __post_init__(self) -> None:
        """Complete the settings that depend on others. Raises `InvalidArgument` for a value out of range."""
        object.__setattr__(self, "data_dir", os.path.abspath(self.data_dir))
        object.__setattr__(self, "host_label", self.host_label or f"node-{self.node_id}")
        find_hash(self.partitioner)
        check_rack(self.rack)
        if self.authorization not in AUTHORIZATIONS:
            raise InvalidArgument(f"authorization={self.authorization!r} is not one of {', '.join(AUTHORIZATIONS)}")
        if self.sync_method not in SYNC_METHODS:
            raise InvalidArgument(f"sync_method={self.sync_method!r} is not one of {', '.join(SYNC_METHODS)}")
        check_bounds(self)

    def node_settings(self) -> NodeSettings:
        """Return the settings of the node, which runs the replicas and connections of this broker."""
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
                receive_bytes_max=MemoryShares.divide(self.memory_budget_bytes).frames,
            ),
            advertise_rpc=self.advertise_rpc,
            secret=self.secret,
            tls=self.tls,
            insecure=self.insecure,
            open_files_max=self.open_files_max,
            sync_threads=self.sync_threads,
            sync_method=self.sync_method,
        )

    def internal_topic_config(self) -> TopicConfig:
        """Return the defaults for settings of internal topics.

        Their coordinators shorten the logs themselves, and serve with a majority of the replicas: settings that would
        change this are not inherited from the defaults of other topics. Clients cannot change internal topics."""
        plain = TopicConfig()
        return replace(
            self.topic_config, cleanup_policy=plain.cleanup_policy, min_insync_replicas=plain.min_insync_replicas
        )

    def group_settings(self) -> GroupSettings:
        """Return the settings of group coordinators."""
        return GroupSettings(
            min_session_timeout_ms=self.group_min_session_timeout_ms,
            max_session_timeout_ms=self.group_max_session_timeout_ms,
            initial_rebalance_delay_ms=self.group_initial_rebalance_delay_ms,
            max_groups=self.groups_max,
            max_members=self.group_members_max,
        )

    def transaction_settings(self) -> TransactionSettings:
        """Return the settings of transaction coordinators."""
        return TransactionSettings(
            max_timeout_ms=self.transaction_max_timeout_ms,
            id_expiration_ms=self.transactional_id_expiration_ms,
            max_ids=self.transactional_ids_max,
        )

    def metadata_settings(self) -> MetadataSettings:
        """Return the settings of the controller's host."""
        return MetadataSettings(seeds=self.seeds, snapshot_log_bytes=self.metadata_growth_bytes_max)


_LOOPBACK = "127.0.0.1"
_NO_SCRUB_MS = 10_000 * 365 * DAY_MS
