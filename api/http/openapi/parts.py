"""What the document is built of: schemas, parameters, answers. Pure functions from values to JSON values."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

INT64_MAX = (1 << 63) - 1
JSON_TYPE = "application/json"


def ref(name: str) -> Json:
    """A schema by name."""
    return {"$ref": f"#/components/schemas/{name}"}


def obj(properties: Mapping[str, Json], optional: Iterable[str] = (), text: str = "") -> Json:
    """An object with these members and no others; those that are not optional are always there."""
    left_out = set(optional)
    schema: Json = {
        "type": "object",
        "properties": dict(properties),
        "required": [name for name in properties if name not in left_out],
        "additionalProperties": False,
    }
    return schema | ({"description": text} if text else {})


def array(items: Json, least: int = 0) -> Json:
    return {"type": "array", "items": items} | ({"minItems": least} if least else {})


def nullable(schema: Json) -> Json:
    """The schema, or null."""
    if isinstance(schema.get("type"), str):
        return schema | {"type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def integer(low: int | None = 0, high: int | None = INT64_MAX, text: str = "") -> Json:
    schema: Json = {"type": "integer"}
    if low is not None:
        schema["minimum"] = low
    if high is not None:
        schema["maximum"] = high
    return schema | ({"description": text} if text else {})


def string(text: str = "", **more: Any) -> Json:
    return {"type": "string", **more} | ({"description": text} if text else {})


BOOLEAN: Json = {"type": "boolean"}
OFFSET = integer()
NODE = integer(0, (1 << 31) - 1)
ANY: Json = {}


def in_path(name: str, schema: Json, text: str) -> Json:
    return {"name": name, "in": "path", "required": True, "schema": schema, "description": text}


def in_query(name: str, schema: Json, text: str, *, is_required: bool = False) -> Json:
    return {"name": name, "in": "query", "required": is_required, "schema": schema, "description": text}


def in_header(name: str, schema: Json, text: str) -> Json:
    return {"name": name, "in": "header", "required": False, "schema": schema, "description": text}


def answer(
    text: str,
    schema: Json | None,
    content_types: Iterable[str] = (JSON_TYPE,),
    headers: Mapping[str, Json] | None = None,
) -> Json:
    """An answer; without a schema it has no body."""
    found: Json = {"description": text}
    if schema is not None:
        found["content"] = {content_type: {"schema": schema} for content_type in content_types}
    if headers:
        found["headers"] = {name: {"schema": schema} for name, schema in headers.items()}
    return found


_ERRORS = {
    400: "A parameter, name, setting or batch that cannot be used; an offset out of range; a body that ended early.",
    404: "No such topic, partition, setting, cluster, broker, group, member or logger.",
    406: "No content type in `Accept` is possible.",
    408: "The body did not arrive in time.",
    409: "It was changed meanwhile, is not of the version, generation or sequence expected, or its state forbids it.",
    413: "A record, line or body that is too large.",
    415: "The `Content-Type` or `Content-Encoding` is not possible here.",
    422: "The body is not what is expected, or stored records cannot be opened.",
    429: "A bounded queue is full, or the deadline passed before the append: slow down.",
    503: "Not now: no leader, too few replicas, the broker starts or stops. Nothing happened; ask again.",
    504: "The outcome is unknown.",
    507: "No space left; nothing was kept.",
}


def errors(*statuses: int, schema: str = "Error") -> Json:
    """Answers by status that all have the one error body."""
    return {str(status): answer(_ERRORS[status], ref(schema)) for status in statuses}


def operation(
    summary: str,
    tag: str,
    name: str,
    answers: Mapping[str, Json],
    parameters: Iterable[Json] = (),
    body: Json | None = None,
) -> Json:
    """One method of one path; `name` is unique."""
    found: Json = {"summary": summary, "tags": [tag], "operationId": name}
    listed = list(parameters)
    if listed:
        found["parameters"] = listed
    if body is not None:
        found["requestBody"] = {"required": True, "content": body}
    return found | {"responses": dict(answers)}


TIMEOUT = in_query(
    "timeout", integer(1, 600_000) | {"default": 10_000}, "Milliseconds after which the broker gives up waiting."
)
TOPIC = in_path("topic", string(minLength=1), "Name of the topic.")
PARTITION = in_path("partition", NODE, "Number of the partition, from 0.")
