"""The client: what a program on the other side of the network uses.

It reaches a broker through its HTTP API alone and shares with it only types, errors, settings and the batch format.
Errors of the broker arrive here as the same classes, outcome included.
"""

from raftlog.client.answers import (
    BrokerDescription,
    ClusterHealth,
    Fetched,
    OffsetRange,
    PartitionDescription,
    Produced,
    TopicDescription,
)
from raftlog.client.broker import BrokerClient
from raftlog.client.failures import NotListening

__all__ = [
    "BrokerClient",
    "BrokerDescription",
    "ClusterHealth",
    "Fetched",
    "NotListening",
    "OffsetRange",
    "PartitionDescription",
    "Produced",
    "TopicDescription",
]
