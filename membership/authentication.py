"""Authentication of datagrams: the sender seals them, the receiver verifies them; refused ones have no effect. Pure.

     0  magic "RLG" and format version 1           4
     4  cluster id                                16
    20  node id of the sender, big endian           4
    24  its disk: first 8 bytes of the disk uuid    8
    32  boot epoch of the process                   8
    40  number: from 1 on after every start         8
    48  body: messages
    -16 tag: HMAC-SHA256 over all before, cut to 16 bytes

The same seal is used for the frames of a stream. No field is used before the tag is verified, except that a wrong
version and another cluster are refused before, for separate counters. Any holder of a key can send in the name of every
node: the key proves membership, not identity. Called by the agent."""

import hashlib
import hmac
import struct
import uuid
from enum import Enum
from typing import Final, NamedTuple

from raftlog.errors import RaftlogError
from raftlog.membership.keys import GossipKeys
from raftlog.membership.replay import ReplayGuard, SenderKey
from raftlog.types import NodeId

MAGIC: Final = b"RLG"
VERSION: Final = 1
TAG_BYTES: Final = 16
_HEADER: Final = struct.Struct(">3sB16sI8sQQ")
HEADER_BYTES: Final = _HEADER.size
OVERHEAD_BYTES: Final = HEADER_BYTES + TAG_BYTES
"""Bytes that the seal adds to a body."""
_NUMBER_MAX: Final = (1 << 64) - 1


class RefusedDatagram(Enum):
    """Reason for the refusal of a datagram or frame; the values name the counters."""

    TRUNCATED = "truncated"
    OVERSIZE = "oversize"
    FOREIGN = "foreign"
    """Data of another protocol."""
    VERSION = "version"
    CLUSTER = "cluster"
    FORGED = "forged"
    """The tag is wrong: another key, or bytes changed in transit."""
    REFLECTED = "reflected"
    """Datagram of this process, sent back to it."""
    OLD_LIFE = "old_life"
    """Sent by an earlier start of the sender, or by a copy of its disk."""
    REPLAYED = "replayed"
    MALFORMED = "malformed"
    """Authentic, but its messages cannot be decoded."""
    OVERLOADED = "overloaded"
    """Received above the limit of datagrams per second."""


class AuthenticationError(RaftlogError):
    """Refusal of a received datagram or frame; the error text has none of its content."""

    def __init__(self, reason: RefusedDatagram) -> None:
        super().__init__(f"refused: {reason.value}")
        self.reason = reason


class SenderIdentity(NamedTuple):
    """Identity of the process that signs outgoing datagrams and frames."""

    cluster_id: uuid.UUID
    node_id: NodeId
    disk_uuid: uuid.UUID
    boot_epoch: int


class OpenedMessage(NamedTuple):
    """Body of a verified datagram or frame, and its sender."""

    node_id: NodeId
    body: bytes


class Seal:
    """Authentication of gossip in one process: signs outgoing datagrams and frames, and verifies received ones."""

    def __init__(self, me: SenderIdentity, keys: GossipKeys, guard: ReplayGuard | None = None) -> None:
        self._me, self._keys = me, keys
        self._mine = SenderKey(me.node_id, me.disk_uuid.bytes[:8])
        self._guard = guard or ReplayGuard()
        self._number = 0

    def seal(self, body: bytes) -> bytes:
        """Return the signed datagram or frame that carries a body; its number differs in each call."""
        self._number += 1
        assert self._number <= _NUMBER_MAX, "more datagrams since the start than there are numbers"
        me = self._me
        header = _HEADER.pack(
            MAGIC, VERSION, me.cluster_id.bytes, me.node_id, self._mine.disk, me.boot_epoch, self._number
        )
        sealed = header + body
        return sealed + _compute_tag(self._keys.signing, sealed)

    def open(self, data: bytes, bytes_max: int) -> OpenedMessage:
        """Verify a datagram or frame; return its body and its sender.

        Raises `AuthenticationError`; then the replay guard has recorded nothing."""
        if len(data) > bytes_max:
            raise AuthenticationError(RefusedDatagram.OVERSIZE)
        if data[:3] != MAGIC[: len(data)]:
            raise AuthenticationError(RefusedDatagram.FOREIGN)
        if len(data) < OVERHEAD_BYTES:
            raise AuthenticationError(RefusedDatagram.TRUNCATED)
        _, version, cluster_id, node_id, disk, boot_epoch, number = _HEADER.unpack_from(data)
        if version != VERSION:
            raise AuthenticationError(RefusedDatagram.VERSION)
        if cluster_id != self._me.cluster_id.bytes:
            raise AuthenticationError(RefusedDatagram.CLUSTER)
        sealed, tag = data[:-TAG_BYTES], data[-TAG_BYTES:]
        if not any(hmac.compare_digest(_compute_tag(key, sealed), tag) for key in self._keys.accepted):
            raise AuthenticationError(RefusedDatagram.FORGED)
        sender = SenderKey(NodeId(node_id), disk)
        if sender == self._mine:
            raise AuthenticationError(
                RefusedDatagram.REFLECTED if boot_epoch == self._me.boot_epoch else RefusedDatagram.OLD_LIFE
            )
        if self._guard.is_old_boot_epoch(sender, boot_epoch):
            raise AuthenticationError(RefusedDatagram.OLD_LIFE)
        if not self._guard.accept(sender, boot_epoch, number):
            raise AuthenticationError(RefusedDatagram.REPLAYED)
        return OpenedMessage(sender.node_id, sealed[HEADER_BYTES:])


def _compute_tag(key: bytes, sealed: bytes) -> bytes:
    """Return the first `TAG_BYTES` of the HMAC-SHA-256 of these bytes."""
    return hmac.digest(key, sealed, hashlib.sha256)[:TAG_BYTES]
