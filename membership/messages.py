"""Messages of gossip, as values; `membership.encoding` converts them to bytes and back.

A datagram or a frame of a stream carries a list of these. An answer repeats the `sequence` of its request."""

from typing import NamedTuple, TypeAlias

from raftlog.membership.member import Claim
from raftlog.types import NodeId


class Ping(NamedTuple):
    """Probe of a member; only the named member on the named disk answers it with `Ack`."""

    sequence: int
    target: NodeId
    disk_uuid: bytes


class Ack(NamedTuple):
    """Answer to a ping, from its target or from the helper that was asked to ping the target."""

    sequence: int


class Nack(NamedTuple):
    """Answer of a helper that has received none from the target so far (Lifeguard: LHA-Probe)."""

    sequence: int


class PingRequest(NamedTuple):
    """Request to ping another member; the helper answers `Ack` or `Nack`."""

    sequence: int
    target: NodeId
    disk_uuid: bytes
    host: str
    port: int


class DigestRoot(NamedTuple):
    """First message of an exchange: one hash of the sender's whole state; not answered if the receiver has the same."""

    root: int


class DigestBuckets(NamedTuple):
    """Hashes of the buckets into which members fall by node id."""

    buckets: tuple[int, ...]


class DigestEntry(NamedTuple):
    """Summary of a member in a digest: shows which side has the newer state."""

    node_id: NodeId
    incarnation: int
    state: int
    about_incarnation: int
    disk: int
    """Hash of the disk uuid."""


class DigestEntries(NamedTuple):
    """All members of the sender in these buckets; answered with claims that the sender lacks, and `ClaimRequest`."""

    buckets: tuple[int, ...]
    entries: tuple[DigestEntry, ...]


class ClaimRequest(NamedTuple):
    """Request for claims about these members."""

    node_ids: tuple[NodeId, ...]


Message: TypeAlias = Ping | Ack | Nack | PingRequest | Claim | DigestRoot | DigestBuckets | DigestEntries | ClaimRequest
