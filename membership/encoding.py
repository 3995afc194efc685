"""The messages of gossip as bytes: msgpack lists, read strictly.

A payload is `[fingerprint of the cluster, message, …]`, a message `[kind, field, …]`. Anything else (another kind,
count, type or range, a byte too many) is a `FormatError` that says what was wrong; nothing is guessed.
"""

from collections.abc import Iterable

from raftlog.membership.messages import Message


def fingerprint(cluster_id: str) -> bytes:
    """4 bytes that keep two clusters' messages apart, whatever the wire checks."""
    raise NotImplementedError


def encode(cluster: bytes, messages: Iterable[Message]) -> bytes:
    """A payload; `cluster` is a `fingerprint`."""
    raise NotImplementedError


def decode(payload: bytes, cluster: bytes) -> list[Message]:
    """Raises `FormatError`: not a payload, or not of this cluster."""
    raise NotImplementedError
