"""Schemas of single values. Pure functions from values to JSON values."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

INT64_MAX = (1 << 63) - 1


def ref(name: str) -> Json:
    """Return a JSON reference to the schema component of this name."""
    return {"$ref": f"#/components/schemas/{name}"}


def obj(properties: Mapping[str, Json], optional: Iterable[str] = (), text: str = "") -> Json:
    """Return the JSON schema of an object with only these properties; all but the `optional` ones are required."""
    left_out = set(optional)
    schema: Json = {
        "type": "object",
        "properties": dict(properties),
        "required": [name for name in properties if name not in left_out],
        "additionalProperties": False,
    }
    return schema | ({"description": text} if text else {})


def array(items: Json, least: int = 0) -> Json:
    """Return the schema of an array with at least `least` items."""
    return {"type": "array", "items": items} | ({"minItems": least} if least else {})


def nullable(schema: Json) -> Json:
    """Return a schema that also allows null."""
    if isinstance(schema.get("type"), str):
        return schema | {"type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def integer(low: int | None = 0, high: int | None = INT64_MAX, text: str = "") -> Json:
    """Return the schema of an integer with bounds; None: no bound."""
    schema: Json = {"type": "integer"}
    if low is not None:
        schema["minimum"] = low
    if high is not None:
        schema["maximum"] = high
    return schema | ({"description": text} if text else {})


def string(text: str = "", **more: Any) -> Json:
    """Return the schema of a string; `more`: further keywords of JSON Schema."""
    return {"type": "string", **more} | ({"description": text} if text else {})


BOOLEAN: Json = {"type": "boolean"}
OFFSET = integer()
NODE = integer(0, (1 << 31) - 1)
ANY: Json = {}
