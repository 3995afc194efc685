"""Errors of processes that a test started."""

from raftlog.errors import Unavailable


class BrokerFailed(Unavailable):
    """A broker or the cluster did not reach the expected state."""


class BrokerNotReady(BrokerFailed):
    """A broker ended or timed out before it served; the message includes the end of its log."""
