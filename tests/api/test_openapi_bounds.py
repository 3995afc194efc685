"""Every value in a request has bounds in the OpenAPI document, and the broker checks the same bounds."""

import re

import orjson
import pytest

from raftlog.api.http.openapi.parts import INT64_MAX
from tests.api.described import (
    DOCUMENT,
    build_target,
    list_operations,
    list_paths,
    make_example,
    replace_at,
    resolve_schema,
    schema_type,
)
from tests.api.raw import build_request, fetch_answer
from tests.api.test_hostile_values import JSON, build_arguments, build_query, operations_under

PARTS = sorted({each.path.split("/")[1] for each in list_operations(DOCUMENT) if each.body})
REFUSED = {400, 413, 422}
SEMANTIC = {"acls", "feature_level", "member_id", "node_id", "remove", "replication_factor", "survivor", "upsert"}
"""Members whose values are judged by what they name, beyond their bounds."""
NAMED = "YWJj"
"""The text of examples: a topic of this name is there."""


def list_choices(schema):
    found = resolve_reference(schema)
    return [inner for each in found.get("anyOf", found.get("oneOf", [found])) for inner in [resolve_reference(each)]]


def resolve_reference(schema):
    while "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def list_value_schemas(schema, at=""):
    """Yield the path and schema of every value in a request."""
    for each in list_choices(schema):
        if "anyOf" in each or "oneOf" in each:
            yield from list_value_schemas(each, at)
            continue
        yield at, each
        for name, inner in each.get("properties", {}).items():
            yield from list_value_schemas(inner, f"{at}.{name}")
        if "items" in each:
            yield from list_value_schemas(each["items"], f"{at}[]")
        if isinstance(each.get("additionalProperties"), dict):
            yield from list_value_schemas(each["additionalProperties"], f"{at}.*")


def schema_types(schema):
    found = schema.get("type")
    return set(found if isinstance(found, list) else [found])


def missing_bound(schema):
    """Return the name of the bound that a schema lacks, or None."""
    if "enum" in schema or "const" in schema or schema.get("type") is None:
        return None
    if "integer" in schema_types(schema) and not {"minimum", "maximum"} <= schema.keys():
        return "minimum and maximum"
    if "string" in schema_types(schema) and not {"maxLength", "pattern", "format"} & schema.keys():
        return "maxLength, pattern or format"
    if "array" in schema_types(schema) and "maxItems" not in schema:
        return "maxItems"
    return None


BYTES_OF_A_RECORD = re.compile(r"\.records\[\]\.headers\[\](\.name)?$|\.records\[\]\.headers$")
"""Bounded by the bytes of the record alone."""


@pytest.mark.parametrize("name", [f"{each.method} {each.path}" for each in list_operations(DOCUMENT) if each.body])
def test_every_value_of_a_body_is_bounded(name):
    operation = next(each for each in list_operations(DOCUMENT) if f"{each.method} {each.path}" == name)
    unbounded = [
        (at, missing_bound(schema)) for at, schema in list_value_schemas(operation.body) if missing_bound(schema)
    ]
    assert [each for each in unbounded if not BYTES_OF_A_RECORD.search(each[0])] == []


def test_every_number_of_a_path_and_query_is_bounded():
    for operation in list_operations(DOCUMENT):
        for parameter in operation.parameters("path") + operation.parameters("query"):
            for schema in list_choices(parameter["schema"]):
                if "integer" in schema_types(schema):
                    assert {"minimum", "maximum"} <= schema.keys(), (operation.path, parameter["name"])


def schema_at(schema, at):
    """Return the schema of the value at a path of an example."""
    schema = resolve_schema(DOCUMENT, schema)
    for step in at:
        if isinstance(step, int):
            schema = schema["items"]
        else:
            schema = schema["properties"].get(step, {}) if "properties" in schema else {}
        schema = resolve_schema(DOCUMENT, schema)
    return schema


def values_outside(schema):
    """Yield values just beyond the bounds of a schema."""
    if "integer" in schema_types(schema):
        yield schema["minimum"] - 1
        if schema["maximum"] < INT64_MAX:
            yield schema["maximum"] + 1
    if schema_type(schema) == "string" and "enum" not in schema:
        if "maxLength" in schema:
            yield "a" * (schema["maxLength"] + 4 - schema["maxLength"] % 4)
        if schema.get("minLength"):
            yield ""
        if "pattern" in schema and not re.search(schema["pattern"], "\x00"):
            yield "\x00"
    if schema_type(schema) == "array" and "minItems" in schema:
        yield []


def values_inside(schema):
    """Yield values at the bounds of a schema."""
    if "integer" in schema_types(schema):
        yield from (schema["minimum"], schema["maximum"])
    if schema_type(schema) == "string" and "maxLength" in schema and "enum" not in schema:
        yield "a" * (schema["maxLength"] // 4 * 4 if "contentEncoding" in schema else schema["maxLength"])


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("values", [values_outside, values_inside])
async def test_the_broker_checks_the_bounds_of_the_document(api, part, values):
    for name in ("t", NAMED):
        await api.create_topic(name, partitions=2)
    assert (await api.post("/consumers/g", {"name": "i", "format": "json"}))[0] == 200
    place = {"topic": NAMED, "partition": 1}
    assert (await api.post("/consumers/g/instances/i/assignments", {"partitions": [place]}))[0] == 204
    wrong = []
    for name, operation in operations_under(part):
        if operation.body is None:
            continue
        whole = make_example(DOCUMENT, operation.body)
        if operation.path.endswith("/positions"):
            del whole["timestamps"]  # of the same partition as the offset
        if "validate_only" in whole:
            whole["validate_only"] = True
        # A coordinator confirms that it leads before it refuses; what is accepted may wait for the whole time.
        timeout_ms = 10_000 if values is values_outside else 50
        path = build_target(operation, build_arguments(operation), build_query(operation, timeout_ms))
        for at in list_paths(whole):
            for value in values(schema_at(operation.body, at)):
                body = orjson.dumps(replace_at(whole, at, value))
                answer = await fetch_answer(api.address, build_request(path, body, JSON, method=operation.method))
                is_refused = answer.status in REFUSED or (values is values_outside and answer.status == 404)
                is_growth = operation.method == "PATCH"  # judged by the present number of partitions
                is_judged = values is values_inside and (is_growth or not SEMANTIC.isdisjoint(at))
                if is_refused != (values is values_outside) and not is_judged:
                    wrong.append((name, at, str(value)[:40], answer.status, answer.body))
    assert wrong == []
