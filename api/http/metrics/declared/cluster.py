"""Declarations of metrics of the broker in its cluster: Raft groups, elections, consumer groups, topics."""

from typing import Final

from raftlog.api.http.metrics.declared.declaration import counter, gauge, histogram, info

BROKER: Final = (
    gauge("ready", "1 while the broker serves"),
    info("build_info", "release and node id", "version", "node"),
    gauge("brokers", "brokers registered at the controller"),
    gauge("topics", "topics of the cluster"),
    gauge("feature_level", "feature level of the cluster"),
    gauge("controller_leader_node_id", "node id of the controller's leader, as seen here; -1: none"),
    gauge("in_maintenance", "1 while this broker is in maintenance mode"),
    gauge("draining", "1 while this broker is being decommissioned"),
    gauge("metadata_applied_index", "index of the last entry of the controller's log applied here"),
)
RAFT_GROUPS: Final = (
    gauge("partitions", "replicas on this broker"),
    gauge("partitions_led", "groups led by this broker"),
    gauge("partitions_leaderless", "groups with a replica here and no known leader"),
    gauge(
        "partitions_under_replicated",
        "groups led here with a voter that is unreachable, or behind for longer than `--replica-lag-time-max-ms`",
    ),
    gauge("partitions_unavailable", "partitions whose replica here is damaged or stopped"),
    gauge("partitions_quarantined", "groups whose replica here is damaged and under repair"),
    gauge("partitions_moving", "groups led here with a pending reassignment"),
    gauge("partitions_quiesced", "quiesced groups: idle, without heartbeats"),
    counter("elections_started_total", "elections with a replica of this broker as candidate"),
    counter("elections_won_total", "of these, won"),
    counter("elections_lost_total", "of these, lost"),
    counter("leader_changes_total", "leader changes seen by groups here"),
    counter("leadership_transfers_total", "leadership transfers started here"),
    counter("leadership_transfers_failed_total", "of these, timed out"),
    counter("entries_repaired_total", "damaged entries restored from other replicas; when it rises, replace the disk"),
)
CONSUMER_GROUPS: Final = (
    gauge("consumer_groups", "consumer groups coordinated here", "state"),
    gauge("consumer_group_members", "members of these groups"),
    gauge("consumer_instances", "REST consumer instances on this broker"),
    counter(
        "consumer_group_rebalances_total",
        "generations created here; a rise without joins or leaves: sessions expire",
    ),
    counter("consumer_group_offset_commits_total", "offsets committed here"),
    counter("consumer_group_offsets_expired_total", "committed offsets that expired"),
    gauge(
        "consumer_group_lag_records",
        "records after the committed offset, from the replica here",
        "group",
        "topic",
        "partition",
    ),
    gauge(
        "consumer_group_committed_offset",
        "committed offset of a group coordinated here",
        "group",
        "topic",
        "partition",
    ),
    gauge(
        "metrics_consumer_group_partitions_left_out",
        "partitions of consumer groups without the two series above, because there are too many",
    ),
    gauge("transactional_ids", "transactional ids coordinated here", "state"),
    gauge("transaction_oldest_age_seconds", "age of the oldest open transaction; 0: none"),
    counter("transactions_total", "ended transactions", "result"),
    counter("transactions_fenced_total", "of these, fenced", "reason"),
    histogram("transaction_end_seconds", "from decision to last marker"),
)
TOPICS: Final = (
    gauge("partition_high_watermark", "high watermark of the replica here", "topic", "partition"),
    gauge("partition_log_start_offset", "its first stored offset", "topic", "partition"),
    gauge("partition_log_bytes", "size of its log", "topic", "partition"),
    gauge(
        "replica_lag_entries",
        "entries that a replica of a partition led here lacks",
        "topic",
        "partition",
        "node",
    ),
    gauge("topic_replicas", "replicas here", "topic"),
    gauge("topic_replicas_led", "of these, leaders", "topic"),
    gauge("topic_records", "records in the replicas here", "topic"),
    gauge("topic_log_bytes", "size of their logs", "topic"),
    gauge("topic_lag_entries_max", "highest lag of a replica of a partition led here", "topic"),
    gauge("metrics_partitions_left_out", "partitions without series of their own, because there are too many"),
)
