"""Operators' requests below /v1, in the format of Redpanda's admin API.

Grouped by noun; `reading` parses what requests have in common, and answers are values of `raftlog.values`. Any
broker answers any of them except those about itself (its own replicas, maintenance without a node id, log
levels). `app` registers them."""

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
