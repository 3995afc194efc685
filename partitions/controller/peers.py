"""The other nodes and where they are, from what is known best: the controller's state, or what this process began with.

Pure; called by the host whenever the state changed.
"""

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from raftlog.partitions.addresses import Address, address_text, maybe_address
from raftlog.partitions.controller.bootstrap_record import BootstrapFile, BootstrapMember
from raftlog.partitions.controller.introductions import NodeIntroduction
from raftlog.partitions.controller.machine import ControllerState
from raftlog.raft import ReplicaId
from raftlog.types import NodeId


class PeerAddresses(NamedTuple):
    """By node id; `disks` of those that belong to the cluster."""

    addresses: dict[NodeId, Address]
    disks: dict[NodeId, UUID]

    def member(self, node: NodeId) -> BootstrapMember | None:
        """A node as it is known; None when it is not."""
        address = self.addresses.get(node)
        return None if address is None else BootstrapMember(node, self.disks[node], address_text(address))


def peers_of(
    state: ControllerState, file: BootstrapFile, me: ReplicaId, introduced: Mapping[NodeId, NodeIntroduction]
) -> PeerAddresses | None:
    """All others; None before anything is known. What was `introduced` fills in until the state says otherwise.

    A copy that does not have this process itself may be an old beginning of the log, so what stands in the file counts
    beside it, until it has. Of two disks of a node, one is only followed by the other when it is retired, for ever: so
    a disk that others name is newer than the state, unless the state has it among the retired.
    """
    record = file.record
    if record is None and state.bootstrap is None:
        return None
    known: dict[NodeId, BootstrapMember] = {}
    absent = sorted(state.absent_seeds()) if state.bootstrap is not None else []
    for seed in record.seeds if record is not None else ():
        if state.bootstrap is None or seed.replica in absent:
            known[seed.node_id] = seed
    if state.broker_of(me) is None:  # newer than the record, which can name a seed that had no address yet
        known.update({member.node_id: member for member in file.members if member.address})
    for broker in state.all_brokers():
        told = known.get(broker.node_id)
        if told is None or told.disk_uuid == broker.disk_uuid or told.disk_uuid in state.retired:
            known[broker.node_id] = BootstrapMember(broker.node_id, broker.disk_uuid, broker.addresses.rpc)
    known.pop(me.node_id, None)
    for node, (member, instead_of) in introduced.items():
        before = known.get(node)
        is_other_disk = before is not None and before.disk_uuid != member.disk_uuid
        if (is_other_disk or before == instead_of) and member.disk_uuid not in state.retired:
            known[node] = member
    addresses = {node: address for node, member in sorted(known.items()) if (address := maybe_address(member.address))}
    return PeerAddresses(addresses, {node: known[node].disk_uuid for node in addresses})
