"""Tables of alerts and panels: `raftlog generate` makes files of them for Prometheus and Grafana.

docs/METRICS.md has the same alerts. Expressions use metrics of `/metrics`, and of Prometheus only `up`."""

from typing import Final, NamedTuple

JOB: Final = "raftlog"
"""Default name of the Prometheus job that scrapes the brokers."""


class Alert(NamedTuple):
    """Alert that fires when `expression` was true for the given duration, in Prometheus' notation.

    `summary` is a Prometheus template with labels that the expression keeps."""

    name: str
    expression: str
    lasts: str
    severity: str
    summary: str


class Panel(NamedTuple):
    """A time series; `unit` as Grafana names it, `legend` in its template language."""

    title: str
    expression: str
    unit: str
    legend: str


CONSUMER_LAG: Final = (
    "sum by (group, topic) (clamp_min("
    "max by (topic, partition) (raftlog_partition_high_watermark) - on (topic, partition) group_right "
    "max by (group, topic, partition) (raftlog_group_committed_offset), 0))"
)
"""Expression of the lag. Brokers lack `raftlog_group_lag` for partitions without a local replica."""
ALERTS: Final = (
    Alert(
        "RaftlogNoLeader",
        "max by (job) (raftlog_partitions_leaderless) > 0",
        "30s",
        "critical",
        "{{ $value }} groups of {{ $labels.job }} have no leader: writes to them fail.",
    ),
    Alert(
        "RaftlogBrokerDown",
        f'up{{job="{JOB}"}} == 0',
        "1m",
        "critical",
        "The broker {{ $labels.instance }} of {{ $labels.job }} does not answer.",
    ),
    Alert(
        "RaftlogUnderReplicated",
        "sum by (job) (raftlog_partitions_under_replicated) > 0",
        "10m",
        "warning",
        "Voters of {{ $value }} groups of {{ $labels.job }} are away or behind: one broker more that fails may stop "
        "writes.",
    ),
    Alert(
        "RaftlogWritesFail",
        'rate(raftlog_http_responses_total{status=~"5.."}[1m]) > 0',
        "2m",
        "critical",
        "{{ $labels.instance }} answers {{ $value | humanize }} requests a second with {{ $labels.status }}.",
    ),
    Alert(
        "RaftlogUnknownOutcomes",
        "increase(raftlog_produce_unknown_total[10m]) > 0",
        "0m",
        "warning",
        "{{ $value | humanize }} produces at {{ $labels.instance }} had an unknown outcome in 10 minutes: records may "
        "be doubled.",
    ),
    Alert(
        "RaftlogDiskFills",
        "raftlog_disk_free_bytes < 0.15 * raftlog_disk_total_bytes",
        "5m",
        "warning",
        "The disk of {{ $labels.instance }} has {{ $value | humanize1024 }}B free, less than 15 %.",
    ),
    Alert(
        "RaftlogDiskRots",
        "increase(raftlog_entries_repaired_total[1d]) > 0",
        "0m",
        "warning",
        "{{ $value | humanize }} damaged entries of {{ $labels.instance }} were given back by other brokers in a day: "
        "plan to replace the disk.",
    ),
    Alert(
        "RaftlogDamagedReplicas",
        "raftlog_partitions_quarantined > 0",
        "10m",
        "warning",
        "{{ $value }} damaged replicas of {{ $labels.instance }} are not repaired.",
    ),
    Alert(
        "RaftlogCertificateExpires",
        "raftlog_tls_certificate_expiry_seconds < 7 * 86400",
        "10m",
        "warning",
        "The certificate of the listener {{ $labels.listener }} of {{ $labels.instance }} expires in "
        "{{ $value | humanizeDuration }}; renew it.",
    ),
    Alert(
        "RaftlogOverload",
        "rate(raftlog_throttled_total[5m]) > 0",
        "10m",
        "warning",
        "Producers wait for room at {{ $labels.instance }}: they are faster than the disks.",
    ),
    Alert(
        "RaftlogConsumerLagGrows",
        f"{CONSUMER_LAG} > 0 and deriv({CONSUMER_LAG}[15m:1m]) > 0",
        "30m",
        "warning",
        "The consumer group {{ $labels.group }} falls behind in {{ $labels.topic }}, by {{ $value | humanize }} "
        "records now.",
    ),
)


def _rate(metric: str, by: str | None = None) -> str:
    rate = f"rate({metric}[$__rate_interval])"
    return rate if by is None else f"sum by ({by}) ({rate})"


def _quantile(metric: str, by: str) -> str:
    return f"histogram_quantile(0.99, sum by (le, {by}) ({_rate(metric + '_bucket')}))"


_BROKER: Final = "{{instance}}"
_TOPIC_RECORDS: Final = (
    "topk(10, sum by (topic) (rate(max by (topic, partition) (raftlog_partition_high_watermark)[5m:15s])))"
)
"""The highest high watermark of the replicas first: one that is filled anew would be counted as a rate."""
PANELS: Final = (
    Panel("Groups led", "raftlog_partitions_led", "short", _BROKER),
    Panel("Without a leader", "raftlog_partitions_leaderless", "short", _BROKER),
    Panel("Under-replicated", "raftlog_partitions_under_replicated", "short", _BROKER),
    Panel("Moving", "raftlog_partitions_moving", "short", _BROKER),
    Panel("Records in", _rate("raftlog_records_in_total"), "cps", _BROKER),
    Panel("Records in by topic", _TOPIC_RECORDS, "cps", "{{topic}}"),
    Panel("Consumer lag", f"topk(10, {CONSUMER_LAG})", "short", "{{group}}: {{topic}}"),
    Panel("Bytes in", _rate("raftlog_bytes_in_total"), "Bps", _BROKER),
    Panel("Bytes out", _rate("raftlog_bytes_out_total"), "Bps", _BROKER),
    Panel("Answers by status", _rate("raftlog_http_responses_total", "status"), "reqps", "{{status}}"),
    Panel("Produce, 99 %", _quantile("raftlog_produce_seconds", "instance"), "s", _BROKER),
    Panel("Commit, 99 %", _quantile("raftlog_commit_seconds", "instance"), "s", _BROKER),
    Panel("Sync, 99 %", _quantile("raftlog_sync_seconds", "instance"), "s", _BROKER),
    Panel("Requests by class, 99 %", _quantile("raftlog_http_request_seconds", "class"), "s", "{{class}}"),
    Panel("Loop lag, 99 %", _quantile("raftlog_loop_lag_seconds", "instance"), "s", _BROKER),
    Panel("Changes of leaders", _rate("raftlog_leader_changes_total"), "cps", _BROKER),
    Panel("Catch-up", _rate("raftlog_catch_up_bytes_total"), "Bps", _BROKER + " {{direction}}"),
    Panel("Entries that members lack", "topk(10, raftlog_topic_lag_entries_max)", "short", "{{topic}}"),
    Panel("Waiting for disks", "raftlog_pending_bytes", "bytes", _BROKER),
    Panel("Disk free", "raftlog_disk_free_bytes", "bytes", _BROKER),
    Panel("Logs by topic", "topk(10, sum by (topic) (raftlog_topic_log_bytes))", "bytes", "{{topic}}"),
    Panel("Memory", "process_resident_memory_bytes", "bytes", _BROKER),
    Panel(
        "Memory of connections, of its share",
        "raftlog_memory_budget_used_bytes / raftlog_memory_budget_limit_bytes",
        "percentunit",
        _BROKER + " {{share}}",
    ),
    Panel("Refused for lack of memory", _rate("raftlog_memory_budget_refused_total", "share"), "cps", "{{share}}"),
    Panel("CPU", _rate("process_cpu_seconds_total"), "percentunit", _BROKER),
    Panel("Bytes between brokers", _rate("raftlog_rpc_bytes_total", "instance"), "Bps", _BROKER),
)  # fmt: skip
