"""Brokers of the cluster as this node sees them: gossip combined with the controller's state. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final, cast
from uuid import UUID

from raftlog.errors import FormatError
from raftlog.membership.member import GossipMember, MemberState
from raftlog.partitions.controller.machine import RegisteredBroker
from raftlog.partitions.gossip.description import Description, decode
from raftlog.types import NodeId
from raftlog.values.brokers import ClusterMember, GossipState

UNKNOWN: Final[GossipState] = "unknown"


def description_of(member: GossipMember) -> Description | None:
    """Return the description sent by a gossip member; None if it cannot be decoded."""
    try:
        return decode(member.description)
    except FormatError:
        return None


def combine_members(
    rows: Iterable[RegisteredBroker], members: Mapping[NodeId, GossipMember], now: float
) -> list[ClusterMember]:
    """Return all brokers that are registered or known by gossip, sorted by node id; `now` is by the loop's clock."""
    registered = {row.node_id: row for row in rows}
    return [
        _combine_rows(node, registered.get(node), members.get(node), now)
        for node in sorted(registered.keys() | members.keys())
    ]


def _combine_rows(node: NodeId, row: RegisteredBroker | None, member: GossipMember | None, now: float) -> ClusterMember:
    """Return a broker's row; addresses from the controller take precedence over gossiped ones."""
    sent = None if member is None else description_of(member)
    known = ("", "", "", "") if row is None else (row.addresses.http, row.addresses.rpc, row.addresses.gossip, row.host)
    gossiped = ("", "", "", "") if sent is None else (sent.http, sent.rpc, sent.gossip, sent.host_label)
    http, rpc, gossip, host = (one or other for one, other in zip(known, gossiped, strict=True))
    disk = str(UUID(bytes=member.disk_uuid)) if member is not None else str(row.disk_uuid) if row is not None else ""
    return ClusterMember(
        node_id=node,
        state=UNKNOWN if member is None else state_name(member.state),
        state_s=None if member is None else round(max(0.0, now - member.since), 1),
        is_registered=row is not None and str(row.disk_uuid) == disk,
        disk_uuid=disk,
        incarnation=None if member is None else member.incarnation,
        http_address=http or None,
        rpc_address=rpc or None,
        gossip_address=gossip or (str(member.address) if member is not None else None),
        host=host or None,
        rack=(sent.rack or None) if sent is not None else None,
        version=None if sent is None else sent.version,
        load=None if sent is None else sent.load,
    )


def state_name(state: MemberState) -> GossipState:
    """Return the name of a gossip state in answers."""
    return cast(GossipState, state.name.lower())
