"""Alerts for Prometheus, each with its page in docs/.

docs/METRICS.md has the same alerts. Expressions use metrics of `/metrics`, and of Prometheus only `up`."""

from typing import Any, Final, NamedTuple

import orjson

from raftlog.cli.monitoring.expressions import CONSUMER_LAG, JOB


class Alert(NamedTuple):
    """Alert that fires when `expression` was true for the given duration, in Prometheus' notation.

    `summary` is a Prometheus template with labels that the expression keeps; `runbook` a page and heading in docs/."""

    name: str
    expression: str
    lasts: str
    severity: str
    summary: str
    runbook: str


ALERTS: Final = (
    Alert(
        "RaftlogNoLeader",
        "max by (job) (raftlog_partitions_leaderless) > 0",
        "30s",
        "critical",
        "{{ $value }} groups of {{ $labels.job }} have no leader: writes to them fail.",
        "ERRORS.md#health-reasons",
    ),
    Alert(
        "RaftlogBrokerDown",
        f'up{{job="{JOB}"}} == 0',
        "1m",
        "critical",
        "The broker {{ $labels.instance }} of {{ $labels.job }} does not answer.",
        "how-to/troubleshoot.md#brokers-and-network",
    ),
    Alert(
        "RaftlogUnderReplicated",
        "sum by (job) (raftlog_partitions_under_replicated) > 0",
        "10m",
        "warning",
        "Voters of {{ $value }} groups of {{ $labels.job }} are unreachable or behind: one more failure may stop "
        "writes.",
        "how-to/troubleshoot.md#brokers-and-network",
    ),
    Alert(
        "RaftlogWritesFail",
        'rate(raftlog_http_responses_total{status=~"5.."}[1m]) > 0',
        "2m",
        "critical",
        "{{ $labels.instance }} answers {{ $value | humanize }} requests a second with {{ $labels.status }}.",
        "ERRORS.md#error-codes",
    ),
    Alert(
        "RaftlogUnknownOutcomes",
        "increase(raftlog_produce_unknown_outcomes_total[10m]) > 0",
        "0m",
        "warning",
        "{{ $value | humanize }} produces at {{ $labels.instance }} had an unknown outcome in 10 minutes: records may "
        "be duplicated.",
        "GUARANTEES.md#outcomes",
    ),
    Alert(
        "RaftlogDiskFills",
        "raftlog_disk_free_bytes < 0.15 * raftlog_disk_total_bytes",
        "5m",
        "warning",
        "The disk of {{ $labels.instance }} has {{ $value | humanize1024 }}B free, less than 15 %.",
        "how-to/replace-a-disk.md#full-disk",
    ),
    Alert(
        "RaftlogEntriesRepaired",
        "increase(raftlog_entries_repaired_total[1d]) > 0",
        "0m",
        "warning",
        "{{ $value | humanize }} damaged entries of {{ $labels.instance }} were restored from other brokers in a day: "
        "plan to replace the disk.",
        "how-to/replace-a-disk.md#lost-failing-or-damaged-disk",
    ),
    Alert(
        "RaftlogDamagedReplicas",
        "raftlog_partitions_quarantined > 0",
        "10m",
        "warning",
        "{{ $value }} damaged replicas of {{ $labels.instance }} are not repaired.",
        "how-to/troubleshoot.md#disks-and-files",
    ),
    Alert(
        "RaftlogCertificateExpires",
        "raftlog_tls_certificate_expiry_timestamp_seconds - time() < 7 * 86400",
        "10m",
        "warning",
        "The certificate of the listener {{ $labels.listener }} of {{ $labels.instance }} expires in "
        "{{ $value | humanizeDuration }}; renew it.",
        "how-to/use-tls.md#renew-certificates",
    ),
    Alert(
        "RaftlogOverload",
        "rate(raftlog_produce_throttled_total[5m]) > 0",
        "10m",
        "warning",
        "Producers wait for memory at {{ $labels.instance }}: they are faster than the disks.",
        "how-to/tune-durability.md#latency-and-throughput-instead",
    ),
    Alert(
        "RaftlogConsumerLagGrows",
        f"{CONSUMER_LAG} > 0 and deriv({CONSUMER_LAG}[15m:1m]) > 0",
        "30m",
        "warning",
        "The consumer group {{ $labels.group }} falls behind in {{ $labels.topic }}, by {{ $value | humanize }} "
        "records now.",
        "how-to/manage-consumer-groups.md#see-members-and-lag",
    ),
)


def make_rules(job_name: str, docs_url: str) -> dict[str, Any]:
    """Return Prometheus' rule file with all alerts, for metrics of the job `job_name`.

    Runbook links begin with `docs_url`, which leads to the directory docs/."""
    rules = [_make_rule(alert, job_name, docs_url) for alert in ALERTS]
    return {"groups": [{"name": "raftlog", "rules": rules}]}


def _make_rule(alert: Alert, job_name: str, docs_url: str) -> dict[str, Any]:
    """Return the Prometheus rule of an alert, for this job and with links into the documentation."""
    of_job = f"job={orjson.dumps(job_name).decode()}"
    return {
        "alert": alert.name,
        "expr": alert.expression.replace(f'job="{JOB}"', of_job),
        "for": alert.lasts,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "runbook_url": f"{docs_url.rstrip('/')}/{alert.runbook}"},
    }
