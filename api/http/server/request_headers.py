"""Values of a request's headers. aiohttp gives bytes that are no UTF-8 as lone surrogates, which no answer can hold, so
every handler reads headers here, where such values are refused.
"""

from aiohttp import web

from raftlog.api.codes import BAD_REQUEST
from raftlog.api.http.server.problems import HttpProblem


def header(request: web.BaseRequest, name: str) -> str | None:
    """The value, or None without such a header; an `istr` is found faster. Raises `HttpProblem` 400 for a value that is
    not ASCII."""
    value = request.headers.get(name)
    if value is None or value.isascii():
        return value
    raise HttpProblem(BAD_REQUEST, f"the header {name} is not ASCII: {ascii(value)[:80]}")


def text_header(request: web.BaseRequest, name: str) -> str | None:
    """The same for a value that is UTF-8 text."""
    value = request.headers.get(name)
    if value is not None:
        try:
            value.encode()
        except UnicodeEncodeError:
            raise HttpProblem(BAD_REQUEST, f"the header {name} is not UTF-8: {ascii(value)[:80]}") from None
    return value


def expects_continue(request: web.BaseRequest) -> bool:
    """Whether the sender waits for `100 Continue` before it sends the body."""
    expected = header(request, "Expect")
    return expected is not None and expected.lower() == "100-continue"


def base_url(request: web.BaseRequest) -> str:
    """Of links, with the host as the client wrote it; without one (HTTP/1.0) with the address of its connection."""
    return f"{request.scheme}://{header(request, 'Host') or _own_address(request)}"


def _own_address(request: web.BaseRequest) -> str:
    name = request.transport.get_extra_info("sockname") if request.transport is not None else None
    if name is None:
        return "localhost"
    host, port = name[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
