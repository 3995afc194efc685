"""The members of a cluster as one broker sees them: what gossip says, beside what the controller's state says. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from raftlog.errors import FormatError
from raftlog.membership.member import GossipMember
from raftlog.partitions.controller.machine import RegisteredBroker
from raftlog.partitions.gossip.description import BrokerLoad, Description, decode
from raftlog.types import NodeId

UNKNOWN: Final = "unknown"


class ClusterMember(NamedTuple):
    """One broker. `state` is `alive`, `suspect`, `dead` or `left` as gossip has it, or `unknown` where there is none;
    `state_s` for how long, as far as known. `is_registered`: the controller's state has it, with this disk."""

    node_id: NodeId
    state: str
    state_s: float | None
    is_registered: bool
    disk_uuid: str
    incarnation: int | None
    http: str
    rpc: str
    gossip: str
    host: str
    rack: str
    version: str | None
    load: BrokerLoad | None


def description_of(member: GossipMember) -> Description | None:
    """What a member tells of itself; None when it cannot be read."""
    try:
        return decode(member.description)
    except FormatError:
        return None


def combined(
    rows: Iterable[RegisteredBroker], members: Mapping[NodeId, GossipMember], now: float
) -> list[ClusterMember]:
    """Everybody that is registered or gossips, by node id."""
    registered = {row.node_id: row for row in rows}
    return [
        _combined(node, registered.get(node), members.get(node), now)
        for node in sorted(registered.keys() | members.keys())
    ]


def _combined(node: NodeId, row: RegisteredBroker | None, member: GossipMember | None, now: float) -> ClusterMember:
    told = None if member is None else description_of(member)
    known = ("", "", "", "") if row is None else (row.addresses.http, row.addresses.rpc, row.addresses.gossip, row.host)
    said = ("", "", "", "") if told is None else (told.http, told.rpc, told.gossip, told.host_label)
    http, rpc, gossip, host = (one or other for one, other in zip(known, said, strict=True))
    disk = str(UUID(bytes=member.disk_uuid)) if member is not None else str(row.disk_uuid) if row is not None else ""
    return ClusterMember(
        node,
        UNKNOWN if member is None else member.state.name.lower(),
        None if member is None else max(0.0, now - member.since),
        row is not None and str(row.disk_uuid) == disk,
        disk,
        None if member is None else member.incarnation,
        http,
        rpc,
        gossip or (str(member.address) if member is not None else ""),
        host,
        "" if told is None else told.rack,
        None if told is None else told.version,
        None if told is None else told.load,
    )
