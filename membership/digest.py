"""Comparison of two members' views by hashes (anti-entropy); costs one message and no answer if they are equal.

    here → there   my own claim, DigestRoot       one hash of everything; no answer if both are the same
    there → here   DigestBuckets                  64 hashes, by node id modulo 64
    here → there   DigestEntries                  the members of the buckets that differ: id, incarnation, state
    there → here   claims, ClaimRequest           claims that are newer there, and ids of those newer here
    here → there   claims

A hash covers a member's node id, disk, incarnation, state and the incarnation of its description. Each change of a
member updates the hashes, so that a digest is ready at any time. Called by the machine's exchanges."""

import hashlib
import struct
from collections.abc import Iterable
from typing import Final

from raftlog.membership.member import GossipMember
from raftlog.membership.messages import DigestEntry
from raftlog.types import NodeId

BUCKETS: Final = 64
_HASHED: Final = struct.Struct("<IQBQQ")


def make_entry(member: GossipMember) -> DigestEntry:
    """Return the summary of a member for a digest."""
    disk = int.from_bytes(hashlib.blake2b(member.disk_uuid, digest_size=8).digest())
    return DigestEntry(member.node_id, member.incarnation, int(member.state), member.about.incarnation, disk)


def _hash(entry: DigestEntry) -> int:
    """Return a 64-bit hash of a member's summary."""
    return int.from_bytes(hashlib.blake2b(_HASHED.pack(*entry), digest_size=8).digest())


def bucket_of(node_id: NodeId) -> int:
    """Return the number of the bucket into which a member falls."""
    return node_id % BUCKETS


class Digest:
    """Hashes of the states of all members, by bucket, for comparing two views.

    The hash of a bucket is the bitwise exclusive or of the hashes of its members."""

    def __init__(self) -> None:
        self.root = 0
        self._buckets = [0] * BUCKETS

    @property
    def buckets(self) -> tuple[int, ...]:
        """Hash of each bucket, by its number."""
        return tuple(self._buckets)

    def replace(self, before: GossipMember | None, after: GossipMember | None) -> None:
        """Replace a member's hash; None before it is added and after it is forgotten."""
        for member in (before, after):
            if member is not None:
                hashed = _hash(make_entry(member))
                self.root ^= hashed
                self._buckets[bucket_of(member.node_id)] ^= hashed

    def find_differences(self, other_hashes: tuple[int, ...]) -> tuple[int, ...]:
        """Return the numbers of the buckets whose hashes differ from `other_hashes`."""
        pairs = enumerate(zip(self._buckets, other_hashes, strict=True))
        return tuple(number for number, (mine, other) in pairs if mine != other)


def compare_entries(own: Iterable[GossipMember], other: Iterable[DigestEntry]) -> tuple[list[NodeId], list[NodeId]]:
    """Return the ids of members to send, newer in `own`, and of members to request, newer in `other`.

    An id may be in both lists (an older state, a newer description).
    """
    own_entries = {member.node_id: make_entry(member) for member in own}
    other_entries = {entry.node_id: entry for entry in other}
    to_send = [node_id for node_id, entry in own_entries.items() if _is_newer(entry, other_entries.get(node_id))]
    to_request = [node_id for node_id, entry in other_entries.items() if _is_newer(entry, own_entries.get(node_id))]
    return to_send, to_request


def _is_newer(entry: DigestEntry, other: DigestEntry | None) -> bool:
    """Return whether an entry has a newer state or announcement than `other`, or is of another disk."""
    if other is None or entry.disk != other.disk:
        return True
    newer = (entry.incarnation, entry.state) > (other.incarnation, other.state)
    return newer or entry.about_incarnation > other.about_incarnation
