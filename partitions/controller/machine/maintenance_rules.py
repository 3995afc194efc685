"""Rules of maintenance mode: a broker may have to wait until another broker has left the mode.

A broker in maintenance is about to be stopped. So no partition may have two replicas on such brokers, unless a
majority of its replicas stays outside; nor may they be half of all brokers, because these decide in the controller.
Called by `ControllerState.apply` only."""

from raftlog.errors import ChangeRefused, InvalidArgument
from raftlog.partitions.controller.machine.cluster import ClusterState
from raftlog.partitions.controller.machine.commands import SetMaintenance
from raftlog.partitions.controller.machine.errors import check_version
from raftlog.partitions.controller.machine.naming import GroupName
from raftlog.partitions.controller.machine.rows import BrokerMaintenance, RegisteredBroker
from raftlog.types import Index, NodeId


def set_maintenance(cluster: ClusterState, command: SetMaintenance, index: Index) -> int:
    """Set the maintenance mode; return its version, 0 if it was never on and stays off."""
    broker = cluster.require_broker(command.node_id, command.disk_uuid)
    before = cluster.maintenance.get(command.node_id)
    version = 0 if before is None else before.version
    check_version(f"the maintenance of broker {command.node_id}", version, command.expected_version)
    if cluster.is_in_maintenance(command.node_id) == command.is_on:
        return version
    if command.is_on:
        _check_quorums(cluster, broker)
    cluster.maintenance.put(BrokerMaintenance(command.node_id, command.is_on, index))
    return index


def _check_quorums(cluster: ClusterState, broker: RegisteredBroker) -> None:
    """Raise unless a majority of all brokers and of each partition's replicas stays out of maintenance."""
    if len(cluster.brokers) < 2:
        raise InvalidArgument(
            f"broker {broker.node_id} is the only one: nobody could lead what it leads, so it cannot be in maintenance"
        )
    others = cluster.in_maintenance()
    if not others:
        return
    in_maintenance = {broker.node_id, *others}
    if not _has_majority(len(cluster.brokers), len(in_maintenance)):
        raise ChangeRefused(
            f"broker {broker.node_id} has to wait: with {', '.join(map(str, others))}, in maintenance already, it "
            f"would be {len(in_maintenance)} of {len(cluster.brokers)} brokers; "
            "end the maintenance of another one first"
        )
    for group in cluster.groups_of(broker.replica):
        _check_quorum(cluster, group, in_maintenance, broker.node_id)


def _check_quorum(cluster: ClusterState, group: GroupName, in_maintenance: set[NodeId], node_id: NodeId) -> None:
    """Raise `ChangeRefused` unless a majority of a partition's replicas stays out of maintenance."""
    replicas = cluster.assignment(group).replicas
    among = sorted(replica.node_id for replica in replicas if replica.node_id in in_maintenance)
    if len(among) > 1 and not _has_majority(len(replicas), len(among)):
        name = cluster.topic_by_id(group.topic_id).name
        raise ChangeRefused(
            f"broker {node_id} has to wait: {name}/{group.partition} has {len(among)} of its {len(replicas)} replicas "
            f"on brokers in maintenance then ({', '.join(map(str, among))}); end the maintenance of another one first"
        )


def _has_majority(count: int, without: int) -> bool:
    """Return whether a majority of `count` is left if this number is away."""
    return count - without > count // 2
