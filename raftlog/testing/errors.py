"""Errors of processes that a test started."""

from raftlog.errors import Unavailable


class BrokerFailed(Unavailable):
    """Error if a broker, or the cluster, did not reach the expected state."""


class BrokerNotReady(BrokerFailed):
    """Error if a broker ended or took too long before it served; the message includes the end of its log."""
