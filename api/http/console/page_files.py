"""Handlers of GET /console/…: the files of the console's pages.

    path → key of a dictionary of the files that this package has → bytes, content type, tag

The path of a request is only looked up in this dictionary, so it cannot reach another file. The dictionary is filled at
the first request. Every answer has a content security policy that allows only files and data of this broker: a script
in a record, a key or a name cannot run even if a page inserted it as HTML."""

import asyncio
import hashlib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from aiohttp import web

from raftlog.api.codes import NOT_FOUND
from raftlog.api.http.openapi.parts import string
from raftlog.api.http.server.answers import answer_with
from raftlog.api.http.server.endpoint import HttpEndpoint, parameter
from raftlog.api.http.server.handlers import Handlers
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.request_headers import header
from raftlog.api.http.server.routing import Target

PAGES: Final = Path(__file__).parent / "pages"
CONTENT_TYPES: Final[Mapping[str, str]] = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".txt": "text/plain; charset=utf-8",
}
"""Content types by file name extension; files with other extensions are not served."""
PAGE_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_INDEX: Final = "index.html"
_TAG_BYTES: Final = 12
_KNOWN: Final = parameter("header", "If-None-Match", string(), "Tags of versions that the client has.")
_UNCHANGED: Final[tuple[str, Any]] = ("Unchanged: the tag is in `If-None-Match`.", None)
_FILE: Final = partial(
    HttpEndpoint,
    found=string("Content of the file."),
    query=(_KNOWN,),
    text="The file.",
    headers={"ETag": string("Tag of the content."), "Content-Security-Policy": string()},
    content_types=tuple(sorted({each.partition(";")[0] for each in CONTENT_TYPES.values()})),
    fails=(400, 404),
    more={304: _UNCHANGED},
)


class PageFile(NamedTuple):
    """File of the pages, as it is served."""

    body: bytes
    content_type: str
    tag: str
    """`ETag`, in quotes."""


def read_pages(folder: Path = PAGES) -> dict[str, PageFile]:
    """Return the files to serve by their paths below /console/, at most one folder deep."""
    return dict(_read_files(folder))


def _read_files(folder: Path) -> Iterator[tuple[str, PageFile]]:
    """Yield the path and the content of each file of the pages; the tag is a hash of the content."""
    for path in sorted((*folder.glob("*"), *folder.glob("*/*"))):
        content_type = CONTENT_TYPES.get(path.suffix)
        if content_type is not None and path.is_file():
            body = path.read_bytes()
            tag = hashlib.blake2b(body, digest_size=_TAG_BYTES).hexdigest()
            yield path.relative_to(folder).as_posix(), PageFile(body, content_type, f'"{tag}"')


class PageHandlers(Handlers):
    """Handlers of GET /console/ and of the files below it."""

    kind = tag = "console"
    _files: dict[str, PageFile] | None = None

    @_FILE("GET /console", more={304: _UNCHANGED, 307: ("To the path with a slash at its end.", None)})
    async def console(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the console, a web page for operators."""
        if not request.raw_path.partition("?")[0].endswith("/"):
            return web.Response(status=307, headers={"Location": "console/", "Content-Length": "0"})
        return await self._answer(request, _INDEX)

    @_FILE("GET /console/{file}")
    async def console_file(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return a file of the console."""
        return await self._answer(request, target.args[0])

    @_FILE("GET /console/{folder}/{file}")
    async def console_folder_file(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return a file of the console in a folder."""
        return await self._answer(request, "/".join(target.args))

    async def _answer(self, request: web.BaseRequest, name: str) -> web.Response:
        """Return a file by its path below /console/. Raises `HttpProblem` 404."""
        if self._files is None:
            self._files = await asyncio.to_thread(read_pages)
        found = self._files.get(name)
        if found is None:
            raise HttpProblem(NOT_FOUND, f"the console has no file {name!a:.100}; it begins at /console/")
        headers = {**PAGE_HEADERS, "ETag": found.tag}
        if found.tag in (each.strip() for each in (header(request, "If-None-Match") or "").split(",")):
            return web.Response(status=304, headers=headers)
        return answer_with(found.body, found.content_type, headers)
