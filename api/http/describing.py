"""GET /openapi.json: what can be asked here, for programs."""

import importlib

from aiohttp import web

import raftlog
from raftlog.api.http.answers import answer
from raftlog.api.http.routing import Router, Target


class DescribingHandlers:
    """The document is made when it is asked for first; no start pays for it."""

    def __init__(self) -> None:
        self._document: bytes | None = None

    def add_to(self, router: Router) -> None:
        router.add("GET", "/openapi.json", self.document)

    async def document(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        if self._document is None:
            module = importlib.import_module("raftlog.api.http.openapi.document")
            self._document = module.document_bytes(raftlog.__version__)
        return answer(self._document)
