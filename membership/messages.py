"""Messages of gossip, as values. `membership.encoding` writes and reads them as bytes.

A datagram or a frame of a stream carries a list of these. An answer repeats the `sequence` of its request."""

from typing import NamedTuple, TypeAlias

from raftlog.membership.member import Claim
from raftlog.types import NodeId


class Ping(NamedTuple):
    """Probe; answered with `Ack` only by the named member on the named disk."""

    sequence: int
    target: NodeId
    disk_uuid: bytes


class Ack(NamedTuple):
    """I am there; or, from a helper: the one you asked me to ping is."""

    sequence: int


class Nack(NamedTuple):
    """From a helper: no answer from it so far, but you reach me (Lifeguard: LHA-Probe)."""

    sequence: int


class PingRequest(NamedTuple):
    """Request to ping another member; the helper answers `Ack` or `Nack`."""

    sequence: int
    target: NodeId
    disk_uuid: bytes
    host: str
    port: int


class DigestRoot(NamedTuple):
    """First message of an exchange: one hash of the sender's whole state. No answer if it is the same."""

    root: int


class DigestBuckets(NamedTuple):
    """The hashes of the buckets that members fall into by node id."""

    buckets: tuple[int, ...]


class DigestEntry(NamedTuple):
    """Member in a digest: enough to see which side has newer state."""

    node_id: NodeId
    incarnation: int
    state: int
    about_incarnation: int
    disk: int
    """A hash of the disk uuid."""


class DigestEntries(NamedTuple):
    """All members that the sender has in these buckets; answered with claims that it lacks, and `ClaimRequest`."""

    buckets: tuple[int, ...]
    entries: tuple[DigestEntry, ...]


class ClaimRequest(NamedTuple):
    """Request for claims about these members."""

    node_ids: tuple[NodeId, ...]


Message: TypeAlias = Ping | Ack | Nack | PingRequest | Claim | DigestRoot | DigestBuckets | DigestEntries | ClaimRequest
