"""Every value in a request has its bounds in the OpenAPI document, and they are those that the broker checks."""

import re

import orjson
import pytest

from raftlog.api.http.openapi.parts import INT64_MAX
from tests.api.described import DOCUMENT, example, kind, operations, places, replaced, resolved, target
from tests.api.raw import answer_to, post
from tests.api.test_hostile_values import JSON, arguments, operations_of, query

PARTS = sorted({each.path.split("/")[1] for each in operations(DOCUMENT) if each.body})
REFUSED = {400, 413, 422}
SEMANTIC = {"feature_level", "member_id", "node_id", "remove", "replication_factor", "survivor", "upsert"}
"""Members whose values are judged by what they name, beyond their bounds."""
NAMED = "YWJj"
"""The text of examples: a topic of this name is there."""


def choices(schema):
    found = resolved_reference(schema)
    return [inner for each in found.get("anyOf", found.get("oneOf", [found])) for inner in [resolved_reference(each)]]


def resolved_reference(schema):
    while "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def leaves(schema, at=""):
    """Yield every schema of a value in a request, with the names that lead to it."""
    for each in choices(schema):
        if "anyOf" in each or "oneOf" in each:
            yield from leaves(each, at)
            continue
        yield at, each
        for name, inner in each.get("properties", {}).items():
            yield from leaves(inner, f"{at}.{name}")
        if "items" in each:
            yield from leaves(each["items"], f"{at}[]")
        if isinstance(each.get("additionalProperties"), dict):
            yield from leaves(each["additionalProperties"], f"{at}.*")


def types(schema):
    found = schema.get("type")
    return set(found if isinstance(found, list) else [found])


def lacks(schema):
    """Return the bound that a schema lacks, if any."""
    if "enum" in schema or "const" in schema or schema.get("type") is None:
        return None
    if "integer" in types(schema) and not {"minimum", "maximum"} <= schema.keys():
        return "minimum and maximum"
    if "string" in types(schema) and not {"maxLength", "pattern", "format"} & schema.keys():
        return "maxLength, pattern or format"
    if "array" in types(schema) and "maxItems" not in schema:
        return "maxItems"
    return None


BYTES_OF_A_RECORD = re.compile(r"\.records\[\]\.headers\[\](\.name)?$|\.records\[\]\.headers$")
"""Bounded by the bytes of the record alone."""


@pytest.mark.parametrize("name", [f"{each.method} {each.path}" for each in operations(DOCUMENT) if each.body])
def test_every_value_of_a_body_is_bounded(name):
    operation = next(each for each in operations(DOCUMENT) if f"{each.method} {each.path}" == name)
    unbounded = [(at, lacks(schema)) for at, schema in leaves(operation.body) if lacks(schema)]
    assert [each for each in unbounded if not BYTES_OF_A_RECORD.search(each[0])] == []


def test_every_number_of_a_path_and_query_is_bounded():
    for operation in operations(DOCUMENT):
        for parameter in operation.parameters("path") + operation.parameters("query"):
            for schema in choices(parameter["schema"]):
                if "integer" in types(schema):
                    assert {"minimum", "maximum"} <= schema.keys(), (operation.path, parameter["name"])


def schema_at(schema, at):
    """Return the schema of the value at a path of an example."""
    schema = resolved(DOCUMENT, schema)
    for step in at:
        if isinstance(step, int):
            schema = schema["items"]
        else:
            schema = schema["properties"].get(step, {}) if "properties" in schema else {}
        schema = resolved(DOCUMENT, schema)
    return schema


def outside(schema):
    """Yield values just beyond the bounds of a schema."""
    if "integer" in types(schema):
        yield schema["minimum"] - 1
        if schema["maximum"] < INT64_MAX:
            yield schema["maximum"] + 1
    if kind(schema) == "string" and "enum" not in schema:
        if "maxLength" in schema:
            yield "a" * (schema["maxLength"] + 4 - schema["maxLength"] % 4)
        if schema.get("minLength"):
            yield ""
        if "pattern" in schema and not re.search(schema["pattern"], "\x00"):
            yield "\x00"
    if kind(schema) == "array" and "minItems" in schema:
        yield []


def inside(schema):
    """Yield values at the bounds of a schema."""
    if "integer" in types(schema):
        yield from (schema["minimum"], schema["maximum"])
    if kind(schema) == "string" and "maxLength" in schema and "enum" not in schema:
        yield "a" * (schema["maxLength"] // 4 * 4 if "contentEncoding" in schema else schema["maxLength"])


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("values", [outside, inside])
async def test_bounds_of_bodies_are_those_of_the_code(api, part, values):
    for name in ("t", NAMED):
        await api.topic(name, partitions=2)
    assert (await api.post("/consumers/g", {"name": "i", "format": "json"}))[0] == 200
    place = {"topic": NAMED, "partition": 1}
    assert (await api.post("/consumers/g/instances/i/assignments", {"partitions": [place]}))[0] == 204
    wrong = []
    for name, operation in operations_of(part):
        if operation.body is None:
            continue
        whole = example(DOCUMENT, operation.body)
        if operation.path.endswith("/positions"):
            del whole["timestamps"]  # of the same partition as the offset
        if "validate_only" in whole:
            whole["validate_only"] = True
        # A coordinator confirms that it leads before it refuses; what is accepted may wait for the whole time.
        timeout_ms = 10_000 if values is outside else 50
        path = target(operation, arguments(operation), query(operation, timeout_ms))
        for at in places(whole):
            for value in values(schema_at(operation.body, at)):
                body = orjson.dumps(replaced(whole, at, value))
                answer = await answer_to(api.address, post(path, body, JSON, method=operation.method))
                is_refused = answer.status in REFUSED or (values is outside and answer.status == 404)
                is_growth = operation.method == "PATCH"  # judged by the present number of partitions
                is_judged = values is inside and (is_growth or not SEMANTIC.isdisjoint(at))
                if is_refused != (values is outside) and not is_judged:
                    wrong.append((name, at, str(value)[:40], answer.status, answer.body))
    assert wrong == []
