"""Panels of the dashboards, as tables.

They query metrics of `/metrics`. `$topic`, `$group` and `$instance` are variables that the viewer of a dashboard
chooses; several values, or all of them, make a regular expression."""

from typing import Final, NamedTuple

from raftlog.cli.monitoring.expressions import CONSUMER_LAG, quantile, rate


class Panel(NamedTuple):
    """Panel with one time series chart; `unit` is Grafana's name of a unit, `legend` a template of Grafana."""

    title: str
    expression: str
    unit: str
    legend: str


_BROKER: Final = "{{instance}}"
_PARTITION: Final = "{{topic}}/{{partition}}"
_BROKER_AND_TOPIC: Final = "{{instance}} {{topic}}"
_GROUP: Final = "{{group}}: {{topic}}"
_OF_TOPIC: Final = '{topic=~"$topic"}'
_OF_GROUP: Final = '{group=~"$group"}'
_OF_BROKER: Final = '{instance=~"$instance"}'
_TOPIC_RECORDS: Final = (
    "topk(10, sum by (topic) (rate(max by (topic, partition) (raftlog_partition_high_watermark)[5m:15s])))"
)
"""Expression of records per second by topic, by the highest high watermark of the replicas of each partition.

Otherwise the catch-up of a new replica would count as appended records."""
_HIGH_WATERMARK: Final = f"max by (topic, partition) (raftlog_partition_high_watermark{_OF_TOPIC})"
_LOG_START: Final = f"max by (topic, partition) (raftlog_partition_log_start_offset{_OF_TOPIC})"
_COMMITTED: Final = f"max by (group, topic, partition) (raftlog_consumer_group_committed_offset{_OF_GROUP})"
_TOPIC_LAG: Final = CONSUMER_LAG.replace("committed_offset", f"committed_offset{_OF_TOPIC}")
_GROUP_LAG: Final = CONSUMER_LAG.replace("committed_offset", f"committed_offset{_OF_GROUP}")

OVERVIEW: Final = (
    Panel("Brokers that serve", "sum by (job) (raftlog_ready)", "short", "{{job}}"),
    Panel("Without a leader", "raftlog_partitions_leaderless", "short", _BROKER),
    Panel("Under-replicated", "raftlog_partitions_under_replicated", "short", _BROKER),
    Panel("Appended records", rate("raftlog_appended_records_total"), "cps", _BROKER),
    Panel("Appended bytes", rate("raftlog_appended_bytes_total"), "Bps", _BROKER),
    Panel("Fetched bytes", rate("raftlog_fetched_bytes_total"), "Bps", _BROKER),
    Panel("Appended records by topic", _TOPIC_RECORDS, "cps", "{{topic}}"),
    Panel("Consumer lag", f"topk(10, {CONSUMER_LAG})", "short", _GROUP),
    Panel("Answers by status", rate("raftlog_http_responses_total", "status"), "reqps", "{{status}}"),
    Panel("Produce, 99 %", quantile("raftlog_produce_seconds", "instance"), "s", _BROKER),
    Panel("Commit, 99 %", quantile("raftlog_commit_seconds", "instance"), "s", _BROKER),
    Panel("Sync, 99 %", quantile("raftlog_sync_seconds", "instance"), "s", _BROKER),
    Panel("Unknown outcomes", rate("raftlog_produce_unknown_outcomes_total"), "cps", _BROKER),
    Panel("Disk free", "raftlog_disk_free_bytes / raftlog_disk_total_bytes", "percentunit", _BROKER),
    Panel("Leader changes", rate("raftlog_leader_changes_total"), "cps", _BROKER),
)
TOPIC: Final = (
    Panel("Appended records by partition", f"rate({_HIGH_WATERMARK}[5m:15s])", "cps", _PARTITION),
    Panel("Records", f"{_HIGH_WATERMARK} - {_LOG_START}", "short", _PARTITION),
    Panel("High watermark", _HIGH_WATERMARK, "short", _PARTITION),
    Panel("Log size by broker", f"raftlog_topic_log_bytes{_OF_TOPIC}", "bytes", _BROKER_AND_TOPIC),
    Panel(
        "Log size by partition",
        f"max by (topic, partition) (raftlog_partition_log_bytes{_OF_TOPIC})",
        "bytes",
        _PARTITION,
    ),
    Panel("Replicas by broker", f"raftlog_topic_replicas{_OF_TOPIC}", "short", _BROKER_AND_TOPIC),
    Panel("Leaders by broker", f"raftlog_topic_replicas_led{_OF_TOPIC}", "short", _BROKER_AND_TOPIC),
    Panel(
        "Lag of replicas, in entries",
        f"raftlog_replica_lag_entries{_OF_TOPIC}",
        "short",
        "{{topic}}/{{partition}} at {{node}}",
    ),
    Panel("Lag of consumer groups", _TOPIC_LAG, "short", _GROUP),
)
GROUP: Final = (
    Panel("Lag", _GROUP_LAG, "short", _GROUP),
    Panel("Committed offset", _COMMITTED, "short", "{{group}}: " + _PARTITION),
    Panel("Consumed records", f"sum by (group, topic) (rate({_COMMITTED}[5m:15s]))", "cps", _GROUP),
    Panel("Groups by state", "sum by (state) (raftlog_consumer_groups)", "short", "{{state}}"),
    Panel("Members by coordinator", "raftlog_consumer_group_members", "short", _BROKER),
    Panel("Rebalances", rate("raftlog_consumer_group_rebalances_total"), "cps", _BROKER),
    Panel("Committed offsets", rate("raftlog_consumer_group_offset_commits_total"), "cps", _BROKER),
    Panel("Expired offsets", rate("raftlog_consumer_group_offsets_expired_total"), "cps", _BROKER),
    Panel("REST consumer instances", "raftlog_consumer_instances", "short", _BROKER),
    Panel("Transactions by result", rate("raftlog_transactions_total", "result"), "cps", "{{result}}"),
    Panel("Oldest transaction", "raftlog_transaction_oldest_age_seconds", "s", _BROKER),
    Panel("Fenced transactions", rate("raftlog_transactions_fenced_total", "reason"), "cps", "{{reason}}"),
)
BROKER: Final = (
    Panel("CPU", rate(f"process_cpu_seconds_total{_OF_BROKER}"), "percentunit", _BROKER),
    Panel("Memory", f"process_resident_memory_bytes{_OF_BROKER}", "bytes", _BROKER),
    Panel(
        "File descriptors, of the limit",
        f"process_open_fds{_OF_BROKER} / process_max_fds{_OF_BROKER}",
        "percentunit",
        _BROKER,
    ),
    Panel("Event loop lag, 99 %", quantile("raftlog_loop_lag_seconds", "instance", _OF_BROKER), "s", _BROKER),
    Panel("Event loop held", rate(f"raftlog_loop_holds_total{_OF_BROKER}"), "cps", _BROKER + " {{step}}"),
    Panel("Stalls", rate(f"raftlog_stalls_total{_OF_BROKER}"), "cps", _BROKER + " {{kind}}"),
    Panel(
        "HTTP requests by class", rate(f"raftlog_http_request_seconds_count{_OF_BROKER}", "class"), "reqps", "{{class}}"
    ),
    Panel(
        "HTTP requests by class, 99 %", quantile("raftlog_http_request_seconds", "class", _OF_BROKER), "s", "{{class}}"
    ),
    Panel("Answers by status", rate(f"raftlog_http_responses_total{_OF_BROKER}", "status"), "reqps", "{{status}}"),
    Panel("Kafka requests by API", rate(f"raftlog_kafka_requests_total{_OF_BROKER}", "api"), "reqps", "{{api}}"),
    Panel("Kafka requests by API, 99 %", quantile("raftlog_kafka_request_seconds", "api", _OF_BROKER), "s", "{{api}}"),
    Panel("Kafka connections", f"raftlog_kafka_connections{_OF_BROKER}", "short", _BROKER),
    Panel(
        "Memory of connections, of its share",
        f"raftlog_memory_budget_used_bytes{_OF_BROKER} / raftlog_memory_budget_limit_bytes{_OF_BROKER}",
        "percentunit",
        _BROKER + " {{share}}",
    ),
    Panel(
        "Refused for lack of memory",
        rate(f"raftlog_memory_budget_refused_total{_OF_BROKER}", "share"),
        "cps",
        "{{share}}",
    ),
    Panel("Delayed by quotas", rate(f"raftlog_quota_throttle_seconds_total{_OF_BROKER}", "quota"), "s", "{{quota}}"),
    Panel("Appends that wait for disks", f"raftlog_append_pending_bytes{_OF_BROKER}", "bytes", _BROKER),
    Panel("Fetches that wait", f"raftlog_fetches_waiting{_OF_BROKER}", "short", _BROKER),
    Panel("Throttled producers", rate(f"raftlog_produce_throttled_total{_OF_BROKER}"), "cps", _BROKER),
    Panel("Sync, 99 %", quantile("raftlog_sync_seconds", "instance", _OF_BROKER), "s", _BROKER),
    Panel("Journal to recover", f"raftlog_journal_live_bytes{_OF_BROKER}", "bytes", _BROKER),
    Panel("Logs", f"raftlog_log_bytes{_OF_BROKER}", "bytes", _BROKER),
    Panel("Disk free", f"raftlog_disk_free_bytes{_OF_BROKER}", "bytes", _BROKER),
    Panel("Compaction", rate(f"raftlog_compaction_bytes_total{_OF_BROKER}"), "Bps", _BROKER),
    Panel(
        "Certificates expire in",
        f"raftlog_tls_certificate_expiry_timestamp_seconds{_OF_BROKER} - time()",
        "s",
        _BROKER + " {{listener}}",
    ),
)
RAFT: Final = (
    Panel("Groups led", "raftlog_partitions_led", "short", _BROKER),
    Panel("Quiesced groups", "raftlog_partitions_quiesced", "short", _BROKER),
    Panel("Moving", "raftlog_partitions_moving", "short", _BROKER),
    Panel("Without a leader", "raftlog_partitions_leaderless", "short", _BROKER),
    Panel("Quarantined", "raftlog_partitions_quarantined", "short", _BROKER),
    Panel("Repaired entries", rate("raftlog_entries_repaired_total"), "cps", _BROKER),
    Panel("Leader changes", rate("raftlog_leader_changes_total"), "cps", _BROKER),
    Panel("Elections started", rate("raftlog_elections_started_total"), "cps", _BROKER),
    Panel("Leadership transfers", rate("raftlog_leadership_transfers_total"), "cps", _BROKER),
    Panel("Append, 99 %", quantile("raftlog_append_seconds", "instance"), "s", _BROKER),
    Panel("Commit, 99 %", quantile("raftlog_commit_seconds", "instance"), "s", _BROKER),
    Panel("Entries that replicas lack", "topk(10, raftlog_topic_lag_entries_max)", "short", "{{topic}}"),
    Panel("Catch-up", rate("raftlog_catch_up_bytes_total"), "Bps", _BROKER + " {{direction}}"),
    Panel("Messages sent by kind", rate('raftlog_rpc_messages_total{direction="out"}', "kind"), "cps", "{{kind}}"),
    Panel(
        "Bytes sent by channel",
        rate('raftlog_rpc_bytes_total{direction="out"}', "instance, channel"),
        "Bps",
        _BROKER + " {{channel}}",
    ),
    Panel("Bytes that wait to be sent", "raftlog_rpc_queued_bytes", "bytes", _BROKER + " to {{node}} {{channel}}"),
    Panel("Forwarded requests", rate("raftlog_forwards_total"), "reqps", _BROKER),
    Panel("Applied metadata", "raftlog_metadata_applied_index", "short", _BROKER),
    Panel("Gossip members by state", "max by (state) (raftlog_gossip_members)", "short", "{{state}}"),
    Panel("Gossip suspicions", rate("raftlog_gossip_suspicions_total"), "cps", _BROKER),
    Panel("Gossip refutations", rate("raftlog_gossip_refutations_total"), "cps", _BROKER),
)
