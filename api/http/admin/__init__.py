"""Operators' requests below /v1, in the format of Redpanda's admin API.

`parameters` parses the parts that requests have in common; answers are values of `raftlog.values`. Every broker
answers every request in the same way, except requests about the answering broker itself: its own replicas, its own
maintenance (a path without a node id), its log levels. `app` registers the handlers."""

from raftlog.api.http.admin.brokers import BrokerHandlers
from raftlog.api.http.admin.log_levels import LogLevelHandlers
from raftlog.api.http.admin.moves import MoveHandlers
from raftlog.api.http.admin.partitions import PartitionHandlers
from raftlog.api.http.admin.settings import SettingHandlers

__all__ = [
    "BrokerHandlers",
    "LogLevelHandlers",
    "MoveHandlers",
    "PartitionHandlers",
    "SettingHandlers",
]
