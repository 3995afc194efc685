"""Handlers of GET / and GET /openapi.json."""

import importlib
from typing import Final

from aiohttp import web

import raftlog
from raftlog.api.http.openapi.parts import obj, string
from raftlog.api.http.server.answers import answer, json_answer
from raftlog.api.http.server.endpoint import HttpEndpoint
from raftlog.api.http.server.handlers import Handlers
from raftlog.api.http.server.permissions import DESCRIBE_CLUSTER
from raftlog.api.http.server.routing import Target

LINKS: Final = {
    "openapi": "/openapi.json",
    "topics": "/topics",
    "clusters": "/v3/clusters",
    "groups": "/groups",
    "brokers": "/v1/brokers",
    "ready": "/v1/status/ready",
    "health": "/v1/cluster/health_overview",
    "metrics": "/metrics",
}
"""Paths, by name, that answer GET without parameters."""
_ROOT = obj(
    {
        "name": string(const="raftlog"),
        "version": string(),
        "documentation": string(),
        "links": obj({name: string(const=path) for name, path in LINKS.items()}),
    }
)


class EntryPointHandlers(Handlers):
    """Handlers of the list of entry points and of the OpenAPI document, which is built at its first request."""

    _document: bytes | None = None

    @HttpEndpoint(
        "GET /",
        _ROOT,
        (),
        text="Program, documents, and paths that answer GET without parameters.",
        fails=(),
        is_open=True,
        permissions=DESCRIBE_CLUSTER,
    )
    async def root(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return entry points.

        Also before the broker is ready."""
        return json_answer(
            {
                "name": "raftlog",
                "version": raftlog.__version__,
                "documentation": "README.md and docs/HTTP.md of raftlog's source tree; all paths: /openapi.json",
                "links": LINKS,
            }
        )

    @HttpEndpoint(
        "GET /openapi.json",
        {"type": "object"},
        (),
        text="OpenAPI 3.1.",
        fails=(),
        is_open=True,
        permissions=DESCRIBE_CLUSTER,
    )
    async def openapi(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return the OpenAPI document of this API."""
        if self._document is None:
            module = importlib.import_module("raftlog.api.http.openapi.document")
            self._document = module.document_bytes(raftlog.__version__, self._context.router.endpoints)
        return answer(self._document)
