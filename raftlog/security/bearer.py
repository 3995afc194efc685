"""Verification of bearer tokens: signed JSON Web Tokens (RFC 7519) of one issuer, with public keys from a JWK set.

A token needs `exp`, `aud`, `iss` and the claim with the principal. Only signatures with public keys are accepted: never
`none`, and never HMAC, for which a public key would be a known secret (RFC 8725). PyJWT verifies signatures; its import
takes 0.2 s, so it is imported when keys are loaded first.

`load` blocks while it reads a file or sends a request: call it in a thread. Used by the brokers' authenticators."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from raftlog.errors import AuthenticationFailed, InvalidArgument, Unavailable
from raftlog.security.credentials import check_user_name

ALGORITHMS: Final = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    "EdDSA": "OKP",
}
"""Accepted algorithms, each with the type of its keys (RFC 7518)."""
KEY_SET_BYTES_MAX: Final = 1 << 20
KEYS_MAX: Final = 100
FETCH_S: Final = 10.0
"""Bound on the time of the connection attempt, and on that of the answer with keys."""
CLOCK_SKEW_S: Final = 5
"""Tolerance for `nbf` and `iat`; none for `exp`."""
_KEYS_TRIED_MAX: Final = 4
"""Maximum number of keys that are tried for a token that names no key."""


class BearerSettings(NamedTuple):
    """Settings for the verification of bearer tokens, from `serve --oauth-…`."""

    keys: str
    """Path of a JWK set, or its https URL."""
    issuer: str
    audience: str
    principal_claim: str = "sub"


class TokenIdentity(NamedTuple):
    """Principal of a token, and the Unix time in seconds at which it expires."""

    principal: str
    expires_at: float


class UnknownKey(AuthenticationFailed):
    """The token is signed with a key that the loaded set does not have; a newer set may have it."""


class _Key(NamedTuple):
    id: str | None
    type: str
    algorithm: str | None
    public: Any
    """Key object of the library."""


class BearerVerifier:
    """Verifier for the tokens of one issuer; it refuses all tokens until `load` has succeeded."""

    def __init__(self, settings: BearerSettings, read: Callable[[str], bytes] | None = None) -> None:
        self.settings = settings
        self._read = read or read_key_set
        self._keys: Sequence[_Key] = ()

    def load(self) -> None:
        """Load the keys anew. Blocks. Raises `Unavailable`, and then keeps the earlier keys."""
        self._keys = parse_key_set(self._read(self.settings.keys), self.settings.keys)

    def verify(self, token: str, now: float) -> TokenIdentity:
        """Return the identity in a token that is valid at Unix time `now`. Raises `AuthenticationFailed`."""
        jwt = _jwt()
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise AuthenticationFailed("the token is not a signed JSON Web Token") from None
        algorithm, key_id = header.get("alg"), header.get("kid")
        key_type = ALGORITHMS.get(algorithm) if isinstance(algorithm, str) else None
        if key_type is None:
            raise AuthenticationFailed(f"the token's algorithm is not one of {', '.join(ALGORITHMS)}")
        keys = [
            key
            for key in self._keys
            if key.type == key_type and key.algorithm in (None, algorithm) and key_id in (None, key.id)
        ]
        if not keys:
            raise UnknownKey("the token is signed with an unknown key")
        return self._identity(self._claims(token, keys[:_KEYS_TRIED_MAX], algorithm), now)

    def _claims(self, token: str, keys: Sequence[_Key], algorithm: str) -> dict[str, Any]:
        """Return the claims of a token, verified with the first key that fits. Raises `AuthenticationFailed`."""
        jwt = _jwt()
        for key in keys:
            try:
                claims: dict[str, Any] = jwt.decode(
                    token,
                    key.public,
                    algorithms=[algorithm],
                    audience=self.settings.audience,
                    issuer=self.settings.issuer,
                    leeway=CLOCK_SKEW_S,
                    options={"require": ["exp", "aud", "iss"]},
                )
            except jwt.InvalidSignatureError:
                continue
            except jwt.ExpiredSignatureError:
                raise AuthenticationFailed("the token has expired") from None
            except jwt.InvalidAudienceError:
                raise AuthenticationFailed("the token is for another audience") from None
            except jwt.InvalidIssuerError:
                raise AuthenticationFailed("the token is from another issuer") from None
            except jwt.MissingRequiredClaimError as error:
                raise AuthenticationFailed(f"the token lacks the claim {error.claim}") from None
            except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
                raise AuthenticationFailed("the token is not valid") from None
            return claims
        raise AuthenticationFailed("the token's signature is wrong")

    def _identity(self, claims: dict[str, Any], now: float) -> TokenIdentity:
        """Return principal and expiry from verified claims. Raises `AuthenticationFailed`."""
        expires_at = float(claims["exp"])
        if expires_at <= now:
            raise AuthenticationFailed("the token has expired")
        principal = claims.get(self.settings.principal_claim)
        try:
            if not isinstance(principal, str):
                raise InvalidArgument("it is not a text")
            check_user_name(principal)
        except InvalidArgument:
            name = self.settings.principal_claim
            raise AuthenticationFailed(f"the token's claim {name} is missing, or is not a user name") from None
        return TokenIdentity(principal, expires_at)


def check_settings(settings: BearerSettings) -> None:
    """Raise `InvalidArgument` for settings that cannot be used."""
    scheme = urlsplit(settings.keys).scheme
    if "://" in settings.keys and scheme != "https":
        raise InvalidArgument(f"keys of tokens come from a file or an https URL, not from {settings.keys}")
    for name in ("keys", "issuer", "audience", "principal_claim"):
        if not getattr(settings, name):
            raise InvalidArgument(f"bearer tokens need {name.replace('_', ' ')}")


def read_key_set(source: str) -> bytes:
    """Read a JWK set from a file or an https URL; redirects are not followed. Blocks. Raises `Unavailable`."""
    try:
        if source.startswith("https://"):
            opener = urllib.request.build_opener(_NoRedirects())
            request = urllib.request.Request(source, headers={"Accept": "application/json"})  # noqa: S310 - https only
            with opener.open(request, timeout=FETCH_S) as answer:
                data = _read_within(answer, FETCH_S)
        else:
            with open(source, "rb") as file:
                data = file.read(KEY_SET_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        raise Unavailable(f"the keys of bearer tokens cannot be read from {source}: {error}") from error
    if len(data) > KEY_SET_BYTES_MAX:
        raise Unavailable(f"the keys of bearer tokens in {source} have more than {KEY_SET_BYTES_MAX} bytes")
    return data


def _read_within(answer: Any, seconds: float) -> bytes:
    """Return the body of an answer, up to the bound on its size; raises `TimeoutError` after `seconds`."""
    data, end = b"", time.monotonic() + seconds
    while len(data) <= KEY_SET_BYTES_MAX and (piece := answer.read1(1 << 16)):
        data += piece
        if time.monotonic() > end:
            raise TimeoutError(f"no whole answer within {seconds:g} s")
    return data


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Handler that refuses redirects, since they could lead to plain HTTP."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        """Raise `URLError`: a redirect could lead to another host."""
        raise urllib.error.URLError(f"a redirect to {newurl} is not followed")


def parse_key_set(data: bytes, source: str) -> Sequence[_Key]:
    """Return those public keys of a JWK set (RFC 7517) that can verify tokens.

    Raises `Unavailable`."""
    jwt = _jwt()
    try:
        rows = json.loads(data)["keys"]
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise TypeError("keys is not a list of objects")
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Unavailable(f"the keys of bearer tokens in {source} are not a JWK set") from None
    found = []
    for row in rows[:KEYS_MAX]:
        if row.get("kty") not in ALGORITHMS.values() or row.get("use", "sig") != "sig":
            continue
        algorithm = row.get("alg")
        if algorithm is not None and ALGORITHMS.get(algorithm) != row["kty"]:
            continue
        try:
            public = jwt.PyJWK(row).key
        except (jwt.PyJWTError, ValueError, TypeError):
            continue
        if hasattr(public, "public_key"):
            public = public.public_key()  # a private key was published by mistake
        found.append(_Key(row.get("kid"), row["kty"], algorithm, public))
    if not found:
        raise Unavailable(f"the keys of bearer tokens in {source} have no public key for signatures")
    return found


def _jwt() -> Any:
    """Return the module jwt, imported at the first use."""
    return import_module("jwt")
