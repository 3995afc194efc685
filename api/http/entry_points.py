"""Handlers of GET / and /openapi.json: entry points for people and for programs."""

import importlib
from typing import Final

from aiohttp import web

import raftlog
from raftlog.api.http.server.answers import answer, json_answer
from raftlog.api.http.server.routing import HttpRouter, Target

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


class EntryPointHandlers:
    """Handlers of the OpenAPI document, which is built at the first request and not at start."""

    def __init__(self) -> None:
        self._document: bytes | None = None

    def add_to(self, router: HttpRouter) -> None:
        router.add("GET", "/", self.root, query=None)
        router.add("GET", "/openapi.json", self.document, query=None)

    async def root(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Name the program, its documents and paths to begin with; also before the broker is ready."""
        return json_answer(
            {
                "name": "raftlog",
                "version": raftlog.__version__,
                "documentation": "README.md and docs/HTTP.md of raftlog's source tree; all paths: /openapi.json",
                "links": LINKS,
            }
        )

    async def document(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        if self._document is None:
            module = importlib.import_module("raftlog.api.http.openapi.document")
            self._document = module.document_bytes(raftlog.__version__)
        return answer(self._document)
