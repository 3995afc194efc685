"""Scripted operations that record their calls and return the answers that a test prepared."""

from typing import Any

from raftlog.errors import UnknownBroker
from raftlog.partitions.operations.cluster_settings import ClusterConfig
from raftlog.values.brokers import BrokerLevels, Decommission, Features, Maintenance
from raftlog.values.cluster import ClusterSettingsStatus, SettingDescription
from raftlog.values.placement import (
    BalancerStatus,
    BalancerViolations,
    CancelledReassignment,
    LeavingPartition,
    LocalReplica,
    LocalSummary,
    Reconfiguration,
    make_places,
)

MOVE = Reconfiguration(
    topic="orders",
    partition=0,
    previous_replicas=make_places((1, 2, 3)),
    current_replicas=make_places((1, 2, 4)),
    learners=(4,),
    bytes_left_to_move=700,
    bytes_moved=300,
    partition_size=1000,
    bytes_per_s=50,
    version=9,
)
STUCK = MOVE.copy_with(
    partition=1,
    current_replicas=make_places((1, 2, 3)),
    learners=(),
    bytes_left_to_move=None,
    bytes_moved=None,
    reason="no host",
)
SETTINGS = {
    "balancer.mode": SettingDescription(
        description="What the balancer does.", type="string", default="continuous", allowed="off or continuous"
    ),
    "balancer.moves.max": SettingDescription(
        description="Moves at a time.", type="integer", default=16, allowed="1 or more"
    ),
}
LEVELS = Features(2, 3, False, (BrokerLevels(1, 2, 3, "0.2.0"), BrokerLevels(2, 1, 3, None)))
ANSWERS: dict[str, Any] = {
    "set_maintenance": 12,
    "maintenance": Maintenance(
        node_id=1,
        version=12,
        draining=True,
        errors=True,
        partitions=5,
        eligible=4,
        transferring=2,
        failed=1,
        reasons=("node 3 lags behind",),
    ),
    "decommission": None,
    "recommission": None,
    "decommission_status": Decommission(
        False,
        2,
        700,
        ("orders/1",),
        [LeavingPartition.from_reassignment(each, 3) for each in (MOVE, STUCK)],
        "no host is left",
    ),
    "set_replicas": 21,
    "cancel_reconfiguration": 22,
    "cancel_moves": [CancelledReassignment(topic="orders", partition=0)],
    "transfer_leadership": 2,
    "reconfigurations": [MOVE],
    "local_replicas": [
        LocalReplica(
            topic="orders",
            partition=0,
            leader_id=-1,
            is_leader=False,
            is_under_replicated=True,
            replicas=make_places((1, 2)),
            bytes=4096,
            status="has no leader",
        )
    ],
    "local_summary": LocalSummary(5, 1, 2),
    "balancer_status": BalancerStatus("stalled", "continuous", BalancerViolations((3,)), 1.5, 4, ("no host is left",)),
    "rebalance": 7,
    "cluster_config": ClusterConfig(
        31, {"balancer.mode": "off", "balancer.moves.max": 16}, SETTINGS, {"balancer.mode"}
    ),
    "alter_cluster_config": 32,
    "cluster_config_status": [ClusterSettingsStatus(1, 31), ClusterSettingsStatus(2, None)],
    "feature_levels": LEVELS,
    "finish_upgrade": 3,
}
LOCAL = ()


class ScriptedOperations:
    """Stand-in for `broker.operations`: records each call, and returns or raises the prepared answer."""

    def __init__(self) -> None:
        self.answers = dict(ANSWERS)
        self.ordered: list[tuple[Any, ...]] = []
        """Name, arguments, and keyword arguments but the deadline, of each call."""
        self.brokers = self.partitions = self.leadership = self.replicas = self.balancing = self.cluster = self

    def __getattr__(self, name: str) -> Any:
        async def answer(*args: Any, **options: Any) -> Any:
            assert options.pop("deadline") > 0
            self.ordered.append((name, *args, options))
            found = self.answers[name]
            if isinstance(found, Exception):
                raise found
            return found

        return answer


UNKNOWN = UnknownBroker("there is no broker 9")
