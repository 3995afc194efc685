"""Declarations of metrics of requests: records, HTTP, Kafka clients, quotas and memory."""

from typing import Final

from raftlog.api.http.metrics.declared.declaration import counter, gauge, histogram

RECORDS: Final = (
    counter("produce_calls_total", "produce calls, one for each partition of a request"),
    counter("appends_total", "appends that these calls shared"),
    counter("appended_records_total", "appended records"),
    counter("appended_batches_total", "batches as sent; few records per batch are expensive"),
    counter("appended_bytes_total", "appended bytes"),
    counter("produce_failures_total", "produce calls that failed after they were queued"),
    counter("produce_unknown_outcomes_total", "produce calls with unknown outcome; a retry can store a duplicate"),
    counter(
        "produce_duplicates_total",
        "repeated batches of idempotent producers, not appended again; a rise: answers are lost or late",
    ),
    counter("produce_throttled_total", "produce calls that waited for memory; a rise: producers are faster than disks"),
    gauge("append_pending_bytes", "records that wait for their append or sync; limit `--broker-pending-bytes-max`"),
    counter("fetches_total", "fetches"),
    counter("fetched_bytes_total", "fetched bytes"),
    gauge(
        "fetches_waiting",
        "fetches that wait for records, per partition; those of open fetch sessions always count",
    ),
    counter("forwards_total", "requests forwarded to leaders"),
    gauge("forwards_waiting", "forwarded requests without a response"),
)
LATENCIES: Final = (
    histogram(
        "produce_seconds", "at the receiving broker: from the arrival of an append's oldest call to its response"
    ),
    histogram("append_seconds", "at leaders: from a proposal to its append; high: the event loop is busy"),
    histogram("sync_seconds", "duration of a journal sync; high: the disk is slow"),
    histogram(
        "commit_seconds",
        "at leaders: from a proposal to its commit; high while syncs are fast: other brokers are slow",
    ),
    histogram("loop_lag_seconds", "delay of the event loop's ticks; above 0.1 s: the process is overloaded"),
    counter("loop_holds_total", "steps that held the event loop above 5 ms", "step"),
    gauge("loop_hold_longest_seconds", "longest of them", "step"),
    counter("stalls_total", "stalls of the event loop or disk above one second", "kind"),
)
HTTP: Final = (
    histogram(
        "http_request_seconds",
        "by produce, fetch, topics, groups, membership, producers, consumers, operators, stream, unknown; long polls "
        "are in fetch, membership and consumers",
        "class",
    ),
    counter("http_responses_total", "answers", "status"),
    gauge("memory_budget_used_bytes", "used memory of the [budget](SETTINGS.md#memory-for-connections)", "share"),
    gauge("memory_budget_limit_bytes", "size of the share: frames, requests, answers", "share"),
    gauge("memory_budget_connections_waiting", "connections that wait for memory", "share"),
    counter("memory_budget_refused_total", "refusals; an answer became smaller, or a request got 503 / 50305", "share"),
    gauge("tls_certificate_expiry_timestamp_seconds", "time at which a listener's certificate expires", "listener"),
    counter(
        "quota_throttles_total",
        "requests that a [client quota](PERMISSIONS.md#client-quotas) delayed or refused",
        "quota",
    ),
    counter("quota_throttle_seconds_total", "these delays", "quota"),
)
KAFKA: Final = (
    counter("kafka_requests_total", "requests of Kafka clients", "api"),
    counter("kafka_errors_total", "requests that failed as a whole", "api"),
    histogram(
        "kafka_request_seconds",
        "from the arrival of a request to its answer; long polls are in Fetch, JoinGroup and SyncGroup",
        "api",
    ),
    gauge("kafka_connections", "open connections of Kafka clients"),
    counter("kafka_connections_accepted_total", "accepted ones"),
    counter("kafka_connections_refused_total", "connections refused above the limit"),
    counter(
        "kafka_connections_closed_total",
        "connections closed because of malformed, unsupported or slow input, or unread answers; see the event "
        "`kafka_connection_closed`",
    ),
    gauge("kafka_fetch_sessions", "open fetch sessions"),
    gauge("kafka_fetch_session_partitions", "their partitions"),
    counter(
        "kafka_fetch_sessions_evicted_total",
        "fetch sessions closed because of their bounds; when it rises, fetches become more expensive",
    ),
    counter("kafka_bytes_total", "bytes from and to Kafka clients", "direction"),
)
