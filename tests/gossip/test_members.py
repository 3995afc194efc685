"""Members as combined from gossip and from the controller's state."""

from typing import Any
from uuid import UUID

from raftlog.membership.member import Address, Announcement, GossipMember, MemberState
from raftlog.partitions.controller.machine import Addresses, RegisteredBroker
from raftlog.partitions.gossip.description import Description, encode
from raftlog.partitions.gossip.members import combine_members
from raftlog.types import NodeId
from raftlog.values.brokers import BrokerLoad

DISK, OTHER_DISK = UUID(int=7), UUID(int=8)
TOLD = Description("h:1", "r:2", "g:3", "host", "rack-1", "0.2.0", BrokerLoad(3, 1, 10, 20, 0))


def make_row(node: int = 1, **changes: Any) -> RegisteredBroker:
    fields: dict[str, Any] = {
        "node_id": NodeId(node),
        "disk_uuid": DISK,
        "boot_epoch": 1,
        "host": "registered-host",
        "addresses": Addresses("registered:1", "registered:2", ""),
        "feature_level_min": 1,
        "feature_level_max": 3,
        "is_draining": False,
        "version": 5,
    }
    return RegisteredBroker(**{**fields, **changes})


def make_member(
    node: int = 1, disk: UUID = DISK, description: bytes | None = None, state: MemberState = MemberState.ALIVE
) -> GossipMember:
    told = encode(TOLD) if description is None else description
    return GossipMember(NodeId(node), disk.bytes, 9, state, Announcement(9, Address("g", 3), told), 100.0)


def test_a_registered_broker_that_gossips_has_fields_of_both_sources() -> None:
    (one,) = combine_members([make_row()], {NodeId(1): make_member()}, 103.5)
    assert (one.state, one.state_s, one.is_registered, one.incarnation) == ("alive", 3.5, True, 9)
    assert (one.http_address, one.rpc_address, one.gossip_address, one.host) == (
        "registered:1",
        "registered:2",
        "g:3",
        "registered-host",
    )
    assert (one.rack, one.version, one.load) == ("rack-1", "0.2.0", TOLD.load)


def test_a_broker_without_gossip_is_unknown() -> None:
    (one,) = combine_members([make_row()], {}, 103.5)
    assert (one.state, one.state_s, one.is_registered, one.version, one.load) == ("unknown", None, True, None, None)
    assert one.disk_uuid == str(DISK)


def test_an_unregistered_broker_that_gossips_is_marked() -> None:
    one, other = combine_members(
        [make_row(1)],
        {NodeId(1): make_member(disk=OTHER_DISK), NodeId(2): make_member(2, state=MemberState.LEFT)},
        100.0,
    )
    assert not one.is_registered
    assert one.disk_uuid == str(OTHER_DISK)
    assert (other.node_id, other.state, other.is_registered, other.http_address) == (2, "left", False, "h:1")


def test_an_undecodable_description_is_left_out() -> None:
    (one,) = combine_members([], {NodeId(1): make_member(description=b"nonsense")}, 100.0)
    assert (one.rack, one.version, one.load) == (None, None, None)
    assert one.gossip_address == "g:3", "the protocol has an address of its own"
