"""Values of a request's headers, checked for valid text.

aiohttp returns bytes that are not UTF-8 as lone surrogates, which no answer can hold, so every handler reads
headers here, where such values are refused."""

from aiohttp import web

from raftlog.api.codes import BAD_REQUEST
from raftlog.api.http.server.problems import HttpProblem


def header(request: web.BaseRequest, name: str) -> str | None:
    """Return the value of a header, None without it; raises `HttpProblem` 400 for a value that is not ASCII.

    The lookup is faster with a name of type `istr`."""
    value = request.headers.get(name)
    if value is None or value.isascii():
        return value
    raise HttpProblem(BAD_REQUEST, f"the header {name} is not ASCII: {ascii(value)[:80]}")


def text_header(request: web.BaseRequest, name: str) -> str | None:
    """Return the value of a header with UTF-8 text, None without it. Raises `HttpProblem` 400."""
    value = request.headers.get(name)
    if value is not None:
        try:
            value.encode()
        except UnicodeEncodeError:
            raise HttpProblem(BAD_REQUEST, f"the header {name} is not UTF-8: {ascii(value)[:80]}") from None
    return value


def expects_continue(request: web.BaseRequest) -> bool:
    """Return whether the sender waits for `100 Continue` before it sends the body."""
    expected = header(request, "Expect")
    return expected is not None and expected.lower() == "100-continue"


def base_url(request: web.BaseRequest) -> str:
    """Return the base URL of links: with the request's host, or (HTTP/1.0) the address of the connection."""
    return f"{request.scheme}://{header(request, 'Host') or _own_address(request)}"


def _own_address(request: web.BaseRequest) -> str:
    """Return HOST:PORT of this broker on the request's connection."""
    name = request.transport.get_extra_info("sockname") if request.transport is not None else None
    if name is None:
        return "localhost"
    host, port = name[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
