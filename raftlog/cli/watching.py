"""What is worth an alert or a panel, as tables: `raftlog generate` makes files of them for Prometheus and Grafana.

docs/OPERATIONS.md has the same alerts. Expressions name metrics of `/metrics`, and nothing else but `up`.
"""

from typing import Final, NamedTuple

JOB: Final = "raftlog"
"""What Prometheus calls the scrapes of the brokers, unless another name is given."""


class Alert(NamedTuple):
    """Firing when `expression` was true for so long (Prometheus' words for a duration)."""

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


ALERTS: Final = (
    Alert(
        "RaftlogNoLeader",
        "max(raftlog_partitions_leaderless) > 0",
        "30s",
        "critical",
        "Groups have no leader: writes to them fail.",
    ),
    Alert("RaftlogBrokerDown", f'up{{job="{JOB}"}} == 0', "1m", "critical", "A broker does not answer."),
    Alert(
        "RaftlogUnderReplicated",
        "max(raftlog_partitions_under_replicated) > 0",
        "10m",
        "warning",
        "Voters are away or behind: one broker more that fails may stop writes.",
    ),
    Alert(
        "RaftlogWritesFail",
        'rate(raftlog_http_responses_total{status=~"5.."}[1m]) > 0',
        "2m",
        "critical",
        "Requests fail.",
    ),
    Alert(
        "RaftlogUnknownOutcomes",
        "increase(raftlog_produce_unknown_total[10m]) > 0",
        "0m",
        "warning",
        "Producers may have doubled records.",
    ),
    Alert(
        "RaftlogDiskFills",
        "raftlog_disk_free_bytes < 0.15 * raftlog_disk_total_bytes",
        "5m",
        "warning",
        "Less than 15 % of a disk is free.",
    ),
    Alert(
        "RaftlogDiskRots",
        "increase(raftlog_entries_repaired_total[1d]) > 0",
        "0m",
        "warning",
        "Damaged entries were given back by other brokers: plan to replace the disk.",
    ),
    Alert(
        "RaftlogDamagedReplicas",
        "raftlog_partitions_quarantined > 0",
        "10m",
        "warning",
        "Damaged replicas are not repaired.",
    ),
    Alert(
        "RaftlogOverload",
        "rate(raftlog_throttled_total[5m]) > 0",
        "10m",
        "warning",
        "Producers wait for room: they are faster than the disks.",
    ),
)


def _rate(metric: str, by: str | None = None) -> str:
    rate = f"rate({metric}[$__rate_interval])"
    return rate if by is None else f"sum by ({by}) ({rate})"


def _quantile(metric: str, by: str) -> str:
    return f"histogram_quantile(0.99, sum by (le, {by}) ({_rate(metric + '_bucket')}))"


_BROKER: Final = "{{instance}}"
PANELS: Final = (
    Panel("Groups led", "raftlog_partitions_led", "short", _BROKER),
    Panel("Without a leader", "raftlog_partitions_leaderless", "short", _BROKER),
    Panel("Under-replicated", "raftlog_partitions_under_replicated", "short", _BROKER),
    Panel("Moving", "raftlog_partitions_moving", "short", _BROKER),
    Panel("Records in", _rate("raftlog_records_in_total"), "cps", _BROKER),
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
    Panel("CPU", _rate("process_cpu_seconds_total"), "percentunit", _BROKER),
    Panel("Bytes between brokers", _rate("raftlog_rpc_bytes_total", "instance"), "Bps", _BROKER),
)  # fmt: skip
