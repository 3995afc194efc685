"""Refusal of changes that pages of the console request, unless the broker allows them.

    a request of the console   has `X-Raftlog-Console`, which the pages send, or a `Referer` below /console, which
                               browsers add by themselves
    a change                   has any method but GET and HEAD

Other clients have neither header and are not affected: this protects from a mistake in a browser, while permissions
decide what a user may do. Called by `HttpApp` for each request that is not a GET or HEAD."""

from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.hdrs import REFERER
from multidict import istr

from raftlog.api.codes import CONSOLE_READ_ONLY
from raftlog.api.http.server.problems import HttpProblem

CONSOLE_HEADER: Final = istr("X-Raftlog-Console")
_REFUSAL: Final = "the console is read-only at this broker; start it with --console-writes to allow changes"


def refuse_console_change(request: web.BaseRequest) -> None:
    """Raise `HttpProblem` 403 if a page of the console sent this request."""
    headers = request.headers
    if CONSOLE_HEADER in headers or ((referer := headers.get(REFERER)) is not None and _is_console(referer)):
        raise HttpProblem(CONSOLE_READ_ONLY, _REFUSAL)


def _is_console(referer: str) -> bool:
    """Return whether this is the address of a page of a console."""
    try:
        path = urlsplit(referer).path
    except ValueError:
        return False
    return path == "/console" or path.startswith("/console/")
