"""When a broker that was decommissioned can be removed from the cluster. Pure; called by the balancer.

nothing is assigned to it ∧ no group counts on it ∧ its replicas are gone, or it is away and nobody misses them
"""

from collections.abc import Collection, Mapping

from raftlog.partitions.controller.machine import ControllerState, RegisteredBroker
from raftlog.partitions.placement.balancing.progress import HeldReplicas, summed
from raftlog.raft import ReplicaId
from raftlog.types import NodeId


def may_remove(
    broker: RegisteredBroker,
    state: ControllerState,
    told: Mapping[NodeId, HeldReplicas | None],
    controller_voters: Collection[ReplicaId],
    *,
    is_settled: bool,
) -> bool:
    """`told` is what every broker that is heard has said just now; `is_settled`: no partition is on its way, and none
    was placed since they said it.

    Of a broker that is away nobody can say that its replicas are gone; but when every partition is led by somebody who
    says that it has just the members that it shall have, none of them counts on it.
    """
    if state.load(broker.replica).replicas or broker.replica in controller_voters or len(state.brokers) < 2:
        return False
    if not told or any(each is None for each in told.values()):
        return False
    own = told.get(broker.node_id)
    if own is not None:
        return own.held == 0
    led = [each.led for each in told.values() if each is not None]
    return is_settled and all(led) and summed(led) == summed(state.group_keys())
