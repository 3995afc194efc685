"""Requests made from the OpenAPI document: an example of each operation, and each of its places with another value."""

from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from raftlog.api.http.openapi.document import build
from raftlog.api.http.server.app import HANDLERS

Json = dict[str, Any]
ENDPOINTS = [endpoint for handlers in HANDLERS for _, endpoint in handlers.endpoints()]
DOCUMENT = build("1", ENDPOINTS)


class Operation(NamedTuple):
    """One method of one path."""

    method: str
    path: str
    described: Json

    def parameters(self, place: str) -> list[Json]:
        """Return the parameters in `path`, `query` or `header`."""
        return [each for each in self.described.get("parameters", ()) if each["in"] == place]

    @property
    def body(self) -> Json | None:
        """The schema of a JSON body, where there is one."""
        content = self.described.get("requestBody", {}).get("content", {})
        found: Json | None = content.get("application/json", {}).get("schema")
        return found


def operations(document: Json) -> Iterator[Operation]:
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            yield Operation(method.upper(), path, described)


def target(operation: Operation, arguments: dict[str, str], query: dict[str, Any]) -> str:
    """Return path and query; `arguments` are those of the path, quoted here."""
    path = operation.path
    for name, value in arguments.items():
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    return path + (f"?{urlencode(query)}" if query else "")


def resolved(document: Json, schema: Json) -> Json:
    """Resolve references and choices on top of a schema: the first choice that is not null."""
    while True:
        if "$ref" in schema:
            schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        elif "anyOf" in schema or "oneOf" in schema:
            choices = schema.get("anyOf") or schema["oneOf"]
            schema = next(each for each in choices if each.get("type") != "null")
        else:
            return schema


def kind(schema: Json) -> str | None:
    """Return the schema's type that is not null; None where any value will do."""
    found = schema.get("type")
    if isinstance(found, list):
        return next(each for each in found if each != "null")
    return found


def example(document: Json, schema: Json, *, with_optional: bool = True) -> Any:
    """Return a valid value."""
    schema = resolved(document, schema)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    match kind(schema):
        case "object" if "properties" not in schema:
            return schema.get("examples", [{}])[0]
        case "object":
            names = schema["properties"] if with_optional else schema.get("required", ())
            return {name: example(document, schema["properties"][name]) for name in names}
        case "array":
            return [example(document, schema["items"])] * max(1, schema.get("minItems", 0))
        case "integer" | "number":
            return schema.get("default", max(1, schema.get("minimum", 1)))
        case "null":
            return None
        case "boolean":
            return False
        case "string":
            return text(schema)
    return "any"


def text(schema: Json) -> str:
    """Return a string of the format that a schema demands."""
    if "examples" in schema:
        return str(schema["examples"][0])
    if "pattern" in schema and "base64" not in str(schema.get("contentEncoding")):
        return "1"
    return {"date-time": "2024-05-01T12:00:00Z"}.get(schema.get("format", ""), "YWJj")


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all values in a JSON value, its own first."""
    yield at
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from places(inner, (*at, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from places(inner, (*at, number))


def replaced(value: Any, at: tuple[Any, ...], by: Any) -> Any:
    """Return the value with the one at a path replaced."""
    if not at:
        return by
    first, *rest = at
    if isinstance(value, dict):
        return value | {first: replaced(value[first], tuple(rest), by)}
    return [*value[:first], replaced(value[first], tuple(rest), by), *value[first + 1 :]]
