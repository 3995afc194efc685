"""Router from paths to handlers: a tree of path segments, and a cache of recent request targets.

It replaces aiohttp's router because most requests name one of a few paths: one dictionary lookup finds handler,
arguments and parsed query at once. A pattern's segment in braces matches any one segment."""

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar
from urllib.parse import parse_qsl, unquote

from aiohttp import web

from raftlog.api.codes import BAD_REQUEST, METHOD_NOT_ALLOWED, NOT_FOUND
from raftlog.api.http.server.endpoint import HttpEndpoint
from raftlog.api.http.server.permissions import RoutePermission, route_permissions
from raftlog.api.http.server.problems import HttpProblem
from raftlog.api.http.server.repeated_requests import RepeatedHandler
from raftlog.partitions.deadline import Deadline, deadline_in

D = TypeVar("D", str, None)
Handler: TypeAlias = Callable[["web.BaseRequest", "Target"], Coroutine[Any, Any, web.StreamResponse]]

RepeatedHandlerFactory: TypeAlias = Callable[["web.BaseRequest", "Target"], RepeatedHandler | None]

TIMEOUT_MS_DEFAULT = 10_000
TIMEOUT_MS_MAX = 600_000
_CACHED_TARGETS_MAX = 1024
_CACHED_PATH_LENGTH_MAX = 256
_ANY = "{}"


class Route(NamedTuple):
    """Route of one method of a path to its handler."""

    handler: Handler
    takes_body: bool
    """Whether the handler reads the body of a request."""
    parameters: Sequence[str] | None
    """Allowed parameters of the query; None when all are."""
    kind: str
    """Class of its requests in the metrics."""
    permissions: Sequence[RoutePermission]
    """Permissions that are checked before the handler is called."""
    find_repeated_handler: "RepeatedHandlerFactory | None"
    """Returns the handler of requests that repeat the head of an accepted one; None when they are parsed again."""


class Target:
    """Parsed target of a request line; requests with the same target share it through the router's cache.

    `options` has the options that the handler parsed from the query, None before the first request."""

    __slots__ = ("args", "options", "query", "routes")

    def __init__(self, routes: Mapping[str, Route], args: tuple[str, ...], query: Mapping[str, str]) -> None:
        """Create the target of a path: its routes by method, and `args`, the values of the path's parameters."""
        self.routes = routes
        """Routes by method."""
        self.args = args
        self.query = query
        self.options: Any = None

    def route(self, method: str) -> Route:
        """Return the route of a method.

        Raises `HttpProblem`: 405 with the allowed methods, 400 for an unknown parameter."""
        found = self.routes.get(method)
        if found is None:
            allowed = ", ".join(sorted(self.routes))
            raise HttpProblem(
                METHOD_NOT_ALLOWED, f"method {method} is not possible here; it can be {allowed}", {"Allow": allowed}
            )
        if self.query and found.parameters is not None:
            _refuse_other_parameters(self.query, found.parameters)
        return found

    def timeout_ms(self) -> int:
        """Return `?timeout=` in milliseconds. Raises `HttpProblem` 400."""
        return query_int(self, "timeout", TIMEOUT_MS_DEFAULT, 1, TIMEOUT_MS_MAX)

    def deadline(self) -> Deadline:
        """Return the deadline that `?timeout=` sets. Raises `HttpProblem` 400."""
        return deadline_in(self.timeout_ms())


class _Node:
    """Node of the tree of path segments."""

    __slots__ = ("children", "routes")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.routes: dict[str, Route] = {}


class HttpRouter:
    """Router of HTTP requests; routes are added before the first `find`."""

    def __init__(self) -> None:
        self._root = _Node()
        self._cache: dict[str, Target] = {}
        self.endpoints: list[HttpEndpoint] = []
        """Endpoints, in the order in which they were added."""

    def add(
        self,
        endpoint: HttpEndpoint,
        handler: Handler,
        kind: str,
        find_repeated_handler: RepeatedHandlerFactory | None = None,
    ) -> None:
        """Add a route; `kind` is the class of its requests in the metrics."""
        node = self._root
        for segment in endpoint.pattern.strip("/").split("/"):
            name = _ANY if segment.startswith("{") else segment
            node = node.children.setdefault(name, _Node())
        method, is_get = endpoint.method, endpoint.method == "GET"
        assert method not in node.routes, f"{endpoint.route} is there twice"
        methods = ("GET", "HEAD") if is_get and endpoint.has_head else (method,)
        permissions = route_permissions(endpoint.permissions, endpoint.pattern)
        takes_body = is_get or endpoint.body is not None
        route = Route(handler, takes_body, endpoint.parameters, kind, permissions, find_repeated_handler)
        node.routes.update(dict.fromkeys(methods, route))
        self.endpoints.append(endpoint)

    def find(self, raw_path: str) -> Target:
        """Return the parsed target of a request line, with its routes.

        Raises `HttpProblem`: 404 for an unknown path, 400 for an ambiguous query."""
        target = self._cache.get(raw_path)
        if target is None:
            target = self._resolve(raw_path)
            if len(raw_path) <= _CACHED_PATH_LENGTH_MAX:
                if len(self._cache) >= _CACHED_TARGETS_MAX:
                    self._cache.clear()
                self._cache[raw_path] = target
        return target

    def _resolve(self, raw_path: str) -> Target:
        """Find the node of a path; parse the arguments in the path, and the query. Raises `HttpProblem`."""
        path, _, query = _split_target(raw_path).partition("?")
        node = self._root
        args: list[str] = []
        for raw_segment in path.strip("/").split("/"):
            segment = unquote(raw_segment)
            child = node.children.get(segment) if segment != _ANY else None
            if child is None:
                child = node.children.get(_ANY)
                args.append(segment)
            if child is None:
                raise _not_found_error(path)
            node = child
        if not node.routes:
            raise _not_found_error(path)
        return Target(node.routes, tuple(args), _parse_query(query))


def _split_target(target: str) -> str:
    """Return the path and the query of a request target in origin form or absolute form.

    Raises `HttpProblem` 400 for others: there are no tunnels (CONNECT), and no options of the server as a whole
    (`*`)."""
    if not target.startswith("/"):
        scheme, separator, rest = target.partition("://")
        authority, slash, path = rest.partition("/")
        if not separator or scheme.lower() not in ("http", "https") or "?" in authority:
            raise HttpProblem(BAD_REQUEST, f"the request target {target[:80]!a} is not a path such as /topics")
        target = slash + path
    try:
        target.encode()
    except UnicodeEncodeError:
        raise HttpProblem(BAD_REQUEST, "the request target is not UTF-8; write other bytes as %XX") from None
    return target.partition("#")[0]


def _not_found_error(path: str) -> HttpProblem:
    """Return the error for a path without an endpoint."""
    return HttpProblem(NOT_FOUND, f"there is nothing at {path}")


def _refuse_other_parameters(query: Mapping[str, str], names: Sequence[str]) -> None:
    """Raise `HttpProblem` if the query has a parameter that is not in `names`."""
    unknown = next((name for name in query if name not in names), None)
    if unknown is not None:
        there_are = f"it can have {', '.join(names)}" if names else "it has no parameters here"
        raise HttpProblem(BAD_REQUEST, f"the query has {unknown!r}; {there_are}")


def _parse_query(text: str) -> dict[str, str]:
    """Return the query parameters by name. Raises `HttpProblem` for one with two different values."""
    query: dict[str, str] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        if query.setdefault(name, value) != value:  # ?dry_run=true&dry_run=false
            raise HttpProblem(BAD_REQUEST, f"the query parameter {name!r} is {query[name]!r} and {value!r}; give one")
    return query


def query_int(target: Target, name: str, default: int | None, low: int, high: int) -> int:
    """Return a whole number from the query; it is required if `default` is None. Raises `HttpProblem` 400."""
    text = target.query.get(name)
    if text is None:
        if default is None:
            raise HttpProblem(BAD_REQUEST, f"the query parameter {name!r} is missing")
        return default
    return parse_integer(text, f"the query parameter {name!r}", low, high)


def query_choice(target: Target, name: str, choices: Collection[str], default: D) -> str | D:
    """Return a query parameter that is one of `choices`, or the default without one. Raises `HttpProblem` 400."""
    text = target.query.get(name)
    if text is None:
        return default
    if text not in choices:
        raise HttpProblem(BAD_REQUEST, f"the query parameter {name!r} is {text!a:.60}; it can be {', '.join(choices)}")
    return text


def flag(target: Target, name: str, *, default: bool = False) -> bool:
    """Return a boolean query parameter. Raises `HttpProblem` 400."""
    text = target.query.get(name, "true" if default else "false")
    if text not in ("true", "false"):
        raise HttpProblem(BAD_REQUEST, f"the query parameter {name!r} is {text!r}; it can be true or false")
    return text == "true"


def parse_integer(text: str, label: str, low: int, high: int) -> int:
    """Parse the whole number that errors call `label`; raises `HttpProblem` 400 with the allowed range."""
    digits = text[1:] if text.startswith("-") else text
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20 and low <= int(text) <= high):
        raise HttpProblem(BAD_REQUEST, f"{label} is {text!r}; it must be a whole number in {low} … {high}")
    return int(text)


def partition_number(text: str) -> int:
    """Parse the partition number of a path; raises `HttpProblem` 400."""
    return parse_integer(text, "the partition", 0, (1 << 31) - 1)
