"""Members, and claims about them: the nouns of gossip.

A member is one process on one disk under one node id. Its `incarnation` is raised only by itself, begins at
`boot_epoch · 2³²`, so that a new start is newer than all earlier claims, and orders all claims about it.
"""

from enum import IntEnum
from typing import Final, NamedTuple

from raftlog.types import NodeId

DESCRIPTION_BYTES_MAX: Final = 400
DISK_UUID_BYTES: Final = 16
HOST_BYTES_MAX: Final = 255
INCARNATION_MAX: Final = 2**63 - 1
BOOT_INCARNATIONS: Final = 2**32
"""Incarnations of one boot epoch."""


class MemberState(IntEnum):
    """State of a member. At one incarnation a higher state beats a lower one (SWIM 4.2)."""

    ALIVE = 0
    SUSPECT = 1
    DEAD = 2
    LEFT = 3
    """Left by its own announcement: it need not be looked for."""

    @property
    def is_up(self) -> bool:
        """Whether it is alive or suspect: it is probed, gets gossip, and keeps its name."""
        return self <= MemberState.SUSPECT


class Address(NamedTuple):
    """Host and port of a member's datagrams and streams."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class GossipIdentity(NamedTuple):
    """Identity of this process, set at its start."""

    node_id: NodeId
    disk_uuid: bytes
    """16 bytes."""
    address: Address
    """Address at which the others reach it."""
    boot_epoch: int
    """Starts of this disk, from 1."""

    @property
    def first_incarnation(self) -> int:
        return self.boot_epoch * BOOT_INCARNATIONS


class About(NamedTuple):
    """Address and description that a member announced at an incarnation; the highest incarnation holds."""

    incarnation: int
    address: Address
    description: bytes
    """Opaque here, at most 400 bytes."""


class GossipMember(NamedTuple):
    """State of a member. `about.incarnation ≤ incarnation` once all of its claims have arrived."""

    node_id: NodeId
    disk_uuid: bytes
    incarnation: int
    state: MemberState
    about: About
    since: float
    """Start of the state on this process's clock, as far as known."""

    @property
    def address(self) -> Address:
        return self.about.address

    @property
    def description(self) -> bytes:
        return self.about.description


class Claim(NamedTuple):
    """Statement of some member about a member; it holds only if it is the newest."""

    node_id: NodeId
    disk_uuid: bytes
    incarnation: int
    state: MemberState
    by: NodeId
    """Member that suspects it or found it dead; distinguishes independent suspicions."""
    age_s: int
    """Seconds since a dead or left member reached that state; 0 otherwise."""
    about: About | None
    """Description; always present for a live member, omitted by gossip about others."""
