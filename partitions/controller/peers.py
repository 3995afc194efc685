"""Addresses and disks of other nodes, from the newest source: the controller's state, or the bootstrap file.

Pure; called by the host whenever the state changed."""

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from raftlog.partitions.addresses import Address, address_text, parse_address_or_none
from raftlog.partitions.controller.bootstrap_record import BootstrapFile, BootstrapMember
from raftlog.partitions.controller.introductions import NodeIntroduction
from raftlog.partitions.controller.machine import ControllerState
from raftlog.raft import ReplicaId
from raftlog.types import NodeId


class PeerAddresses(NamedTuple):
    """Addresses and `disks` of the other members of the cluster, by node id."""

    addresses: dict[NodeId, Address]
    disks: dict[NodeId, UUID]

    def member(self, node: NodeId) -> BootstrapMember | None:
        """Return a node with its disk and address; None if it is unknown."""
        address = self.addresses.get(node)
        return None if address is None else BootstrapMember(node, self.disks[node], address_text(address))


def peers_of(
    state: ControllerState, file: BootstrapFile, own_id: ReplicaId, introduced: Mapping[NodeId, NodeIntroduction]
) -> PeerAddresses | None:
    """Return addresses and disks of other nodes; None if none is known yet.

    Descriptions in `introduced` are used until the state has newer rows. Until the state has a row of this process, the
    file's members are used as well, because the state may be from an old beginning of the log. A node gets a
    new disk only after its old one is retired, for good. So a disk named by others is newer than the state, unless it
    is retired in the state."""
    record = file.record
    if record is None and state.bootstrap is None:
        return None
    known: dict[NodeId, BootstrapMember] = {}
    absent = sorted(state.absent_seeds()) if state.bootstrap is not None else []
    for seed in record.seeds if record is not None else ():
        if state.bootstrap is None or seed.replica in absent:
            known[seed.node_id] = seed
    if state.broker_of(own_id) is None:  # newer than the record, which can name a seed that had no address yet
        known.update({member.node_id: member for member in file.members if member.address})
    for broker in state.all_brokers():
        told = known.get(broker.node_id)
        if told is None or told.disk_uuid == broker.disk_uuid or told.disk_uuid in state.retired:
            known[broker.node_id] = BootstrapMember(broker.node_id, broker.disk_uuid, broker.addresses.rpc)
    known.pop(own_id.node_id, None)
    for node, (member, instead_of) in introduced.items():
        before = known.get(node)
        is_other_disk = before is not None and before.disk_uuid != member.disk_uuid
        if (is_other_disk or before == instead_of) and member.disk_uuid not in state.retired:
            known[node] = member
    addresses = {
        node: address for node, member in sorted(known.items()) if (address := parse_address_or_none(member.address))
    }
    return PeerAddresses(addresses, {node: known[node].disk_uuid for node in addresses})
