"""Operations that remember what was ordered, and answer what a test tells them."""

from typing import Any

from raftlog.errors import UnknownBroker
from raftlog.partitions.operations import results
from raftlog.types import TopicPartition

MOVE = results.Move("orders", 0, (1, 2, 3), (1, 2, 4), (4,), 700, 300, 1000, 50, None, 9)
STUCK = MOVE._replace(partition=1, to_nodes=(1, 2, 3), learners=(), bytes_left=None, bytes_moved=None, reason="no host")
MODE = results.ConfigEntry("off", "continuous", False, "string", "What the balancer does.", "off or continuous")
COUNT = results.ConfigEntry(16, 16, True, "integer", "Moves at a time.", "1 or more")
LEVELS = results.Levels(2, 3, (results.BrokerLevels(1, 2, 3, "0.2.0"), results.BrokerLevels(2, 1, 3, None)), ())
ANSWERS: dict[str, Any] = {
    "set_maintenance": 12,
    "maintenance": results.Maintenance(1, True, False, True, 5, 4, 2, 1, ("node 3 lags behind",), 12),
    "decommission": None,
    "recommission": None,
    "decommission_status": results.Decommission(3, False, 2, 700, ("orders/1",), (MOVE, STUCK), "no host is left"),
    "set_replicas": 21,
    "cancel_reconfiguration": 22,
    "cancel_moves": [TopicPartition("orders", 0)],
    "transfer_leadership": 2,
    "reconfigurations": [MOVE],
    "local_replicas": [results.LocalReplica("orders", 0, None, False, True, (1, 2), 4096, "follows nobody")],
    "local_summary": results.LocalSummary(5, 1, 2),
    "balancer_status": results.BalancerStatus("continuous", "stalled", (3,), (), 1.5, 4, ("no host is left",)),
    "rebalance": 7,
    "cluster_config": results.ClusterConfig(31, {"balancer.mode": MODE, "balancer.moves.max": COUNT}),
    "alter_cluster_config": 32,
    "cluster_config_status": [results.BrokerConfig(1, 31), results.BrokerConfig(2, None)],
    "levels": LEVELS,
    "finish_upgrade": 3,
}
LOCAL = ()


class ToldOperations:
    """In place of `broker.operations`. An answer that is an error is raised."""

    def __init__(self) -> None:
        self.answers = dict(ANSWERS)
        self.ordered: list[tuple[Any, ...]] = []
        """Name, arguments, and keyword arguments but the deadline, of each call."""

    def __getattr__(self, name: str) -> Any:
        async def answered(*args: Any, **options: Any) -> Any:
            assert options.pop("deadline") > 0
            self.ordered.append((name, *args, options))
            found = self.answers[name]
            if isinstance(found, Exception):
                raise found
            return found

        return answered


UNKNOWN = UnknownBroker("there is no broker 9")
