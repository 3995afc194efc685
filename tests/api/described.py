"""Requests made from the OpenAPI document: an example of each operation, and the same with one value replaced."""

from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from raftlog.api.http.openapi.document import build
from raftlog.api.http.server.app import HANDLERS

Json = dict[str, Any]
ENDPOINTS = [endpoint for handlers in HANDLERS for _, endpoint in handlers.endpoints()]
DOCUMENT = build("1", ENDPOINTS)


class Operation(NamedTuple):
    """One HTTP method of one path in the OpenAPI document."""

    method: str
    path: str
    described: Json

    def parameters(self, place: str) -> list[Json]:
        """Return the parameters in `path`, `query` or `header`."""
        return [each for each in self.described.get("parameters", ()) if each["in"] == place]

    @property
    def body(self) -> Json | None:
        """Schema of the JSON body; None for an operation without one."""
        content = self.described.get("requestBody", {}).get("content", {})
        found: Json | None = content.get("application/json", {}).get("schema")
        return found


def list_operations(document: Json) -> Iterator[Operation]:
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            yield Operation(method.upper(), path, described)


def build_target(operation: Operation, arguments: dict[str, str], query: dict[str, Any]) -> str:
    """Return path and query; `arguments` are the path's parameters, which are quoted here."""
    path = operation.path
    for name, value in arguments.items():
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    return path + (f"?{urlencode(query)}" if query else "")


def resolve_schema(document: Json, schema: Json) -> Json:
    """Follow references and take the first choice that is not null until a plain schema is left."""
    while True:
        if "$ref" in schema:
            schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        elif "anyOf" in schema or "oneOf" in schema:
            choices = schema.get("anyOf") or schema["oneOf"]
            schema = next(each for each in choices if each.get("type") != "null")
        else:
            return schema


def schema_type(schema: Json) -> str | None:
    """Return the schema's type that is not null; None if the schema allows any type."""
    found = schema.get("type")
    if isinstance(found, list):
        return next(each for each in found if each != "null")
    return found


def make_example(document: Json, schema: Json, *, with_optional: bool = True) -> Any:
    """Return a valid value for a schema."""
    schema = resolve_schema(document, schema)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    match schema_type(schema):
        case "object" if "properties" not in schema:
            return schema.get("examples", [{}])[0]
        case "object":
            names = schema["properties"] if with_optional else schema.get("required", ())
            return {name: make_example(document, schema["properties"][name]) for name in names}
        case "array":
            return [make_example(document, schema["items"])] * max(1, schema.get("minItems", 0))
        case "integer" | "number":
            return schema.get("default", max(1, schema.get("minimum", 1)))
        case "null":
            return None
        case "boolean":
            return False
        case "string":
            return make_text(schema)
    return "any"


def make_text(schema: Json) -> str:
    """Return a string in the format that a schema requires."""
    if "examples" in schema:
        return str(schema["examples"][0])
    if "pattern" in schema and "base64" not in str(schema.get("contentEncoding")):
        return "1"
    return {"date-time": "2024-05-01T12:00:00Z"}.get(schema.get("format", ""), "YWJj")


def list_paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all values in a JSON value, beginning with the empty path of the value itself."""
    yield at
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from list_paths(inner, (*at, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from list_paths(inner, (*at, number))


def replace_at(value: Any, at: tuple[Any, ...], by: Any) -> Any:
    """Return a copy of the value with the part at the path replaced."""
    if not at:
        return by
    first, *rest = at
    if isinstance(value, dict):
        return value | {first: replace_at(value[first], tuple(rest), by)}
    return [*value[:first], replace_at(value[first], tuple(rest), by), *value[first + 1 :]]
