"""Builder of the complete OpenAPI document."""

from collections.abc import Iterable

import orjson

from raftlog.api.http.openapi.derived import COMPONENTS
from raftlog.api.http.openapi.operation import describe_operation
from raftlog.api.http.openapi.parts import Json
from raftlog.api.http.openapi.schemas import SCHEMAS
from raftlog.api.http.server.endpoint import HttpEndpoint

_ABOUT = """A replicated log over HTTP. Any broker accepts any request, and forwards it to the leader on another broker.

Every error has the same body: `error_code`, `message` and `outcome`, which is `failed` when it definitely did not
happen and `unknown` when it may have. HEAD is answered wherever GET is, without the body, but for polls of consumer
instances, which move positions. Each path lists its errors. In addition, any path can answer 403
(a web page of another origin, or an unknown host), 404 (unknown path), 405 (method not allowed; `Allow` has
the allowed ones), 400 (invalid HTTP) and 500 (damaged bytes, or a failure of the broker itself).
"""


def build(version: str, endpoints: Iterable[HttpEndpoint]) -> Json:
    """Return the OpenAPI document with these endpoints, for a version of raftlog."""
    paths: dict[str, Json] = {}
    for each in endpoints:
        paths.setdefault(each.pattern, {})[each.method.lower()] = describe_operation(each)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "raftlog",
            "version": version,
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name} for name in ("records", "topics", "consumers", "groups", "operators")],
        "paths": paths,
        "components": {"schemas": COMPONENTS | SCHEMAS},
    }


def document_bytes(version: str, endpoints: Iterable[HttpEndpoint]) -> bytes:
    """Return the document encoded as JSON."""
    return orjson.dumps(build(version, endpoints))
