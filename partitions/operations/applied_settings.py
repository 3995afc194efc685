"""Effects of changed cluster settings on a broker. Called by the broker."""

from raftlog.partitions.controller.machine import ClusterState
from raftlog.partitions.node import Node
from raftlog.partitions.operations.cluster_settings import current_settings
from raftlog.partitions.placement.balancing import BalancerSettings, BrokerMode


def balancer_settings(state: ClusterState) -> BalancerSettings:
    """Return the settings of the balancer from the controller's state."""
    settings = current_settings(state)
    repair_after_ms = settings.repair_after_ms
    return BalancerSettings(
        BrokerMode(settings.balancer_mode),
        settings.balancer_moves_max,
        None if repair_after_ms is None else repair_after_ms / 1000,
        settings.leaders_balance,
    )


def apply_throttle(node: Node, state: ClusterState) -> None:
    """Limit the rate of bytes that this broker sends to replicas that catch up."""
    node.transport.limit_bulk(current_settings(state).catch_up_bytes_per_s)
