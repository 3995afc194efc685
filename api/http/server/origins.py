"""Check of origins and host names, so that web pages of other sites cannot use a broker through a browser.

    request → Host is a name of this broker → Origin, if any, is that host → Sec-Fetch-Site is same-origin, or none

A browser sends requests of any page to any address that it reaches, also to loopback. It marks a request of another
origin by `Origin` or `Sec-Fetch-Site`; such requests are refused with 403. By these headers a page whose own name
resolves to loopback (DNS rebinding) has the same origin. Therefore a listener on loopback addresses accepts only known
hosts. A request without `Host`, which HTTP/1.0 allows, does not come from a browser. Called by `HttpApp` for each
request."""

import ipaddress
from collections.abc import Iterable
from typing import Final

from aiohttp import web
from aiohttp.hdrs import HOST, ORIGIN
from multidict import istr

from raftlog.api.codes import BAD_REQUEST, CROSS_ORIGIN, UNKNOWN_HOST
from raftlog.api.http.server.problems import HttpProblem
from raftlog.errors import InvalidArgument

_KNOWN_MAX: Final = 256
"""Values of `Host` that are remembered as accepted."""
_SEC_FETCH_SITE: Final = istr("Sec-Fetch-Site")
_OTHER_SITES: Final = frozenset(("cross-site", "same-site"))
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_SHOWN_MAX: Final = 80


class OriginPolicy:
    """Policy of the origins and hosts from which web pages may send requests.

    `names`: hosts that clients use besides localhost and loopback addresses. `is_host_checked`: only these hosts are
    allowed; the port is not checked, because clients of a tunnel use another one."""

    def __init__(self, names: Iterable[str] = (), *, is_host_checked: bool = True) -> None:
        self._names = frozenset(map(allowed_host, names)) | {"localhost"}
        self._is_host_checked = is_host_checked
        self._known: set[str | None] = {None, ""}

    def check(self, request: web.BaseRequest) -> None:
        """Raise `HttpProblem`: 403 for another origin or an unknown host, 400 for an invalid host."""
        headers = request.headers
        host = headers.get(HOST)
        if host not in self._known:
            self._check_host(host or "")
        target = request.raw_path
        if not target.startswith("/") and (authority := _authority(target)):
            self._check_host(authority)
            host = authority  # RFC 9112, 3.2.2: it takes the place of the header
        site = headers.get(_SEC_FETCH_SITE)
        if site is not None and site.lower() in _OTHER_SITES:
            raise _cross_origin_error(f"Sec-Fetch-Site is {quote_header(site)}")
        origin = headers.get(ORIGIN)
        if origin is not None and not _is_same_host(origin, host):
            raise _cross_origin_error(f"Origin is {quote_header(origin)}, and the host is {quote_header(host or '')}")

    def _check_host(self, host: str) -> None:
        """Raise `HttpProblem` for a host that clients may not use; remember an accepted one."""
        name, _ = split_host(host)
        if self._is_host_checked and not self._is_known(name):
            raise HttpProblem(
                UNKNOWN_HOST,
                f"the host {quote_header(host)} is not one of this broker; it has {', '.join(sorted(self._names))} and "
                "loopback addresses. If clients use this name, start the broker with --allowed-host "
                f"{name[:_SHOWN_MAX]}",
            )
        if len(self._known) < _KNOWN_MAX:
            self._known.add(host)

    def _is_known(self, name: str) -> bool:
        """Return whether a host name belongs to this broker."""
        return name in self._names or is_loopback(name)


def allowed_host(text: str) -> str:
    """Return a host in the form that is used for comparison. Raises `InvalidArgument`.

    It is in lower case, without a trailing dot or brackets."""
    try:
        name, port = split_host(f"[{text}]" if _shortest_ipv6(text) else text)
    except HttpProblem:
        name, port = "", None
    if not name or port is not None:
        raise InvalidArgument(f"{text!r} is not a host, such as broker.example.com or 10.0.0.7; it has no port")
    return name


def is_loopback(host: str) -> bool:
    """Return whether `host` is a loopback address; false for names, also for localhost."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def split_host(authority: str) -> tuple[str, int | None]:
    """Return host and port of `HOST`, `HOST:PORT`, `[IPv6]` or `[IPv6]:PORT`. Raises `HttpProblem` 400."""
    host, bracket, rest = authority.partition("]")
    if bracket:
        name = _shortest_ipv6(host.removeprefix("[")) if host.startswith("[") else None
        colon, port = rest[:1], rest[1:]
    else:
        host, colon, port = authority.partition(":")
        name = host.removesuffix(".").lower()
    is_port = port.isascii() and port.isdecimal() and int(port[:6]) <= 65_535 if port else True
    if not name or not _is_name(name) or colon not in ("", ":") or not is_port:
        raise HttpProblem(BAD_REQUEST, f"the host {quote_header(authority)} is not HOST or HOST:PORT")
    return name, int(port) if port else None


def quote_header(text: str) -> str:
    """Return a header's value for use in a message: shortened, and in ASCII."""
    text = ascii(text)
    return text if len(text) <= _SHOWN_MAX else f"{text[: _SHOWN_MAX - 3]}..."


def _is_name(name: str) -> bool:
    """Return whether the text has only characters of host names and addresses."""
    return name.isascii() and all(letter.isalnum() or letter in "-._:" for letter in name)


def _shortest_ipv6(text: str) -> str | None:
    """Return an IPv6 address in its shortest form; None for other texts."""
    try:
        return str(ipaddress.IPv6Address(text))
    except ValueError:
        return None


def _authority(target: str) -> str | None:
    """Return the host of a request target in absolute form; None for other targets."""
    scheme, separator, rest = target.partition("://")
    if not separator or scheme.lower() not in _DEFAULT_PORTS:
        return None
    return rest.partition("/")[0].partition("?")[0]


def _is_same_host(origin: str, host: str | None) -> bool:
    """Return whether an origin has this host and port; the scheme may differ, as behind a proxy with TLS."""
    scheme, separator, authority = origin.partition("://")
    default = _DEFAULT_PORTS.get(scheme.lower())
    if not separator or default is None or not host:
        return False
    try:
        (one, one_port), (other, other_port) = split_host(authority), split_host(host)
    except HttpProblem:
        return False
    return (one, one_port or default) == (other, other_port or default)


def _cross_origin_error(why: str) -> HttpProblem:
    """Return the error for a request of another origin's page."""
    return HttpProblem(
        CROSS_ORIGIN,
        f"a web page of another origin may not use this broker ({why}); programs send neither header, nor does a "
        "browser for an address that is typed",
    )
