"""Metrics of security: certificates of listeners, and clients that quotas delayed or refused."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from raftlog.api.http.metrics.families import counters, gauges
from raftlog.partitions.broker import Broker


def security_families(broker: Broker) -> Iterator[Metric]:
    """Yield the metric families of certificates by listener, and of throttled clients by quota."""
    security = broker.security
    expiries = [([name], seconds) for name, seconds in security.listeners.expiries_s()]
    text = "Seconds until the certificate of a listener expires; negative once it has."
    yield gauges("tls_certificate_expiry_seconds", text, ["listener"], expiries)
    throttles = [([quota], count) for quota, count in security.rates.throttles.items()]
    yield counters("quota_throttles", "Requests and connections that a quota delayed or refused.", ["quota"], throttles)
    seconds = [([quota], total) for quota, total in security.rates.throttled_s.items()]
    yield counters("quota_throttle_seconds", "Time for which quotas delayed clients.", ["quota"], seconds)
