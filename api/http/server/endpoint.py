"""Endpoints, each declared once, at its handler: routes, HEAD, `Allow`, permissions, checks of the query, and OpenAPI.

    @HttpEndpoint("GET /v1/brokers/{broker}", BrokerDescription, permissions=DESCRIBE_CLUSTER)
    async def broker(self, request, target):
        (docstring) Return a broker.

The first line of the docstring is the operation's summary, and the handler's name in camel case its `operationId`.
`openapi.operation` derives the operation when the document is requested; until then a declaration is only data."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct, structs

from raftlog.api.http.openapi.parts import Json, string
from raftlog.api.http.server.media import JSON_TYPE
from raftlog.api.http.server.permissions import EndpointPermission
from raftlog.values.records import ErrorBody

Declared = TypeVar("Declared", bound=Callable[..., Any])

LEADER: Json = {"X-Raftlog-Leader": string("HOST:PORT of the leader or coordinator, when it is another broker.")}
ETAG: Json = {"ETag": string("The version, in quotes.")}
VERSIONED = ("expected_version", "timeout")
"""Parameters of a change that can name the version it expects, also by `If-Match`."""
ORDERED = "Ordered, now or before."
"""Description of the answer to an order that can be repeated."""


class HttpEndpoint(Struct, frozen=True):
    """Declaration of an HTTP method and path, used as a decorator of its handler; a handler can have several."""

    route: str
    """Method and pattern, such as `GET /topics/{topic}`; `Target.args` has the path's arguments in their order."""
    found: Any = None
    """Type of the answer's value, a tuple of types, or a schema; with None the answer has no body."""
    query: Sequence[str | Json] = ("timeout",)
    """Parameters of the query and headers: the name of one that `openapi.operation` declares, or its declaration.

    Other query parameters are refused: a misspelt `dry_run` must not change anything."""
    body: Any = None
    """Type of the request's body, in a union with None if the body is optional; or OpenAPI's request body object.

    With None a body is refused, because it would be ignored; GET accepts it."""
    text: str = ""
    """Description of the answer."""
    headers: Mapping[str, Json] = {}
    """Headers of the answer."""
    content_types: Sequence[str] = (JSON_TYPE,)
    streams: Mapping[str, Json] = {}
    """Schemas of other content types of the answer."""
    fails: Sequence[int] | None = None
    """Statuses of errors; None: those that follow from the method and the body."""
    error: Any = ErrorBody
    more: Mapping[int, tuple[str, Any]] = {}
    """Description and type of other answers, by status."""
    path: Mapping[str, Json] = {}
    """Schemas of path parameters, where they differ from the usual schema of a parameter with this name."""
    permissions: Sequence[EndpointPermission] = ()
    """Permissions that the caller needs; none for readiness, files of the console, and its session."""
    is_open: bool = False
    """Whether any parameter of the query is allowed."""
    has_head: bool = True
    """Whether a GET handler also answers HEAD; false for a GET that changes something, as a poll does.

    aiohttp omits the body of a `web.Response`; a handler that writes its answer in parts must omit it itself."""
    tag: str = ""
    """Group of the operation in the OpenAPI document; empty: that of the handler's class."""
    name: str = ""
    summary: str = ""

    def __call__(self, handler: Declared) -> Declared:
        """Add this endpoint to a handler, and return the handler."""
        first, *others = handler.__name__.split("_")
        name = self.name or first + "".join(map(str.capitalize, others))
        summary = self.summary or (handler.__doc__ or "").partition("\n")[0]
        assert summary, f"{self.route} has no summary"
        vars(handler).setdefault("endpoints", []).append(structs.replace(self, name=name, summary=summary))
        return handler

    @property
    def method(self) -> str:
        return self.route.partition(" ")[0]

    @property
    def pattern(self) -> str:
        return self.route.partition(" ")[2]

    @property
    def parameters(self) -> tuple[str, ...] | None:
        """Names of the allowed query parameters; None if all are allowed."""
        if self.is_open:
            return None
        declared = [{"name": each, "in": "query"} if isinstance(each, str) else each for each in self.query]
        return tuple(each["name"] for each in declared if each["in"] == "query")


def parameter(place: str, name: str, schema: Json, text: str, *, is_required: bool = False) -> Json:
    """Return an OpenAPI parameter in `path`, `query` or `header`."""
    return {"name": name, "in": place, "required": is_required, "schema": schema, "description": text}


def in_query(name: str, schema: Json, text: str, *, is_required: bool = False) -> Json:
    """Return an OpenAPI parameter of the query."""
    return parameter("query", name, schema, text, is_required=is_required)
