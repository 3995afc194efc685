"""Logins over HTTP: `Basic` with user and password (RFC 7617), and `Bearer` with a token (RFC 6750).

    header of the last login → one comparison, and whether its user is unchanged
    another header           → a login, which replaces the caller of the connection
    no header                → the name of the client certificate, or 401 with `WWW-Authenticate`

Readiness is answered without a login, by its status alone. Called by `HttpApp` where the listener requires logins."""

from base64 import b64decode
from binascii import Error as Base64Error
from typing import Final

from aiohttp import web
from aiohttp.hdrs import AUTHORIZATION, WWW_AUTHENTICATE

from raftlog.api.authentication import ListenerAuthentication
from raftlog.api.http.server.connection import HttpConnection, connection_of
from raftlog.api.http.server.request_headers import header
from raftlog.errors import AuthenticationFailed
from raftlog.partitions.caller import ANONYMOUS
from raftlog.partitions.security.authenticator import Identity
from raftlog.security.sasl import OAUTHBEARER, parse_bearer_token

READY_PATH: Final = "/v1/status/ready"
BASIC: Final = "Basic"
BEARER: Final = "Bearer"
_REALM: Final = 'realm="raftlog"'


class HttpLogins:
    """Authentication of the requests on one HTTP listener, by the header `Authorization`."""

    def __init__(self, authentication: ListenerAuthentication) -> None:
        self._authenticator = authentication.authenticator
        self._authentication = authentication

    def is_current(self, request: web.BaseRequest) -> bool:
        """Return whether the connection is logged in already with the header of this request."""
        return self.is_logged_in(connection_of(request), header(request, AUTHORIZATION))

    def is_logged_in(self, connection: HttpConnection, authorization: str | None) -> bool:
        """Return whether the connection is logged in with this header; without one, by its client's certificate."""
        if authorization != connection.authorization:
            return False
        if connection.identity is None:
            return connection.caller.principal != ANONYMOUS
        return self._authenticator.is_current(connection.identity)

    async def log_in(self, request: web.BaseRequest) -> None:
        """Set the caller of the connection by the header of this request.

        Raises `AuthenticationFailed`, and `Unavailable` while the broker starts."""
        connection, sent = connection_of(request), header(request, AUTHORIZATION)
        connection.log_out()
        if sent is not None:
            connection.log_in(sent, await self._identify(sent, connection))
        elif connection.caller.principal == ANONYMOUS:
            raise AuthenticationFailed("this listener requires a login: send user and password, or a token")

    async def _identify(self, sent: str, connection: HttpConnection) -> Identity:
        """Return the identity that an `Authorization` header proves. Raises `AuthenticationFailed`."""
        scheme, _, rest = sent.partition(" ")
        caller, offered = connection.caller, self._authentication.offered(is_encrypted=True)
        if scheme.lower() == BEARER.lower() and OAUTHBEARER in offered:
            return await self._authenticator.check_token(parse_bearer_token(sent), caller, BEARER)
        if scheme.lower() != BASIC.lower() or not any(name != OAUTHBEARER for name in offered):
            raise AuthenticationFailed("the header Authorization has a scheme that this listener does not take")
        user, password = _parse_basic(rest.strip())
        return await self._authenticator.check_password(user, password, caller, BASIC)

    def challenge(self, response: web.StreamResponse) -> None:
        """Add the authentication schemes of the listener to a 401 answer."""
        offered = self._authentication.offered(is_encrypted=True)
        if any(name != OAUTHBEARER for name in offered):
            response.headers.add(WWW_AUTHENTICATE, f'{BASIC} {_REALM}, charset="UTF-8"')
        if OAUTHBEARER in offered:
            response.headers.add(WWW_AUTHENTICATE, f"{BEARER} {_REALM}")


def is_readiness(request: web.BaseRequest) -> bool:
    """Return whether this request asks for readiness without a login, which is allowed."""
    is_read = request.method in ("GET", "HEAD") and header(request, AUTHORIZATION) is None
    return is_read and request.raw_path.partition("?")[0] == READY_PATH


def strip_answer(response: web.StreamResponse) -> web.Response:
    """Return an answer with only the status of `response`."""
    return web.Response(status=response.status)


def _parse_basic(credentials: str) -> tuple[str, str]:
    """Return user and password of Basic credentials. Raises `AuthenticationFailed`."""
    try:
        user, colon, password = b64decode(credentials, validate=True).decode().partition(":")
    except (Base64Error, ValueError):
        raise AuthenticationFailed("the header Authorization is not Basic with user:password in base64") from None
    if not colon:
        raise AuthenticationFailed("the header Authorization has no colon between user and password")
    return user, password
