"""Errors of processes that a test started."""

from raftlog.errors import Unavailable


class BrokerFailed(Unavailable):
    """Broker, or cluster as a whole, that did not reach the expected state."""


class BrokerNotReady(BrokerFailed):
    """Broker that ended, or took too long, before it served; the message ends with the end of its log."""
