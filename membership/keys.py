"""The keys that gossip is signed with: read from a file, or derived where nobody but this machine is meant.

    {key file}   one key a line, in hex or base64, at least 32 bytes; a line that begins with # is a comment

The first key signs, every one is accepted. So a key is changed without a pause: add the new one at the end everywhere,
move it to the front everywhere, take the old one out everywhere; each step is a restart of one broker after the other.
Called by the composition root.
"""

import base64
import binascii
import hashlib
import hmac
import os
import stat
import uuid
from typing import Final, NamedTuple

from raftlog.errors import InvalidArgument

KEY_BYTES_MIN: Final = 32
KEYS_MAX: Final = 8
_FILE_BYTES_MAX: Final = 16_384
_DERIVED: Final = b"raftlog gossip without a key"


class GossipKeys(NamedTuple):
    """`signing` is among `accepted`. It does not show itself: nothing secret belongs into a log."""

    accepted: tuple[bytes, ...]

    @property
    def signing(self) -> bytes:
        return self.accepted[0]

    def __repr__(self) -> str:
        return f"<{len(self.accepted)} keys of gossip>"


class KeyFile(NamedTuple):
    """What a key file held, and what is wrong with its protection; `warning` is empty when nothing is."""

    keys: GossipKeys
    warning: str


def derived_keys(cluster_id: uuid.UUID) -> GossipKeys:
    """A key that whoever knows the cluster's id can compute: it keeps clusters apart and guards against nobody."""
    return GossipKeys((hmac.digest(cluster_id.bytes, _DERIVED, hashlib.sha256),))


def read_keys(path: str) -> KeyFile:
    """Raises `InvalidArgument` that names the file and the line, and never what stands in it."""
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidArgument(f"the gossip keys cannot be read: {error}") from None
    if len(text) > _FILE_BYTES_MAX:
        raise InvalidArgument(f"{path} is no file of gossip keys: it has more than {_FILE_BYTES_MAX} bytes")
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), start=1)]
    keys = [_key_of(line, f"{path}, line {number}") for number, line in lines if line and not line.startswith(b"#")]
    if not 1 <= len(keys) <= KEYS_MAX:
        raise InvalidArgument(f"{path} holds {len(keys)} keys: there must be 1 to {KEYS_MAX}, the first one signs")
    warning = ""
    if stat.S_IMODE(mode) & 0o077:
        warning = f"{path} can be read by others on this machine (mode {stat.S_IMODE(mode):o}); chmod 600 it"
    return KeyFile(GossipKeys(tuple(dict.fromkeys(keys))), warning)


def _key_of(line: bytes, where: str) -> bytes:
    key = _decoded(line)
    if key is None:
        raise InvalidArgument(f"{where}: neither hex nor base64; `openssl rand -hex {KEY_BYTES_MIN}` makes a key")
    if len(key) < KEY_BYTES_MIN:
        raise InvalidArgument(f"{where}: a key of {len(key)} bytes, and at least {KEY_BYTES_MIN} are wanted")
    return key


def _decoded(line: bytes) -> bytes | None:
    """Hex first: a text that is both is meant as hex, as every key made by the command above is."""
    try:
        return bytes.fromhex(line.decode("ascii"))
    except ValueError:
        pass
    try:
        return base64.b64decode(line, validate=True)
    except (binascii.Error, ValueError):
        return None
