"""What operators ask and order below /v1, in the shapes of Redpanda's admin API.

Grouped by noun; `reading` has what requests are read with, and answers are values of `raftlog.values`. Any broker
answers any of them but those about itself (its own replicas, maintenance without a node id, log levels). `app` brings
them in.
"""

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
