"""Salted credentials of users, as SCRAM stores them (RFC 5802); passwords themselves are never stored.

    salted_password = PBKDF2(password, salt, iterations)
    stored_key = H(HMAC(salted_password, "Client Key"))     server_key = HMAC(salted_password, "Server Key")

Whoever knows both keys can act as the server, but not as the user. Deriving a credential takes milliseconds: do it in
a thread."""

import hmac
import secrets
from enum import IntEnum
from hashlib import new as new_hash
from hashlib import pbkdf2_hmac
from typing import Final, NamedTuple

from raftlog.errors import InvalidArgument

ITERATIONS_DEFAULT: Final = 4096
ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16_384
"""Bounds on iterations, as in Kafka; RFC 7677 asks for at least 4096."""
SALT_BYTES: Final = 24
SALT_BYTES_MAX: Final = 256
PASSWORD_BYTES_MAX: Final = 1024
USER_NAME_BYTES_MAX: Final = 256


class ScramMechanism(IntEnum):
    """Mechanisms of SCRAM, with Kafka's numbers (KIP-554)."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        """Name of the SASL mechanism."""
        return f"SCRAM-{self.hash_name.upper().replace('SHA', 'SHA-')}"

    @property
    def hash_name(self) -> str:
        """Name of the hash function in `hashlib`."""
        return self.name.lower().replace("_", "")


class ScramCredential(NamedTuple):
    """Stored credential of one user for one mechanism."""

    mechanism: ScramMechanism
    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return f"ScramCredential({self.mechanism.sasl_name}, {self.iterations} iterations)"


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Return the salted password (`Hi` of RFC 5802, section 2.2). Takes milliseconds."""
    return pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def from_password(
    mechanism: ScramMechanism, password: str, *, salt: bytes | None = None, iterations: int = ITERATIONS_DEFAULT
) -> ScramCredential:
    """Return the credential of a password, by default with a random salt. Raises `InvalidArgument`."""
    if not 0 < len(password.encode()) <= PASSWORD_BYTES_MAX:
        raise InvalidArgument(f"a password has 1 to {PASSWORD_BYTES_MAX} bytes")
    salt = secrets.token_bytes(SALT_BYTES) if salt is None else salt
    return from_salted(mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations)


def from_salted(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return the credential of a password that its owner salted. Raises `InvalidArgument` for invalid parameters."""
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise InvalidArgument(f"{iterations} iterations are outside of {ITERATIONS_MIN} to {ITERATIONS_MAX}")
    if not 0 < len(salt) <= SALT_BYTES_MAX:
        raise InvalidArgument(f"a salt has 1 to {SALT_BYTES_MAX} bytes, not {len(salt)}")
    key_bytes = len(digest(mechanism, b""))
    if len(salted) != key_bytes:
        raise InvalidArgument(f"a salted password for {mechanism.sasl_name} has {key_bytes} bytes, not {len(salted)}")
    client_key = hmac_of(mechanism, salted, b"Client Key")
    return ScramCredential(
        mechanism, salt, iterations, digest(mechanism, client_key), hmac_of(mechanism, salted, b"Server Key")
    )


def is_password_of(credential: ScramCredential, password: str) -> bool:
    """Return whether a password belongs to a credential, in a time that does not depend on the result."""
    mechanism, salt, iterations, stored_key, _ = credential
    salted = salted_password(mechanism, password, salt, iterations)
    return hmac.compare_digest(digest(mechanism, hmac_of(mechanism, salted, b"Client Key")), stored_key)


def digest(mechanism: ScramMechanism, data: bytes) -> bytes:
    """Return the hash of `data`, by the hash function of the mechanism."""
    return new_hash(mechanism.hash_name, data).digest()


def hmac_of(mechanism: ScramMechanism, key: bytes, data: bytes) -> bytes:
    """Return the HMAC of `data` with `key`, by the hash function of the mechanism."""
    return hmac.digest(key, data, mechanism.hash_name)


def check_user_name(name: str) -> None:
    """Raise `InvalidArgument` for a name that a user cannot have."""
    if not name or len(name.encode(errors="surrogatepass")) > USER_NAME_BYTES_MAX or not name.isprintable():
        raise InvalidArgument(
            f"user name {name!r} cannot be used: it has 1 to {USER_NAME_BYTES_MAX} bytes of printable characters"
        )
    if name != name.strip() or ":" in name:
        raise InvalidArgument(f"user name {name!r} cannot be used: no spaces at its ends, and no colon")
