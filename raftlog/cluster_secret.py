"""Secret shared by the brokers of a cluster: its file, and the keys derived from it.

    {file}   one key a line, in hex or base64, at least 32 bytes; a line that begins with # is a comment

The first key signs, every key is accepted. To replace a key without a pause, add the new one at the end of every
broker's file, move it to the front everywhere, then remove the old one everywhere; after each step, restart the brokers
one by one. Connections between brokers and gossip use different keys, derived from each line with HMAC-SHA256 as RFC
5869 expands a uniform key. Called by the composition root and by programs that start clusters.
"""

import base64
import binascii
import hashlib
import hmac
import os
import secrets
import stat
from typing import Final, NamedTuple

from raftlog.errors import InvalidArgument

KEY_BYTES_MIN: Final = 32
KEYS_MAX: Final = 8
_FILE_BYTES_MAX: Final = 16_384
_CREATE: Final = "`raftlog cluster secret create FILE` makes one"


class ClusterSecret(NamedTuple):
    """Keys of a cluster's secret file: the first signs, all are accepted. `repr` shows no key."""

    keys: tuple[bytes, ...]

    def derive(self, purpose: bytes) -> tuple[bytes, ...]:
        """Derive the keys for one purpose, in the file's order; keys of other purposes cannot be computed from them."""
        return tuple(hmac.digest(key, purpose, hashlib.sha256) for key in self.keys)

    def __repr__(self) -> str:
        return f"<{len(self.keys)} keys>"


class SecretFile(NamedTuple):
    """Secret that was read from a file; `warning` describes unsafe permissions of the file, or is empty."""

    secret: ClusterSecret
    warning: str


def read_secret(path: str) -> SecretFile:
    """Read a file of keys; raise `InvalidArgument` that names the file and the line, and never their contents."""
    try:
        with open(path, "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            text = file.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidArgument(f"the cluster secret cannot be read: {error}; {_CREATE}") from None
    if len(text) > _FILE_BYTES_MAX:
        raise InvalidArgument(f"{path} is not a cluster secret: it has more than {_FILE_BYTES_MAX} bytes")
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), start=1)]
    keys = [_parse_key(line, f"{path}, line {number}") for number, line in lines if line and not line.startswith(b"#")]
    if not 1 <= len(keys) <= KEYS_MAX:
        raise InvalidArgument(f"{path} holds {len(keys)} keys: there must be 1 to {KEYS_MAX}, the first one signs")
    warning = ""
    if mode & 0o077:
        warning = f"other users of this machine can read the cluster secret {path} (mode {mode:o}): chmod 600 it"
    return SecretFile(ClusterSecret(tuple(dict.fromkeys(keys))), warning)


def create_secret(path: str) -> None:
    """Write a new random key to a new file that only its owner can read; durable on return.

    Raises `InvalidArgument` when the file exists or cannot be made.
    """
    line = f"{secrets.token_hex(KEY_BYTES_MIN)}\n".encode()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        directory = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except FileExistsError:
        raise InvalidArgument(f"{path} exists already: use it, or name another file") from None
    except OSError as error:
        raise InvalidArgument(f"the cluster secret cannot be written: {error}") from None


def ensure_secret(path: str) -> str:
    """Create the secret unless the file exists; return its path. For clusters that live on one machine."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    if not os.path.exists(path):
        create_secret(path)
    return path


def _parse_key(line: bytes, where: str) -> bytes:
    """Return the key in a line; raise `InvalidArgument`, which names the line as `where`, if there is no valid one."""
    key = _decode_key(line)
    if key is None:
        raise InvalidArgument(f"{where}: neither hex nor base64; {_CREATE}")
    if len(key) < KEY_BYTES_MIN:
        raise InvalidArgument(f"{where}: a key of {len(key)} bytes; at least {KEY_BYTES_MIN} are needed")
    return key


def _decode_key(line: bytes) -> bytes | None:
    """Return a key from its hex or base64 text; None if it is neither.

    Text that is valid as both is read as hex, the form that `create_secret` writes."""
    try:
        return bytes.fromhex(line.decode("ascii"))
    except ValueError:
        pass
    try:
        return base64.b64decode(line, validate=True)
    except (binascii.Error, ValueError):
        return None
