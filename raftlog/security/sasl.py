"""Server side of SASL exchanges, without I/O: PLAIN (RFC 4616), SCRAM (RFC 5802), OAUTHBEARER (RFC 7628).

    PLAIN        → password   → PasswordCheck                 the caller verifies a password or token: it takes time
    OAUTHBEARER  → token      → TokenCheck
    SCRAM        → first      → Challenge → final → Proved

An exchange is used once: a message after its end, or after a refusal, is refused. Used by brokers' authenticators."""

import re
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, TypeAlias

from raftlog.errors import AuthenticationFailed
from raftlog.security.credentials import PASSWORD_BYTES_MAX, USER_NAME_BYTES_MAX, ScramCredential, ScramMechanism
from raftlog.security.scram import ScramExchange, random_nonce, unescape_name

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
SCRAM_MECHANISMS: Final = {mechanism.sasl_name: mechanism for mechanism in ScramMechanism}
MECHANISMS: Final = (PLAIN, *SCRAM_MECHANISMS, OAUTHBEARER)
"""Names of all mechanisms."""
TOKEN_BYTES_MAX: Final = 48 * 1024
MESSAGE_BYTES_MAX: Final = 64 * 1024
"""Limit of a message of any mechanism."""
_BEARER: Final = re.compile(
    r"[ny],(?:a=(?P<authorization>[^,]*))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x20-\x7E\t\r\n]*\x01)*)\x01"
)


class Challenge(NamedTuple):
    """Answer to the client, after which the client sends another message."""

    data: bytes


class Proved(NamedTuple):
    """Successful end of an exchange: the authenticated user, and the last answer to the client."""

    user: str
    data: bytes


class PasswordCheck(NamedTuple):
    """User and password for the caller to verify."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"PasswordCheck({self.user!r})"


class TokenCheck(NamedTuple):
    """Token for the caller to verify. `user`: the name that the client claims; empty: none."""

    token: str
    user: str

    def __repr__(self) -> str:
        return f"TokenCheck({self.user!r})"


Step: TypeAlias = Challenge | Proved | PasswordCheck | TokenCheck


class SaslExchange(Protocol):
    """Server's side of one login by one SASL mechanism."""

    mechanism: str

    @property
    def user(self) -> str:
        """Name that the client claims, for log lines; empty before the client has sent one."""

    def step(self, message: bytes) -> Step:
        """Process a message of the client; return the next step. Raises `AuthenticationFailed`."""
        ...


class PlainExchange:
    """PLAIN: one message with user and password."""

    mechanism = PLAIN

    def __init__(self) -> None:
        self.user = ""
        self._is_over = False

    def step(self, message: bytes) -> Step:
        """Parse the client's only message; return user and password, to be verified by the caller."""
        _check_open(self._is_over, message)
        self._is_over = True
        authorization, user, password = _split_plain(message)
        self.user = user
        if authorization not in ("", user):
            raise AuthenticationFailed("acting as another user (an authorization id) is not supported")
        return PasswordCheck(user, password)


class ScramSaslExchange:
    """SCRAM by `ScramExchange`: two messages of the client."""

    def __init__(self, scram: ScramExchange) -> None:
        self.mechanism = scram.mechanism.sasl_name
        self._scram = scram
        self._next: Callable[[bytes], bytes] | None = scram.first

    @property
    def user(self) -> str:
        """Name that the client claims."""
        return self._scram.user

    def step(self, message: bytes) -> Step:
        """Process a message; return the challenge after the first one, the server's proof after the second one."""
        step, self._next = self._next, None
        _check_open(step is None, message)
        assert step is not None, "checked above"
        answer = step(message)
        if step != self._scram.first:
            return Proved(self._scram.user, answer)
        self._next = self._scram.final
        return Challenge(answer)


class BearerExchange:
    """OAUTHBEARER: one message with a token."""

    mechanism = OAUTHBEARER

    def __init__(self) -> None:
        self.user = ""
        self._is_over = False

    def step(self, message: bytes) -> Step:
        """Parse the client's only message; return the token in it, to be verified by the caller."""
        _check_open(self._is_over, message)
        self._is_over = True
        parsed = _BEARER.fullmatch(_text(message))
        if parsed is None:
            raise AuthenticationFailed("the message of OAUTHBEARER is malformed, or asks for channel binding")
        pairs = [pair.split("=", 1) for pair in parsed["pairs"].split("\x01") if pair]
        tokens = [value for name, value in pairs if name == "auth"]
        if len(tokens) != 1:
            raise AuthenticationFailed(f"the message of OAUTHBEARER has {len(tokens)} values of auth, not one")
        authorization = parsed["authorization"]
        self.user = unescape_name(authorization) if authorization else ""
        return TokenCheck(parse_bearer_token(tokens[0]), self.user)


def make_exchange(
    mechanism: str,
    find: Callable[[str, ScramMechanism], ScramCredential | None],
    secret: bytes,
    nonce: Callable[[], str] = random_nonce,
) -> SaslExchange:
    """Return a new exchange of one of `MECHANISMS`; the other parameters are those of `ScramExchange`."""
    scram = SCRAM_MECHANISMS.get(mechanism)
    if scram is not None:
        return ScramSaslExchange(ScramExchange(scram, lambda user: find(user, scram), secret, nonce))
    return PlainExchange() if mechanism == PLAIN else BearerExchange()


def parse_bearer_token(credentials: str) -> str:
    """Return the token of `Bearer TOKEN` (RFC 6750). Raises `AuthenticationFailed`."""
    scheme, _, token = credentials.partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise AuthenticationFailed("the credentials are not a bearer token")
    if len(token) > TOKEN_BYTES_MAX:
        raise AuthenticationFailed(f"a token has {len(token)} characters, more than {TOKEN_BYTES_MAX}")
    return token


def check_lengths(user: str, password: str) -> None:
    """Raise `AuthenticationFailed` for an empty or too long user name or password."""
    if not 0 < len(user.encode()) <= USER_NAME_BYTES_MAX or not 0 < len(password.encode()) <= PASSWORD_BYTES_MAX:
        raise AuthenticationFailed("the user name or the password is empty or too long")


def _split_plain(message: bytes) -> tuple[str, str, str]:
    """Return authorization id, user and password of a message. Raises `AuthenticationFailed`."""
    parts = _text(message).split("\0")
    if len(parts) != 3:
        raise AuthenticationFailed("the message of PLAIN is malformed")
    authorization, user, password = parts
    check_lengths(user, password)
    return authorization, user, password


def _check_open(has_ended: bool, message: bytes) -> None:
    """Raise `AuthenticationFailed` for a message after the end of the exchange, or a too large one."""
    if has_ended:
        raise AuthenticationFailed("the exchange has ended")
    if len(message) > MESSAGE_BYTES_MAX:
        raise AuthenticationFailed(f"a message has {len(message)} bytes, more than {MESSAGE_BYTES_MAX}")


def _text(message: bytes) -> str:
    """Return a message as text. Raises `AuthenticationFailed`."""
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise AuthenticationFailed("the message is not UTF-8") from None
