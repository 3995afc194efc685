"""An unknown field of a request's body is refused with the nearest valid name, in every object of every body."""

import orjson
import pytest

from tests.api.described import (
    DOCUMENT,
    ENDPOINTS,
    build_target,
    list_operations,
    list_paths,
    make_example,
    replace_at,
    resolve_schema,
)
from tests.api.raw import build_request, fetch_answer
from tests.api.test_hostile_values import JSON, build_arguments, build_query
from tests.api.test_openapi_bounds import list_value_schemas, schema_at

WITH_BODY = {f"{each.method} {each.path}": each for each in list_operations(DOCUMENT) if each.body}
WITHOUT_BODY = {
    f"{each.method} {each.path}": each
    for each in list_operations(DOCUMENT)
    if each.method != "GET" and "requestBody" not in each.described
}
TOPICS = "/v3/clusters/-/topics"
PLACE = {"topic": "t", "partition": 0}


@pytest.mark.parametrize("name", WITH_BODY)
def test_no_object_of_a_body_allows_unknown_members_in_the_document(name):
    objects = [(at, each) for at, each in list_value_schemas(WITH_BODY[name].body) if "properties" in each]
    assert [at for at, each in objects if each["additionalProperties"] is not False] == []


@pytest.mark.parametrize("name", WITH_BODY)
async def test_a_misspelt_field_is_refused_with_the_nearest_name(api, name):
    await api.create_topic()
    assert (await api.post("/consumers/g", {"name": "i", "format": "json"}))[0] == 200
    operation = WITH_BODY[name]
    whole = make_example(DOCUMENT, operation.body)
    path = build_target(operation, build_arguments(operation), build_query(operation))
    tried = 0
    for at in list_paths(whole):
        known = schema_at(operation.body, at).get("properties") if not at or at[-1] != "upsert" else None
        for field in known or ():
            value = whole
            for step in at:
                value = value[step]
            body = orjson.dumps(replace_at(whole, at, value | {f"{field}_x": 1}))
            answer = await fetch_answer(api.address, build_request(path, body, JSON, method=operation.method))
            assert answer.status in (400, 422), (at, field, answer)
            assert f"unknown field '{field}_x' (did you mean '" in answer.body["message"].replace("setting", "field")
            assert field in answer.body["message"]
            tried += 1
    assert tried >= len(resolve_schema(DOCUMENT, operation.body).get("properties", ()))


async def test_a_misspelt_number_of_partitions_does_not_create_a_topic(api):
    status, answer = await api.post(TOPICS, {"topic_name": "x", "partitions": 3})
    assert status == 400
    assert "unknown field 'partitions' (did you mean 'partitions_count'?)" in answer["message"]
    assert (await api.get("/topics"))[1] == []


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (TOPICS, {"topic_name": "n", "replicas_assignments": [], "validate_only": True}, 200),
        (TOPICS, {"topic_name": "n", "replicas_assignments": None}, 201),
        (f"{TOPICS}/t/configs:alter", {"data": [{"name": "retention.ms", "value": None, "operation": "DELETE"}]}, 204),
        (f"{TOPICS}/t/configs:alter", {"data": [{"name": "retention.ms", "value": "1"}], "validate_only": False}, 204),
        ("/topics/t", {"value_schema_id": None, "key_schema": None, "records": [{"value": 1}]}, 200),
        ("/consumers/g/instances/i/positions", {"offsets": [{**PLACE, "offset": 0, "metadata": "m"}]}, 204),
        ("/consumers/g/instances/i/positions", {"timestamps": [{**PLACE, "timestamp": 5, "metadata": None}]}, 204),
        ("/consumers/g/instances/i/offsets", {"offsets": [{**PLACE, "offset": 0, "metadata": "m"}]}, 200),
        ("/consumers/h", {"name": "j", "format": "json", "auto.commit.enable": "false", "fetch.min.bytes": "1"}, 200),
    ],
)
async def test_optional_fields_of_kafka_rest_clients_are_accepted(api, path, body, status):
    await api.create_topic()
    assert (await api.post("/topics/t", {"records": [{"value": 0}]}))[0] == 200
    assert (await api.post("/consumers/g", {"name": "i", "format": "json"}))[0] == 200
    assert (await api.post("/consumers/g/instances/i/assignments", {"partitions": [PLACE]}))[0] == 204
    assert (await api.post(path, body))[0] == status


async def test_validate_only_leaves_settings_unchanged(api):
    await api.create_topic()
    alter = f"{TOPICS}/t/configs:alter"
    before = (await api.get(f"{TOPICS}/t/configs/retention.ms"))[1]["value"]
    change = {"data": [{"name": "retention.ms", "value": "5"}], "validate_only": True}
    assert (await api.post(alter, change))[0] == 204
    assert (await api.get(f"{TOPICS}/t/configs/retention.ms"))[1]["value"] == before
    change["data"][0]["value"] = "never"
    assert (await api.post(alter, change))[0] == 400


@pytest.mark.parametrize("name", ["key_schema", "key_schema_id", "value_schema", "value_schema_id"])
async def test_records_with_a_schema_are_refused(api, name):
    await api.create_topic()
    status, answer = await api.post("/topics/t", {name: 1, "records": [{"value": 1}]})
    assert (status, f"'{name}' of the body must be null" in answer["message"]) == (400, True)
    assert (await api.get("/topics/t/partitions/0/offsets"))[1]["end_offset"] == 0


async def test_unknown_fields_of_large_bodies_and_with_long_names_are_refused(api):
    await api.create_topic()
    records = [{"value": "x" * 1000}] * 500
    status, answer = await api.post("/topics/t", {"records": records, "n" * 100_000: 1})
    assert (status, len(answer["message"]) < 300) == (400, True)
    status, answer = await api.post("/topics/t", {"records": records, "sequenc": 1})
    assert (status, "(did you mean 'sequence'?)" in answer["message"]) == (400, True)
    assert (await api.get("/topics/t/partitions/0/offsets"))[1]["end_offset"] == 0


@pytest.mark.parametrize("name", WITHOUT_BODY)
async def test_a_body_is_refused_where_it_would_be_ignored(api, name):
    await api.create_topic()
    operation = WITHOUT_BODY[name]
    path = build_target(operation, build_arguments(operation), build_query(operation))
    answer = await fetch_answer(api.address, build_request(path, b'{"target": 2}', JSON, method=operation.method))
    assert (answer.status, "takes no body" in answer.body["message"]) == (400, True)
    for empty in (b"", b"{}", b" null "):
        answer = await fetch_answer(api.address, build_request(path, empty, JSON, method=operation.method))
        assert answer.status != 400 or "takes no body" not in answer.body["message"]


async def test_a_refused_body_of_an_operation_names_the_query_parameters(api):
    await api.create_topic()
    status, answer = await api.post("/v1/partitions/kafka/t/0/transfer_leadership", {"target": 2})
    assert (status, answer["message"].endswith("the query can have target, timeout")) == (400, True)


async def test_only_pages_for_probes_and_scrapers_accept_any_parameter(api):
    """Probes and scrapers send parameters of their own; all other endpoints refuse unknown ones."""
    tolerant = {each.pattern for each in ENDPOINTS if each.parameters is None}
    assert tolerant == {
        "/",
        "/metrics",
        "/openapi.json",
        "/v1/cluster/health_overview",
        "/v1/cluster/uuid",
        "/v1/status/ready",
    }
    await api.create_topic()
    status, answer = await api.get("/topics/t/partitions/0/records?ofset=0")
    assert (status, answer["message"]) == (
        400,
        "the query has 'ofset'; it can have offset, timeout, min_bytes, max_bytes, timestamp, isolation, follow, "
        "heartbeat",
    )
    status, answer = await api.post("/topics/t?ack=1", {"records": [{"value": 1}]})
    assert (status, answer["message"].split(";")[0]) == (400, "the query has 'ack'")
    assert (await api.get("/topics/t/partitions/0/offsets"))[1]["end_offset"] == 0
