"""Server side of a SCRAM exchange, without I/O (RFC 5802, RFC 7677).

    client-first  n,,n=user,r=nonce           → server-first  r=nonce+ours,s=salt,i=iterations
    client-final  c=biws,r=nonce+ours,p=proof → server-final  v=signature

An unknown user gets a salt that is always the same for its name, and fails at the end like a wrong password. Channel
binding and delegation tokens are refused. Used by the brokers' authenticators."""

import hmac
import re
import secrets
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from typing import Final

from raftlog.errors import AuthenticationFailed
from raftlog.security.credentials import (
    ITERATIONS_DEFAULT,
    SALT_BYTES,
    ScramCredential,
    ScramMechanism,
    digest,
    hmac_of,
)

MESSAGE_BYTES_MAX: Final = 4096
"""Bound on the size of a client's message."""
_NONCE_BYTES: Final = 24
_NONCE: Final = r"[\x21-\x2B\x2D-\x7E]+"
_FIRST: Final = re.compile(
    rf"(?P<header>[ny],(?:a=(?P<authorization>[^,]*))?,)(?P<bare>n=(?P<user>[^,]*),r=(?P<nonce>{_NONCE})(?P<extensions>(?:,[A-Za-z]+=[^,]*)*))"
)
_FINAL: Final = re.compile(
    rf"(?P<unsigned>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>{_NONCE})),p=(?P<proof>[A-Za-z0-9+/=]+)"
)
_ESCAPED: Final = re.compile(r"=(?:2C|3D)?")


def random_nonce() -> str:
    """Return a random nonce of printable characters."""
    return secrets.token_urlsafe(_NONCE_BYTES)


class ScramExchange:
    """Server's side of one SCRAM login: call `first`, then `final`, each once.

    `find` returns the credential of a user. Salts of unknown users are derived from `secret`, which is the same on all
    brokers."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        find: Callable[[str], ScramCredential | None],
        secret: bytes,
        nonce: Callable[[], str] = random_nonce,
    ) -> None:
        """Begin a login. `find` returns the credential of a user; `secret` makes plausible salts for unknown users."""
        self.mechanism = mechanism
        self.user = ""
        """Name that the client claims, set by `first`; proved once `final` has returned."""
        self._find, self._secret, self._new_nonce = find, secret, nonce
        self._credential: ScramCredential | None = None
        self._header = self._bare = self._server_first = self._nonce = ""

    def first(self, message: bytes) -> bytes:
        """Return the answer to the client's first message. Raises `AuthenticationFailed` for a malformed one."""
        parsed = _FIRST.fullmatch(_text(message))
        if parsed is None:
            raise AuthenticationFailed("the first message of SCRAM is malformed, or asks for channel binding")
        self.user = unescape_name(parsed["user"])
        if parsed["authorization"] not in (None, "") and unescape_name(parsed["authorization"]) != self.user:
            raise AuthenticationFailed("acting as another user (an authorization id) is not supported")
        if "tokenauth=true" in parsed["extensions"].split(","):
            raise AuthenticationFailed("delegation tokens are not supported")
        self._header, self._bare = parsed["header"], parsed["bare"]
        self._nonce = parsed["nonce"] + self._new_nonce()
        self._credential = self._find(self.user)
        if self._credential is not None:
            salt, iterations = self._credential.salt, self._credential.iterations
        else:
            salt, iterations = _salt_of_unknown(self._secret, self.user), ITERATIONS_DEFAULT
        self._server_first = f"r={self._nonce},s={b64encode(salt).decode()},i={iterations}"
        return self._server_first.encode()

    def final(self, message: bytes) -> bytes:
        """Return the answer to the client's proof. Raises `AuthenticationFailed` if the proof is wrong."""
        assert self._server_first, "final comes after first"
        parsed = _FINAL.fullmatch(_text(message))
        if parsed is None:
            raise AuthenticationFailed("the final message of SCRAM is malformed")
        header_sent = b64encode(self._header.encode()).decode()
        nonce, self._nonce = self._nonce, ""
        # As Kafka does: librdkafka before 2.6.1 sends its own nonce twice. The proof covers what it sends.
        if not nonce or not parsed["nonce"].endswith(nonce) or parsed["binding"] != header_sent:
            raise AuthenticationFailed("the final message of SCRAM does not belong to the first one")
        credential = self._credential
        mechanism = self.mechanism
        stored_key = credential.stored_key if credential else bytes(len(digest(mechanism, b"")))
        signed = f"{self._bare},{self._server_first},{parsed['unsigned']}".encode()
        client_signature = hmac_of(mechanism, stored_key, signed)
        proof = _decoded(parsed["proof"])
        client_key = bytes(a ^ b for a, b in zip(proof, client_signature, strict=False))
        is_proved = hmac.compare_digest(digest(mechanism, client_key), stored_key)
        if credential is None or len(proof) != len(client_signature) or not is_proved:
            raise AuthenticationFailed("unknown user or wrong password")
        return b"v=" + b64encode(hmac_of(mechanism, credential.server_key, signed))


def _text(message: bytes) -> str:
    """Return the text of a message. Raises `AuthenticationFailed`."""
    if len(message) > MESSAGE_BYTES_MAX:
        raise AuthenticationFailed(f"a message of SCRAM has {len(message)} bytes, more than {MESSAGE_BYTES_MAX}")
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise AuthenticationFailed("a message of SCRAM is not UTF-8") from None


def unescape_name(escaped: str) -> str:
    """Return the name that is escaped in a message (`saslname` of RFC 5802). Raises `AuthenticationFailed`."""
    if not escaped or any(found == "=" for found in _ESCAPED.findall(escaped)):
        raise AuthenticationFailed("the user name in a message of SCRAM is empty or wrongly escaped")
    return escaped.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    """Return the bytes of base64 text. Raises `AuthenticationFailed`."""
    try:
        return b64decode(text, validate=True)
    except Base64Error:
        raise AuthenticationFailed("the proof of SCRAM is not base64") from None


def _salt_of_unknown(secret: bytes, user: str) -> bytes:
    """Return a salt for an unknown user, always the same for a name."""
    return hmac.digest(secret, user.encode(), "sha256")[:SALT_BYTES]
