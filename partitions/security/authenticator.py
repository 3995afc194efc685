"""Authenticator: identities of clients, by passwords, SCRAM and bearer tokens, for every API of the broker.

    SCRAM             a few HMACs at once
    PLAIN, Basic      PBKDF2 in a thread, one at a time; right passwords are remembered as HMACs of a random key
    bearer tokens     a signature by a known key; unknown keys are read again, at most every `KEYS_RETRY_S`

Look-ups use the local copy of the controller's state, so that logins go on while the controller has no majority. Each
refusal takes `REFUSAL_S`, whether the user or the password is wrong, and many of one address wait (`failure_limiter`).
Every login and every refusal is an audit event. Used by API servers, which ask `is_current` for each open
connection."""

import asyncio
import hmac
import math
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, Protocol, TypeVar

from raftlog.errors import AuthenticationFailed, Unavailable
from raftlog.partitions.caller import ANONYMOUS, Caller
from raftlog.partitions.security.audit import write_authenticated, write_authentication_failed
from raftlog.partitions.security.bearer_keys import BearerKeys
from raftlog.partitions.security.failure_limiter import FailureLimiter
from raftlog.security.credentials import ITERATIONS_DEFAULT, ScramCredential, ScramMechanism, digest, is_password_of
from raftlog.security.sasl import (
    MECHANISMS,
    OAUTHBEARER,
    PasswordCheck,
    Proved,
    TokenCheck,
    check_lengths,
    make_exchange,
)

REFUSAL_S: Final = 0.1
"""Minimum time of a refused attempt, above that of any PBKDF2."""
REMEMBERED_MAX: Final = 10_000
"""Passwords that are remembered; the least recently used one is forgotten."""
CHECKS_WAITING_MAX: Final = 1_000
"""Attempts that may wait for their PBKDF2."""
_NOT_A_USER: Final = frozenset((ANONYMOUS, "*"))
_T = TypeVar("_T")


class UserStore(Protocol):
    """Interface of the users that an authenticator needs."""

    def credential(self, name: str, mechanism: ScramMechanism) -> ScramCredential | None:
        """Return the credential of a user for one mechanism; None without one."""

    def any_credential(self, name: str) -> ScramCredential | None:
        """Return a credential of a user, to compare a password with; None for an unknown user."""

    def version_of(self, name: str) -> int:
        """Return the version of a user, which rises with each change; 0 if it does not exist."""

    @property
    def secret(self) -> bytes:
        """Secret from which the salts of unknown users are derived."""


class Identity(NamedTuple):
    """Proved identity of a client."""

    principal: str
    mechanism: str
    version: int = 0
    """Version of the user at its login; 0 when no credential of a user was used."""
    expires_at: float = math.inf
    """Unix time in seconds at which the identity expires."""


class LoginTurn:
    """Login attempt that may have to wait, because its address had failures."""

    __slots__ = ("address", "has_waited")

    def __init__(self, address: str) -> None:
        self.address = address
        self.has_waited = False
        """Whether the attempt has reserved its turn, and need not wait again."""


class _TurnLost(Exception):
    """Signal that a login attempt has to wait again: other attempts of its address failed before its check."""


class Authenticator:
    """Logins of one broker; `wall_ms` is the Unix time, and `check_ready` raises `Unavailable` while it starts."""

    def __init__(self, users: UserStore, wall_ms: Callable[[], int], check_ready: Callable[[], None]) -> None:
        """Create an authenticator; `check_ready` raises an error while the users are not known here."""
        self._users, self._wall_ms, self._check_ready = users, wall_ms, check_ready
        self.bearer: BearerKeys | None = None
        """Verification of bearer tokens; set before the listeners start, None when they are not used."""
        self._limiter = FailureLimiter()
        self._remembering_key = secrets.token_bytes(32)
        self._remembered: OrderedDict[bytes, None] = OrderedDict()
        self._hashing = asyncio.Semaphore(1)
        self._waiting = 0

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """Mechanisms that are configured."""
        return tuple(name for name in MECHANISMS if name != OAUTHBEARER or self.bearer is not None)

    def is_current(self, identity: Identity) -> bool:
        """Return whether an identity is still valid: its user unchanged, and its token not expired."""
        if identity.version and self._users.version_of(identity.principal) != identity.version:
            return False
        return identity.expires_at == math.inf or identity.expires_at > self.now_s()

    def now_s(self) -> float:
        """Return the Unix time in seconds."""
        return self._wall_ms() / 1000

    # logins

    def begin(self, mechanism: str) -> "SaslLogin":
        """Return a new SASL exchange by a mechanism, one of `mechanisms`."""
        return SaslLogin(self, self._users, mechanism)

    async def check_password(self, user: str, password: str, origin: Caller, mechanism: str) -> Identity:
        """Return the identity of a user with its password.

        Raises `AuthenticationFailed`, and `Unavailable` while the broker starts or has too many logins."""

        async def verify(turn: LoginTurn) -> Identity:
            """Verify the password in a turn of the login."""
            check_lengths(user, password)
            return await self.verify_password(user, password, mechanism, turn)

        return await self.attempt(verify, lambda: user, mechanism, origin)

    async def check_token(self, token: str, origin: Caller, mechanism: str) -> Identity:
        """Return the identity of a bearer token. Raises as `check_password`."""
        check = TokenCheck(token, "")
        return await self.attempt(lambda _: self.verify_token(check, mechanism), lambda: "", mechanism, origin)

    async def attempt(
        self, verify: Callable[[LoginTurn], Awaitable[_T]], user: Callable[[], str], mechanism: str, origin: Caller
    ) -> _T:
        """Verify a login attempt with `verify`, after the wait that earlier failures of the address require.

        A refusal is delayed, counted and reported; a login is reported."""
        turn = LoginTurn(origin.address)
        while True:
            began = _now()
            try:
                began += await self._wait_for_turn(turn)
                result = await verify(turn)
            except _TurnLost:
                continue
            except AuthenticationFailed as error:
                self._limiter.note_failure(origin.address, _now(), has_waited=turn.has_waited)
                write_authentication_failed(origin, user(), mechanism, str(error))
                await asyncio.sleep(max(0.0, began + REFUSAL_S - _now()))
                self._check_ready()  # a broker that starts may not know all users yet
                raise
            break
        if turn.has_waited:
            self._limiter.note_success(origin.address, _now())
        if isinstance(result, Identity):
            write_authenticated(origin, result.principal, mechanism)
        return result

    async def _wait_for_turn(self, turn: LoginTurn) -> float:
        """Wait while the address has too many failures; return the time in seconds. Raises `AuthenticationFailed`."""
        wait_s = self._limiter.reserve(turn.address, _now())
        if wait_s == math.inf:
            raise AuthenticationFailed("too many failed logins from this address; wait some seconds")
        if wait_s:
            turn.has_waited = True
            await asyncio.sleep(wait_s)
        return wait_s

    # verification

    async def verify_password(self, user: str, password: str, mechanism: str, turn: LoginTurn) -> Identity:
        """Verify a password and return the identity; `attempt` adds the delays after failures.

        Raises `AuthenticationFailed`, and `Unavailable` with too many logins at once."""
        version, credential = self._users.version_of(user), self._users.any_credential(user)
        key = self._memory_key(user, password, credential)
        if key in self._remembered:
            self._remembered.move_to_end(key)
        elif await self._hash_and_compare(credential or self._unknown_credential(user), password, turn):
            self._remember(key)
        else:
            raise AuthenticationFailed("unknown user or wrong password")
        return identify_user(user, mechanism, version)

    async def verify_token(self, check: TokenCheck, mechanism: str) -> Identity:
        """Verify a bearer token and return its identity; `attempt` adds the delays. Raises `AuthenticationFailed`."""
        if self.bearer is None:
            raise AuthenticationFailed("this broker takes no bearer tokens; see `raftlog serve --oauth-jwks`")
        found = await self.bearer.verify(check.token, self.now_s())
        if check.user not in ("", found.principal):
            raise AuthenticationFailed("acting as another user (an authorization id) is not supported")
        _check_principal(found.principal)
        return Identity(found.principal, mechanism, expires_at=found.expires_at)

    async def _hash_and_compare(self, credential: ScramCredential, password: str, turn: LoginTurn) -> bool:
        """Return whether the password belongs to the credential; one PBKDF2 runs at a time."""
        if self._waiting >= CHECKS_WAITING_MAX:
            raise Unavailable("too many logins wait for their check; try again")
        self._waiting += 1
        try:
            async with self._hashing:
                if not turn.has_waited and self._limiter.is_exhausted(turn.address, _now()):
                    raise _TurnLost
                return await asyncio.to_thread(is_password_of, credential, password)
        finally:
            self._waiting -= 1

    def _memory_key(self, user: str, password: str, credential: ScramCredential | None) -> bytes:
        """Return the key under which a verified password is cached: an HMAC with a random key of this process.

        It changes with the user's credential."""
        parts = (user.encode(), password.encode(), b"" if credential is None else credential.stored_key)
        message = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return hmac.digest(self._remembering_key, message, "sha256")

    def _remember(self, key: bytes) -> None:
        """Remember a verified password by its key."""
        self._remembered[key] = None
        if len(self._remembered) > REMEMBERED_MAX:
            self._remembered.popitem(last=False)

    def _unknown_credential(self, user: str) -> ScramCredential:
        """Return a credential without a password, so that an unknown user takes the time of a known one."""
        mechanism = ScramMechanism.SHA_256
        salt = hmac.digest(self._users.secret, user.encode(), "sha256")
        return ScramCredential(mechanism, salt, ITERATIONS_DEFAULT, bytes(len(digest(mechanism, b""))), b"")


class SaslLogin:
    """One SASL exchange of a connection; for Kafka and any other protocol with SASL."""

    def __init__(self, authenticator: Authenticator, users: UserStore, mechanism: str) -> None:
        """Begin a login with a SASL mechanism."""
        self.mechanism = mechanism
        self._authenticator, self._users = authenticator, users
        self._version = 0
        self._exchange = make_exchange(mechanism, self._credential, users.secret)
        self.data = b""
        """Answer to the last message."""

    def _credential(self, user: str, mechanism: ScramMechanism) -> ScramCredential | None:
        """Return the credential of a user, or None, and store the user's version."""
        self._version = self._users.version_of(user)
        return self._users.credential(user, mechanism)

    async def step(self, message: bytes, origin: Caller) -> Identity | None:
        """Process a message, and set `data`; return the identity at the end. Raises as `check_password`."""

        async def verify(turn: LoginTurn) -> Identity | None:
            """Verify the client's message; return the identity at the end of the exchange, None before."""
            step = self._exchange.step(message)
            if isinstance(step, PasswordCheck):
                return await self._authenticator.verify_password(*step, self.mechanism, turn)
            if isinstance(step, TokenCheck):
                return await self._authenticator.verify_token(step, self.mechanism)
            self.data = step.data
            return identify_user(step.user, self.mechanism, self._version) if isinstance(step, Proved) else None

        self.data = b""
        return await self._authenticator.attempt(verify, lambda: self._exchange.user, self.mechanism, origin)


def _now() -> float:
    """Return the time of the event loop."""
    return asyncio.get_running_loop().time()


def identify_user(user: str, mechanism: str, version: int) -> Identity:
    """Return the identity of a user that proved to know its password. Raises `AuthenticationFailed`."""
    _check_principal(user)
    assert version, f"{user!r} has no version"
    return Identity(user, mechanism, version)


def _check_principal(principal: str) -> None:
    """Raise `AuthenticationFailed` for a name that is no user's."""
    if principal in _NOT_A_USER:
        raise AuthenticationFailed(f"no client can log in as {principal}")
