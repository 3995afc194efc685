"""Proof of identity in the handshake: the cluster secret, or a certificate that names the node.

    transcript = both HELLO bodies, as they were sent: protocol version, channel, cluster id, node id, disk uuid,
                 boot epoch, boot id and nonce of either side
    proof      = HMAC-SHA256(key, label · side · transcript · refusal)

Each side draws its nonce for the single connection, so a recorded proof is valid for no other connection; the side is
part of the proof, so a reflected one fails; a refusal is part of it, so only a member can refuse with consequences.
Keys are derived from the cluster secret for this purpose alone (`raftlog.cluster_secret`). The URI name
`raftlog:node:<id>` in the certificate of a TLS connection is always compared with the node id; without a cluster secret
it proves the node id.

The secret keeps strangers out. It does not protect a connection from an attacker on its path, who can relay the
handshake and change what follows: that needs TLS. Pure; called by both sides of a connection."""

import hashlib
import hmac
from collections.abc import Collection, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from raftlog.cluster_secret import ClusterSecret
from raftlog.runtime.rpc.errors import BadFrame
from raftlog.runtime.rpc.frames.frame import FrameKind, encode_frame
from raftlog.runtime.rpc.frames.packing import pack_flat, unpack_flat
from raftlog.runtime.rpc.handshake import HandshakeRefusal, Hello, Reason
from raftlog.types import Buffer

_PURPOSE: Final = b"raftlog rpc handshake 2"
_NODE_URI: Final = "raftlog:node:"
_PROOF_FIELDS: Final = 2


class ProvingSide(Enum):
    """Side of a connection that proves its identity; the values are part of the format."""

    CONNECTOR = b"connector"
    ACCEPTOR = b"acceptor"


class Proof(NamedTuple):
    """Body of a PROOF frame. `mac` is empty without a secret; `refusal` is the body of a REFUSAL frame, or empty."""

    mac: bytes
    refusal: bytes = b""


class Credentials(NamedTuple):
    """Keys of this process for handshakes, the signing one first; none where certificates alone prove identity."""

    keys: tuple[bytes, ...] = ()

    def prove(self, side: ProvingSide, transcript: bytes, refusal: bytes = b"") -> Proof:
        """Return this side's proof; it covers the refusal, if there is one."""
        return Proof(_compute_mac(self.keys[0], side, transcript, refusal) if self.keys else b"", refusal)

    def accepts(self, proof: Proof, side: ProvingSide, transcript: bytes) -> bool:
        """Return whether the other side, `side`, made this proof with one of our keys; in constant time."""
        matches = [
            hmac.compare_digest(proof.mac, _compute_mac(key, side, transcript, proof.refusal)) for key in self.keys
        ]
        return any(matches)

    def __repr__(self) -> str:
        return f"<{len(self.keys)} keys for handshakes>"


def credentials_of(secret: ClusterSecret | None) -> Credentials:
    """Derive the keys for handshakes from the cluster secret; None: certificates prove identity."""
    return Credentials(() if secret is None else secret.derive(_PURPOSE))


def transcript_of(connector_hello: bytes, acceptor_hello: bytes) -> bytes:
    """Return the transcript: both HELLO bodies joined, after the length of the first, which delimits them."""
    return len(connector_hello).to_bytes(4, "big") + connector_hello + acceptor_hello


def authenticate(
    credentials: Credentials,
    proof: Proof,
    side: ProvingSide,
    transcript: bytes,
    remote: Hello,
    certified: Collection[int],
) -> HandshakeRefusal | None:
    """Return the refusal of a side that has not proved its identity; None if it has.

    `certified` are the node ids in its certificate; empty without TLS, and for a certificate that names no node."""
    node = remote.identity.node_id
    if certified and node not in certified:
        named = " and ".join(f"{_NODE_URI}{each}" for each in sorted(certified))
        return HandshakeRefusal(
            Reason.WRONG_CERTIFICATE,
            f"the certificate is of {named}, and the process introduces itself as node {node}: "
            "give each broker the certificate of its own node id",
        )
    if credentials.keys and proof.mac:
        if credentials.accepts(proof, side, transcript):
            return None
        return HandshakeRefusal(
            Reason.UNAUTHENTICATED,
            f"node {node} has another cluster secret: give all brokers the same file (--cluster-secret-file)",
        )
    if certified:
        return None
    return HandshakeRefusal(
        Reason.UNAUTHENTICATED,
        f"node {node} did not prove that it belongs to the cluster: give all brokers the same --cluster-secret-file, "
        f"or certificates with the URI name {_NODE_URI}<node id>",
    )


def certified_nodes(certificate: Mapping[str, Any] | None) -> frozenset[int]:
    """Return the node ids that a certificate names, from `ssl.SSLSocket.getpeercert()`."""
    names = () if certificate is None else certificate.get("subjectAltName", ())
    texts = [name.removeprefix(_NODE_URI) for kind, name in names if kind == "URI" and name.startswith(_NODE_URI)]
    return frozenset(int(text) for text in texts if text.isascii() and text.isdecimal())


def encode_proof(proof: Proof) -> list[Buffer]:
    """Return the frame of a proof."""
    return encode_frame(FrameKind.PROOF, pack_flat([proof.mac, proof.refusal]))


def decode_proof(body: Buffer) -> Proof:
    """Return the proof in a PROOF frame's body; raises `BadFrame`."""
    match unpack_flat(body, _PROOF_FIELDS):
        case [bytes(mac), bytes(refusal)]:
            return Proof(mac, refusal)
    raise BadFrame("a proof that cannot be read")


def _compute_mac(key: bytes, side: ProvingSide, transcript: bytes, refusal: bytes) -> bytes:
    """Return the proof's HMAC over side, transcript and refusal, each after its length."""
    parts = (_PURPOSE, side.value, transcript, refusal)
    return hmac.digest(key, b"".join(len(part).to_bytes(4, "big") + part for part in parts), hashlib.sha256)
