"""Login of one Kafka connection by SaslHandshake and SaslAuthenticate, and the order of its requests (KIP-43).

    new ─ SaslHandshake → exchange ─ SaslAuthenticate … → logged in ─ SaslHandshake → exchange (KIP-368) …
     └──── any failure ────┴─────────────────────────────────┴──→ failed: the answer is sent, then the connection ends

After SaslHandshake v0 frames are tokens without headers until the login succeeds. During a second exchange only
SaslAuthenticate is allowed, and the principal must stay the same. Owned by `connection`; the handlers call it."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.wire.headers import HEAD_BYTES
from raftlog.errors import AuthenticationFailed
from raftlog.partitions.caller import Caller
from raftlog.partitions.security.authenticator import Authenticator, Identity, SaslLogin

LOGIN_S: Final = 30.0
"""Time for the login of a new connection."""
FRAME_BYTES_MAX: Final = 128 * 1024
"""Largest frame before the login; tokens have at most 64 KiB."""
_BEFORE: Final = frozenset((ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE))
_DURING_SECOND: Final = frozenset((ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE))


class AuthenticateAnswer(NamedTuple):
    """Answer to SaslAuthenticate; `lifetime_ms` is 0 for a session that does not expire."""

    code: ErrorCode
    message: str | None
    data: bytes
    lifetime_ms: int = 0


class KafkaLogin:
    """State of the SASL login of one connection.

    `certified` is the principal of the client's certificate; None without a certificate."""

    __slots__ = ("_authenticator", "_began", "_sasl", "certified", "failure", "identity", "is_raw", "mechanisms")

    def __init__(
        self, authenticator: Authenticator, mechanisms: Sequence[str], began: float, certified: str | None = None
    ) -> None:
        """Begin without a login.

        `mechanisms` are allowed, the connection opened at `began` of the loop's clock, and `certified` is the principal
        of its certificate, if any."""
        self._authenticator, self.mechanisms, self._began = authenticator, mechanisms, began
        self.certified = certified
        self.identity: Identity | None = None
        """Identity of the last successful exchange."""
        self._sasl: SaslLogin | None = None
        """SASL exchange in progress, or None."""
        self.is_raw = False
        """Whether the next frame is a token without a Kafka header."""
        self.failure = ""
        """Reason for the end of the connection, once its answer is sent."""

    @property
    def principal(self) -> str | None:
        """Principal of the connection; None before the login."""
        return self.certified if self.identity is None else self.identity.principal

    def describe_refusal(self, key: ApiKey) -> str:
        """Return the reason to refuse a request, "" if it is allowed now."""
        if self._sasl is not None and self.principal is not None:
            return "" if key in _DURING_SECOND else "a request during another login"
        if key in _BEFORE:
            return ""
        if self.principal is None:
            return "a request before the login: this listener requires SASL"
        return self.describe_end()

    def describe_end(self, now: float = 0.0) -> str:
        """Return the reason to end the connection, "" if there is none; `now` is the loop's time."""
        if self.identity is not None:
            return "" if self._authenticator.is_current(self.identity) else "the user was changed, or its token expired"
        is_late = self.certified is None and now - self._began > LOGIN_S
        return f"no login within {LOGIN_S:.0f} s" if is_late else ""

    def frame_bounds(self, bytes_max: int) -> tuple[int, int]:
        """Return the smallest and largest size of the next frame; after the login the largest is `bytes_max`."""
        return 0 if self.is_raw else HEAD_BYTES, FRAME_BYTES_MAX if self.principal is None else bytes_max

    def handshake(self, mechanism: str, version: int) -> ErrorCode:
        """Begin a login with this mechanism; return the error code of the answer."""
        if self._sasl is not None or (version == 0 and self.principal is not None):
            return self._fail(ErrorCode.ILLEGAL_SASL_STATE, "SaslHandshake out of order")
        if mechanism not in self.mechanisms:
            offered = ", ".join(self.mechanisms) or "none"
            shown = ascii(mechanism[:40])
            hint = "; PLAIN needs TLS" if mechanism == "PLAIN" else ""
            why = f"the mechanism {shown} is not offered here; the offered ones are {offered}{hint}"
            return self._fail(ErrorCode.UNSUPPORTED_SASL_MECHANISM, why)
        self._sasl = self._authenticator.begin(mechanism)
        self.is_raw = version == 0
        return ErrorCode.NONE

    async def authenticate(self, token: bytes, caller: Caller) -> AuthenticateAnswer:
        """Process a message of the login. Raises `Unavailable` while the broker starts."""
        sasl = self._sasl
        if sasl is None:
            code = self._fail(ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate without SaslHandshake")
            return AuthenticateAnswer(code, self.failure, b"")
        try:
            identity = await sasl.step(token, caller)
            if identity is None:
                return AuthenticateAnswer(ErrorCode.NONE, None, sasl.data)
            if self.principal not in (None, identity.principal):
                raise AuthenticationFailed("the principal of a connection cannot change")
        except AuthenticationFailed as error:
            code = self._fail(ErrorCode.SASL_AUTHENTICATION_FAILED, f"authentication failed: {error}")
            return AuthenticateAnswer(code, self.failure, b"")
        self.identity, self._sasl, self.is_raw = identity, None, False
        left_s = identity.expires_at - self._authenticator.now_s()
        lifetime_ms = max(1, int(left_s * 1000)) if left_s < _NEVER_S else 0
        return AuthenticateAnswer(ErrorCode.NONE, None, sasl.data, lifetime_ms)

    def _fail(self, code: ErrorCode, why: str) -> ErrorCode:
        """Record why the login failed; return the error code."""
        self.failure = why
        self.is_raw = False
        return code


_NEVER_S: Final = 10.0 * 365 * 86_400
"""A session with at least this lifetime counts as one that does not expire."""
