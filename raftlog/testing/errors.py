"""What can go wrong with processes that were started for a test."""

from raftlog.errors import Unavailable


class BrokerFailed(Unavailable):
    """A broker, or the cluster as a whole, is not in the state that was waited for."""


class BrokerNotReady(BrokerFailed):
    """A broker ended, or took too long, before it served; the message ends with what it said."""
