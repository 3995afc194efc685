"""HEAD answers like GET without the body, on every documented path except the one whose GET is not safe."""

import aiohttp

from tests.api.described import DOCUMENT, build_target, list_operations
from tests.api.raw import fetch_answer, request_head
from tests.api.test_hostile_values import build_arguments, build_query

POLL = "/consumers/{group}/instances/{instance}/records"
PATHS = {each.path: each for each in list_operations(DOCUMENT) if each.method == "GET"}


async def test_head_returns_the_status_and_content_type_of_get_without_a_body(api):
    await api.create_topic()
    assert (await api.post("/topics/t", {"records": [{"value": 1}]}))[0] == 200
    assert (await api.post("/consumers/g", {"name": "i", "format": "json"}))[0] == 200
    more = ("Host: 127.0.0.1", "Connection: close")
    for path in PATHS.keys() - {POLL}:
        where = build_target(PATHS[path], build_arguments(PATHS[path]), build_query(PATHS[path]))
        got = await fetch_answer(api.address, request_head("GET", where, *more))
        asked = await fetch_answer(api.address, request_head("HEAD", where, *more))
        assert (asked.status, asked.body) == (got.status, b""), path
        assert asked.headers.get("content-type") == got.headers.get("content-type"), path
        assert ("content-length" in asked.headers) == ("content-length" in got.headers), path


async def test_probes_and_scrapes_accept_head(api):
    for path in ("/v1/status/ready", "/metrics"):
        async with api.session.head(api.url + path) as answer:
            assert (answer.status, int(answer.headers["Content-Length"]) > 0) == (200, True)


async def test_head_of_a_large_answer_and_of_an_endless_stream_ends_at_once(api):
    await api.create_topic()
    assert (await api.post("/topics/t", {"records": [{"value": "x" * 1000}] * 300}))[0] == 200
    records = api.url + "/topics/t/partitions/0/records?offset=0"
    async with api.session.get(records) as got, api.session.head(records) as asked:
        assert len(await got.read()) > 300_000
        assert asked.headers["Content-Length"] == got.headers["Content-Length"]
        assert asked.headers["X-Raftlog-Next-Offset"] == "300"
    lines = {"Accept": "application/x-ndjson"}
    timeout = aiohttp.ClientTimeout(total=20)
    async with api.session.head(records + "&follow=true", headers=lines, timeout=timeout) as asked:
        assert (asked.status, asked.headers["Content-Type"]) == (200, "application/x-ndjson")
    assert (await api.get("/topics"))[0] == 200  # over a connection that is sound


async def test_head_consumes_no_records(api):
    await api.create_topic()
    assert (await api.post("/topics/t", {"records": [{"value": 1}]}))[0] == 200
    settings = {"name": "i", "format": "json", "auto.offset.reset": "earliest"}
    assert (await api.post("/consumers/g", settings))[0] == 200
    place = {"topic": "t", "partition": 0}
    assert (await api.post("/consumers/g/instances/i/assignments", {"partitions": [place]}))[0] == 204
    poll = "/consumers/g/instances/i/records"
    json = {"Accept": "application/vnd.kafka.json.v2+json"}
    async with api.session.head(api.url + poll, headers=json) as asked:
        assert (asked.status, asked.headers["Allow"]) == (405, "GET")
    assert [record["value"] for record in (await api.get(poll, headers=json))[1]] == [1]
