"""Members of the gossip, and claims about them.

A member is one process on one disk under one node id. Claims about a member are ordered by its `incarnation`, which
only the member itself raises. It begins at `boot_epoch · 2³²`, so that claims about a new start are newer than earlier
ones."""

from enum import IntEnum
from typing import Final, NamedTuple

from raftlog.types import NodeId

DESCRIPTION_BYTES_MAX: Final = 400
DISK_UUID_BYTES: Final = 16
HOST_BYTES_MAX: Final = 255
INCARNATION_MAX: Final = 2**63 - 1
BOOT_INCARNATIONS: Final = 2**32
"""Number of incarnations in one boot epoch."""


class MemberState(IntEnum):
    """State of a member. At the same incarnation a higher state replaces a lower one (SWIM 4.2)."""

    ALIVE = 0
    SUSPECT = 1
    DEAD = 2
    LEFT = 3
    """The member announced that it leaves; it is not pinged any more."""

    @property
    def is_up(self) -> bool:
        """Whether the member is alive or suspected: it is probed, receives gossip, and keeps its node id."""
        return self <= MemberState.SUSPECT


class Address(NamedTuple):
    """Host and port where a member receives datagrams and streams."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class GossipIdentity(NamedTuple):
    """Identity of this process, set at its start."""

    node_id: NodeId
    disk_uuid: bytes
    """Disk uuid in 16 bytes."""
    address: Address
    """Address at which other members reach it."""
    boot_epoch: int
    """Number of starts of this disk, from 1."""

    @property
    def first_incarnation(self) -> int:
        return self.boot_epoch * BOOT_INCARNATIONS


class Announcement(NamedTuple):
    """Address and description that a member announced at an incarnation; that of the highest incarnation is valid."""

    incarnation: int
    address: Address
    description: bytes
    """Bytes that gossip does not interpret, at most 400."""


class GossipMember(NamedTuple):
    """State of a member in this process's view. `about.incarnation ≤ incarnation` once all of its claims arrived."""

    node_id: NodeId
    disk_uuid: bytes
    incarnation: int
    state: MemberState
    about: Announcement
    since: float
    """Time at which the state began, by this process's clock; may be inexact."""

    @property
    def address(self) -> Address:
        return self.about.address

    @property
    def description(self) -> bytes:
        return self.about.description


class Claim(NamedTuple):
    """Statement of one gossip member about the state of another or itself; the highest incarnation is valid."""

    node_id: NodeId
    disk_uuid: bytes
    incarnation: int
    state: MemberState
    by: NodeId
    """Member that suspects the other or declared it dead; distinguishes independent suspicions."""
    age_s: int
    """Seconds since a dead or left member reached that state; 0 otherwise."""
    about: Announcement | None
    """Announcement of the member; always present for a live member, omitted by gossip about others."""
