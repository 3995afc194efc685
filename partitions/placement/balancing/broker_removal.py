"""Condition for the removal of a decommissioned broker. Pure; called by the balancer.

no replica is assigned to it ∧ no group counts on it ∧ its replicas are removed, or no partition needs it
"""

from collections.abc import Collection, Mapping

from raftlog.partitions.controller.machine import ControllerState, RegisteredBroker
from raftlog.partitions.placement.balancing.progress import HeldReplicas, summed
from raftlog.raft import ReplicaId
from raftlog.types import NodeId


def may_remove(
    broker: RegisteredBroker,
    state: ControllerState,
    reports: Mapping[NodeId, HeldReplicas | None],
    controller_voters: Collection[ReplicaId],
    *,
    is_settled: bool,
) -> bool:
    """Return whether the broker can be removed from the cluster.

    `reports`: the present reports of all reachable brokers; `is_settled`: no partition moves, and none was placed
    since these reports.

    A broker that is away cannot report that its replicas are removed, and one that has still to create some may be
    one of the first of a new partition, from which the others are filled. But when every partition has a leader that
    reports a configuration equal to the assignment, no partition needs that broker."""
    if state.load(broker.replica).replicas or broker.replica in controller_voters or len(state.brokers) < 2:
        return False
    if not reports or any(each is None for each in reports.values()):
        return False
    own = reports.get(broker.node_id)
    if own is not None and (own.held or own.is_settled):
        return own.held == 0
    led = [each.led for each in reports.values() if each is not None]
    return is_settled and all(led) and summed(led) == summed(state.group_keys())
