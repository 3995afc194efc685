"""Metrics of security: certificates of listeners, and clients that quotas delayed or refused."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from raftlog.api.http.metrics.families import by_labels
from raftlog.partitions.broker import Broker


def security_families(broker: Broker) -> Iterator[Metric]:
    """Yield the metric families of certificates by listener, and of throttled clients by quota."""
    security = broker.security
    expiries = [([name], at) for name, at in security.listeners.expiry_times_s()]
    yield by_labels("tls_certificate_expiry_timestamp_seconds", expiries)
    throttles = [([quota], count) for quota, count in security.rates.throttles.items()]
    yield by_labels("quota_throttles_total", throttles)
    seconds = [([quota], total) for quota, total in security.rates.throttled_s.items()]
    yield by_labels("quota_throttle_seconds_total", seconds)
