"""The table of all declarations, by name without the prefix, in the order of the documentation."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from raftlog.api.http.metrics.declared.cluster import BROKER, CONSUMER_GROUPS, RAFT_GROUPS, TOPICS
from raftlog.api.http.metrics.declared.declaration import MetricDeclaration
from raftlog.api.http.metrics.declared.infrastructure import DISK, GOSSIP, RPC
from raftlog.api.http.metrics.declared.requests import HTTP, KAFKA, LATENCIES, RECORDS

_ALL: Final = (
    *BROKER,
    *RAFT_GROUPS,
    *LATENCIES,
    *RECORDS,
    *HTTP,
    *KAFKA,
    *CONSUMER_GROUPS,
    *TOPICS,
    *DISK,
    *RPC,
    *GOSSIP,
)
DECLARED: Final[Mapping[str, MetricDeclaration]] = MappingProxyType({each.name: each for each in _ALL})
assert len(DECLARED) == len(_ALL), "a metric is declared twice"
