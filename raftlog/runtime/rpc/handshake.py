"""Handshake: both sides introduce themselves, prove their identity, and decide whether they accept each other.

    connector                       acceptor
    HELLO                    →      another version: REFUSAL and close
                             ←      HELLO
    PROOF                    →      not proved: REFUSAL and close
    checks                   ←      PROOF, which holds a refusal if the acceptor refuses
    REFUSAL and close, or
    its first frames         →

Nothing is recorded, served or concluded before the other side's proof (`authentication`). Any process could send a
REFUSAL before the acceptor's proof: it is logged, and has no consequence. The text of a refusal has the correction. The
layout of HELLO and REFUSAL is fixed for all versions, so that processes of different versions can refuse each other.
Pure: the record of a peer is an argument (`memory`). Called by connections.

A process whose disk is not the one that is assigned to its node id may only probe, to request to replace that disk. The
owner of the transport answers probes; a probe carries no Raft message.

Epoch and sequence of a disk never fall: in a handshake they are not below those that any process received from that
disk. A process has one boot id and one epoch; the sequence in its handshakes may be overtaken by its heartbeats, so
it is not checked while the boot id stays the same."""

from enum import IntEnum
from typing import Any, Final, NamedTuple
from uuid import UUID

from raftlog.runtime.rpc.errors import BadFrame
from raftlog.runtime.rpc.frames.frame import FrameKind, encode_frame
from raftlog.runtime.rpc.frames.packing import pack_flat, unpack_flat
from raftlog.types import FEATURE_LEVEL_KNOWN, FEATURE_LEVEL_LEAST, Buffer, NodeId, intern_uuid

PROTOCOL_VERSION: Final = 3
TEXT_BYTES_MAX: Final = 255
"""Maximum length of a cluster id, a host label or an address, in bytes."""
REFUSAL_BYTES_MAX: Final = 1024
BOOT_ID_SIZE: Final = 8
NONCE_SIZE: Final = 32
NUMBER_MAX: Final = 1 << 53
"""Highest accepted boot epoch and journal sequence, which count starts and synced blocks. No process can reach a higher
number; if one were recorded, the disk would be refused for ever."""


class Channel(IntEnum):
    """Purpose of a connection: bytes on the bulk channel do not delay the Raft channel.

    A probe is a short connection to an address, with any node there, for one request (`TcpTransport.probe`)."""

    RAFT = 1
    BULK = 2
    PROBE = 3


class PeerIdentity(NamedTuple):
    """Identity of a process, the same for all its connections.

    `cluster_id` is None while unknown. `journal_sequence` is the sequence of the last synced journal block."""

    cluster_id: str | None
    node_id: NodeId
    disk_uuid: UUID
    boot_epoch: int
    journal_sequence: int
    host_label: str
    feature_level_min: int = FEATURE_LEVEL_LEAST
    feature_level_max: int = FEATURE_LEVEL_KNOWN
    rpc_address: str = ""
    """HOST:PORT at which other brokers connect to the process; empty while unknown, or if it does not listen."""


class Hello(NamedTuple):
    """Introduction of one side of a connection.

    `boot_id` is a random id of the process, drawn at its start; `nonce` is drawn for each connection."""

    protocol_version: int
    channel: Channel
    boot_id: bytes
    identity: PeerIdentity
    nonce: bytes


class Reason(IntEnum):
    """Reason for the refusal of a handshake. The numbers are part of the format."""

    PROTOCOL_VERSION = 1
    FEATURE_LEVEL = 2
    CLUSTER_ID = 3
    OWN_NODE_ID = 4
    NODE_ID_TWICE = 5
    WRONG_NODE = 6
    WRONG_DISK = 7
    STALE_BOOT_EPOCH = 8
    STALE_JOURNAL = 9
    COPIED_DISK = 10
    WRONG_CHANNEL = 11
    SELF = 12
    """The address leads to the connecting process itself."""
    RETIRED_DISK = 13
    UNAUTHENTICATED = 14
    WRONG_CERTIFICATE = 15
    UNKNOWN = 255


UNPROVEN: Final = frozenset({Reason.PROTOCOL_VERSION, Reason.UNAUTHENTICATED, Reason.WRONG_CERTIFICATE})
"""Reasons for which a process refuses before it has proved its identity; none of them has a consequence."""


class HandshakeRefusal(NamedTuple):
    """Refusal of a handshake.

    `cluster_id` is the refusing side's; with `is_member` its metadata assigns exactly this disk to the refused node."""

    reason: Reason
    message: str
    cluster_id: str | None = None
    is_member: bool = False


class KnownPeer(NamedTuple):
    """Record of a disk and of the node id that it claims; `KnownPeer()` if there is no record.

    `assigned_disk` is the node's in the cluster's metadata, `live_disk` that of a connection which is open now; both
    belong to the node id. Epoch, sequence and boot id belong to the disk; `boot_id` is None when it is not known.
    `is_retired`: the disk was removed from the cluster or replaced, for ever. `other_node`: the metadata assigns this
    disk to that other node."""

    assigned_disk: UUID | None = None
    live_disk: UUID | None = None
    boot_epoch: int = 0
    journal_sequence: int = 0
    boot_id: bytes | None = None
    is_retired: bool = False
    other_node: NodeId | None = None


def is_outsider(remote: Hello, known: KnownPeer) -> bool:
    """Return whether a probe comes from a process whose node id belongs to another disk.

    The process may request to replace the other disk, and nothing else."""
    return remote.channel is Channel.PROBE and known.assigned_disk not in (None, remote.identity.disk_uuid)


def check_peer(
    local: Hello, remote: Hello, known: KnownPeer, expected_node: NodeId | None = None
) -> HandshakeRefusal | None:
    """Return the refusal of a peer that proved its identity; None if it is accepted.

    `expected_node` is the node to which this process connected."""
    refusal = (
        _check_levels(local, remote)
        or _check_not_self(local, remote)
        or _check_names(local, remote, expected_node)
        or _check_disk(remote, known)
        or _check_history(remote, known)
    )
    if refusal is None:
        return None
    is_member = known.assigned_disk == remote.identity.disk_uuid
    return refusal._replace(cluster_id=local.identity.cluster_id, is_member=is_member)


def _check_not_self(local: Hello, remote: Hello) -> HandshakeRefusal | None:
    """Return the refusal if the connection leads to this process itself, else None."""
    if remote.boot_id != local.boot_id:
        return None
    return HandshakeRefusal(Reason.SELF, f"this address leads to node {local.identity.node_id} itself")


def check_version(local: Hello, remote: Hello) -> HandshakeRefusal | None:
    """Return the refusal if the protocol versions differ, so that no identity can be proved; else None."""
    me, peer = local.identity, remote.identity
    if remote.protocol_version == local.protocol_version:
        return None
    return HandshakeRefusal(
        Reason.PROTOCOL_VERSION,
        f"node {me.node_id} uses version {local.protocol_version} of the protocol between brokers and node "
        f"{peer.node_id} version {remote.protocol_version}: run the same release on both",
    )


def _check_levels(local: Hello, remote: Hello) -> HandshakeRefusal | None:
    """Return the refusal of a peer without a common feature level, or on another channel; else None."""
    me, peer = local.identity, remote.identity
    if peer.feature_level_max < me.feature_level_min or peer.feature_level_min > me.feature_level_max:
        return HandshakeRefusal(
            Reason.FEATURE_LEVEL,
            f"node {me.node_id} supports feature levels {me.feature_level_min} to {me.feature_level_max} and node "
            f"{peer.node_id} {peer.feature_level_min} to {peer.feature_level_max}: upgrade the older one step by step",
        )
    if remote.channel is not local.channel:
        return HandshakeRefusal(
            Reason.WRONG_CHANNEL, f"asked for channel {local.channel.name}, answered {remote.channel.name}"
        )
    return None


def _check_names(local: Hello, remote: Hello, expected_node: NodeId | None) -> HandshakeRefusal | None:
    """Return the refusal of a peer of another cluster or with an unexpected node id, or None."""
    me, peer = local.identity, remote.identity
    if None not in (me.cluster_id, peer.cluster_id) and me.cluster_id != peer.cluster_id:
        return HandshakeRefusal(
            Reason.CLUSTER_ID,
            f"node {me.node_id} belongs to cluster {me.cluster_id} and node {peer.node_id} to cluster "
            f"{peer.cluster_id}: correct the seeds or the data directory of the one that is wrong here",
        )
    if peer.node_id == me.node_id:
        return HandshakeRefusal(
            Reason.OWN_NODE_ID,
            f"node id {me.node_id} is used by the processes at {me.host_label} and at {peer.host_label}: "
            "give one of them another node id and an empty data directory (or correct an address that leads to itself)",
        )
    if expected_node is not None and peer.node_id != expected_node:
        return HandshakeRefusal(
            Reason.WRONG_NODE,
            f"node {expected_node} was expected at this address, and node {peer.node_id} is there: "
            "correct the advertised RPC address of one of them",
        )
    return None


def _check_disk(remote: Hello, known: KnownPeer) -> HandshakeRefusal | None:
    """Return the refusal of a disk that is not the node's in this cluster, or None."""
    peer = remote.identity
    if known.is_retired:
        return HandshakeRefusal(
            Reason.RETIRED_DISK,
            f"disk {peer.disk_uuid} of node {peer.node_id} was replaced or removed: it takes no part in this cluster "
            "any more; stop this process if another one has its place",
        )
    if known.other_node is not None:
        return HandshakeRefusal(
            Reason.WRONG_DISK,
            f"disk {peer.disk_uuid} belongs to node {known.other_node} in this cluster, and node {peer.node_id} comes "
            "with it: start each broker on a data directory of its own",
        )
    if is_outsider(remote, known):
        return None
    if known.assigned_disk not in (None, peer.disk_uuid):
        return HandshakeRefusal(
            Reason.WRONG_DISK,
            f"node {peer.node_id} has the disk {known.assigned_disk} in this cluster and comes with the disk "
            f"{peer.disk_uuid}: give a second process another node id; a disk that replaces the other one is let in "
            "once the controller has taken it",
        )
    if known.live_disk not in (None, peer.disk_uuid):
        return HandshakeRefusal(
            Reason.NODE_ID_TWICE,
            f"node id {peer.node_id} is used twice: a process with the disk {known.live_disk} is connected, and "
            f"another one comes with the disk {peer.disk_uuid}: give one of them another node id",
        )
    return None


def _check_history(remote: Hello, known: KnownPeer) -> HandshakeRefusal | None:
    """Return the refusal of an earlier start of a disk, a copy of a running disk, or a disk with an earlier journal."""
    peer = remote.identity
    disk = f"disk {peer.disk_uuid} of node {peer.node_id}"
    if peer.boot_epoch < known.boot_epoch:
        return HandshakeRefusal(
            Reason.STALE_BOOT_EPOCH,
            f"{disk} comes with boot epoch {peer.boot_epoch}, and {known.boot_epoch} was seen before: "
            "it is an old copy; stop this process, and start it on the newer disk or on an empty one",
        )
    if peer.boot_epoch == known.boot_epoch and known.boot_id is not None:
        if remote.boot_id == known.boot_id:
            return None
        return HandshakeRefusal(
            Reason.COPIED_DISK,
            f"{disk} runs in two processes, both with boot epoch {peer.boot_epoch}: one of them uses a copy; "
            "stop it, and start it on an empty disk and with another node id",
        )
    if peer.journal_sequence < known.journal_sequence:
        return HandshakeRefusal(
            Reason.STALE_JOURNAL,
            f"{disk} comes with journal sequence {peer.journal_sequence}, and {known.journal_sequence} was synced "
            "before: it is an old copy, or it lost writes; stop this process, and start it on the newer disk or on "
            "an empty one",
        )
    return None


def feature_level(local: PeerIdentity, remote: PeerIdentity) -> int:
    """Return the highest feature level that both support; accepted peers have one."""
    return min(local.feature_level_max, remote.feature_level_max)


# encoding


def encode_hello(body: bytes) -> list[Buffer]:
    """Return the frame of an introduction."""
    return encode_frame(FrameKind.HELLO, body)


def pack_hello(hello: Hello) -> bytes:
    """Return the body of a HELLO frame; proofs are made over these bytes."""
    me = hello.identity
    cluster_id = None if me.cluster_id is None else _pack_text(me.cluster_id, "cluster id")
    body: list[Any] = [
        hello.protocol_version,
        hello.channel,
        hello.boot_id,
        cluster_id,
        me.node_id,
        me.disk_uuid.bytes,
        me.boot_epoch,
        me.journal_sequence,
        _pack_text(me.host_label, "host label"),
        me.feature_level_min,
        me.feature_level_max,
        _pack_text(me.rpc_address, "RPC address"),
        hello.nonce,
    ]
    return pack_flat(body)


_Types = tuple[type, ...]
_INT: Final[_Types] = (int,)
_BYTES: Final[_Types] = (bytes,)
_HELLO_TYPES: Final[tuple[_Types, ...]] = (
    _INT,
    _INT,
    _BYTES,
    (bytes, type(None)),
    _INT,
    _BYTES,
    _INT,
    _INT,
    _BYTES,
    _INT,
    _INT,
    _BYTES,
    _BYTES,
)
_FIELDS_LEAST: Final = 11
"""Number of fields of a HELLO of version 1, which is decoded only to be refused."""


def decode_hello(body: Buffer) -> Hello:
    """Return the introduction in a HELLO frame's body; raises `BadFrame`.

    A later version may add fields at the end; this one ignores them."""
    fields = unpack_flat(body, 2 * len(_HELLO_TYPES))
    if len(fields) == _FIELDS_LEAST and fields[0] != PROTOCOL_VERSION:
        fields += [b"", bytes(NONCE_SIZE)]
    if len(fields) < len(_HELLO_TYPES):
        raise BadFrame(f"an introduction of {len(fields)} fields; {len(_HELLO_TYPES)} are needed")
    fields = fields[: len(_HELLO_TYPES)]
    for field, wanted in zip(fields, _HELLO_TYPES, strict=True):
        if type(field) not in wanted or (type(field) is int and not 0 <= field <= NUMBER_MAX):
            raise BadFrame("an introduction with a field of a wrong type, or out of range")
    version, channel, boot_id, cluster_id, node_id, disk, epoch, sequence, label, level_min, level_max, at, nonce = (
        fields
    )
    if len(disk) != 16 or len(boot_id) != BOOT_ID_SIZE or len(nonce) != NONCE_SIZE or channel not in (*Channel,):
        raise BadFrame("an introduction with a field out of range")
    identity = PeerIdentity(
        None if cluster_id is None else _unpack_text(cluster_id),
        NodeId(node_id),
        intern_uuid(disk),
        epoch,
        sequence,
        _unpack_text(label),
        level_min,
        level_max,
        _unpack_text(at),
    )
    return Hello(version, Channel(channel), boot_id, identity, nonce)


def encode_refusal(refusal: HandshakeRefusal) -> list[Buffer]:
    """Return the frame of a refused handshake."""
    return encode_frame(FrameKind.REFUSAL, pack_refusal(refusal))


def pack_refusal(refusal: HandshakeRefusal) -> bytes:
    """Return the body of a REFUSAL frame."""
    message = refusal.message.encode()[:REFUSAL_BYTES_MAX]
    cluster_id = None if refusal.cluster_id is None else _pack_text(refusal.cluster_id, "cluster id")
    body: list[Any] = [refusal.reason, message, cluster_id, int(refusal.is_member)]
    return pack_flat(body)


def decode_refusal(body: Buffer) -> HandshakeRefusal:
    """Return the refusal in a REFUSAL frame's body; raises `BadFrame`.

    The text comes from outside: characters that could disturb a log line are replaced."""
    fields = unpack_flat(body, 8)
    if len(fields) < 2 or type(fields[0]) is not int or type(fields[1]) is not bytes:
        raise BadFrame("a refusal that cannot be read")
    reason = Reason(fields[0]) if fields[0] in (*Reason,) else Reason.UNKNOWN
    text = fields[1][:REFUSAL_BYTES_MAX].decode(errors="replace")
    match fields[2:4]:
        case [bytes(cluster_id), int(is_member)]:
            return HandshakeRefusal(reason, _replace_unprintable(text), _unpack_text(cluster_id), is_member == 1)
        case _:
            return HandshakeRefusal(reason, _replace_unprintable(text))


def _pack_text(text: str, field_name: str) -> bytes:
    """Return the UTF-8 bytes of a text, which is within the bound."""
    packed = text.encode()
    assert len(packed) <= TEXT_BYTES_MAX, f"the {field_name} has {len(packed)} bytes; {TEXT_BYTES_MAX} are the most"
    return packed


def _unpack_text(packed: bytes) -> str:
    """Decode UTF-8 from a peer, with "?" for unprintable characters. Raises `BadFrame` above `TEXT_BYTES_MAX` bytes."""
    if len(packed) > TEXT_BYTES_MAX:
        raise BadFrame(f"an introduction with a text of {len(packed)} bytes")
    return _replace_unprintable(packed.decode(errors="replace"))


def _replace_unprintable(text: str) -> str:
    """Return the text with "?" for unprintable characters."""
    return "".join(character if character.isprintable() else "?" for character in text)
