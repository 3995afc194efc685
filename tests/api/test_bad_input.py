"""Every bad request returns a clear error and changes nothing, and the broker continues to serve."""

import asyncio
import struct

import pytest
from crc32c import crc32c

from raftlog.records import build_batch
from tests.waiting import until

BATCHES = {"Content-Type": "application/vnd.raftlog.batches"}
GOOD = {"records": [{"value": 1}]}


async def fetch_end_offset(api, topic="t"):
    return (await api.get(f"/topics/{topic}/partitions/0/offsets"))[1]["end_offset"]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, 404),
        ("GET", "/topics/t/partitions/0/records/more", 404, 404),
        ("PUT", "/topics/t", 405, 405),
        ("DELETE", "/topics", 405, 405),
        ("GET", "/topics/x", 404, 40401),
        ("POST", "/topics/x", 404, 40401),
        ("GET", "/topics/x/partitions", 404, 40401),
        ("GET", "/topics/t/partitions/7", 404, 40402),
        ("POST", "/topics/t/partitions/7", 404, 40402),
        ("GET", "/topics/t/partitions/7/offsets", 404, 40402),
        ("GET", "/topics/t/partitions/7/records?offset=0", 404, 40402),
        ("GET", "/topics/t/partitions/-1/offsets", 400, 40002),
        ("GET", "/topics/t/partitions/one/offsets", 400, 40002),
        ("GET", "/topics/t/partitions/0/records", 400, 40002),
        ("GET", "/topics/t/partitions/0/records?offset=-1", 400, 40002),
        ("GET", "/topics/t/partitions/0/records?offset=1e3", 400, 40002),
        ("GET", "/topics/t/partitions/0/records?offset=0&max_bytes=0", 400, 40002),
        ("GET", "/topics/t/partitions/0/records?offset=0&timeout=soon", 400, 40002),
        ("GET", "/topics/t/partitions/0/records?offset=1", 400, 40002),
        ("GET", "/topics/t/partitions/0/offsets?timestamp=now", 400, 40002),
        ("POST", "/topics/t?timeout=0", 400, 40002),
        ("POST", "/topics/t?acks=2", 400, 40002),
        ("GET", "/v3/clusters/other/topics", 404, 404),
        ("GET", "/v3/clusters/-/topics/x", 404, 40403),
        ("DELETE", "/v3/clusters/-/topics/x", 404, 40403),
        ("GET", "/v3/clusters/-/topics/t/partitions/9", 404, 40403),
        ("GET", "/v3/clusters/-/topics/t/configs/no.such", 404, 404),
    ],
)
async def test_missing_and_invalid_targets_are_refused(api, method, path, status, code):
    await api.create_topic()
    found_status, body = await api.call(method, path, GOOD if method == "POST" else None)
    assert (found_status, body["error_code"], body["outcome"]) == (status, code, "failed")
    assert body["message"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b'{"records": 5}',
        b'{"records": [5]}',
        b'{"records": [null]}',
        b'{"records": []}',
        b'{"records": [{"value": NaN}]}',
        b'{"records": [{"value": 1, "partition": "0"}]}',
        b'{"value": 1}',
        b'{"records": [{"value": 1, "timestmp": 5}]}',
        b'{"records": [{"value": 1, "timestamp": -5}]}',
        b'{"records": [{"value": 1, "timestamp": "2024-05-01T12:00:00"}]}',
        b'{"records": [{"value": 1, "timestamp": "x"}]}',
        b'{"records": [{"value": 1, "headers": {"a": 1}}]}',
        b'{"records": [{"value": 1, "headers": [{"value": null}]}]}',
        b'{"records": [{"value": 1, "headers": [{"name": "n", "value": "!"}]}]}',
        b'{"records": [{"value": 1}, 7]}',
    ],
)
async def test_bodies_without_valid_records_are_refused(api, body):
    await api.create_topic()
    status, answer = await api.post("/topics/t", data=body, headers={"Content-Type": "application/json"})
    assert (status, answer["outcome"]) == (422, "failed")
    assert await fetch_end_offset(api) == 0


@pytest.mark.parametrize("value", ["5", '"not base64!"', '"YQ"', "{}"])
async def test_values_that_are_not_base64_are_refused(api, value):
    await api.create_topic()
    headers = {"Content-Type": "application/vnd.kafka.binary.v2+json"}
    status, body = await api.post("/topics/t", data=f'{{"records": [{{"value": {value}}}]}}', headers=headers)
    assert status == 422
    assert "base64" in body["message"]


@pytest.mark.parametrize("content_type", ["text/plain", "application/vnd.kafka.avro.v2+json", "application/xml", ""])
async def test_unknown_content_types_are_refused(api, content_type):
    await api.create_topic()
    headers = {"Content-Type": content_type}
    status, body = await api.post("/topics/t", data=b'{"records": [{"value": 1}]}', headers=headers)
    assert (status, body["error_code"]) == (415, 415)
    assert "application/vnd.raftlog.batches" in body["message"]


async def test_stored_batches_need_a_partition(api):
    await api.create_topic()
    status, body = await api.post("/topics/t", data=bytes(build_batch([b"x"])), headers=BATCHES)
    assert (status, body["error_code"]) == (415, 415)
    assert "/topics/t/partitions/" in body["message"]


async def test_a_record_may_not_name_another_partition_than_the_path(api):
    await api.create_topic(partitions=2)
    status, body = await api.post("/topics/t/partitions/0", {"records": [{"value": 1, "partition": 1}]})
    assert (status, body["error_code"]) == (400, 40002)


@pytest.mark.parametrize("accept", ["text/html", "application/vnd.kafka.avro.v2+json", "application/json;q=0"])
async def test_unsupported_answer_formats_are_refused(api, accept):
    await api.create_topic()
    status, body = await api.get("/topics/t/partitions/0/records?offset=0", headers={"Accept": accept})
    assert (status, body["error_code"]) == (406, 40601)


async def test_the_best_accepted_format_is_returned(api):
    await api.create_topic()
    accept = "text/html, application/json;q=0.5, application/vnd.kafka.binary.v2+json"
    headers = {"Accept": accept}
    url = api.url + "/topics/t/partitions/0/records?offset=0&timeout=0"
    async with api.session.get(url, headers=headers) as response:
        assert response.headers["Content-Type"] == "application/vnd.kafka.binary.v2+json"


async def test_an_offset_out_of_range_names_the_bounds(api):
    await api.create_topic()
    await api.post("/topics/t", GOOD)
    status, body = await api.get("/topics/t/partitions/0/records?offset=2")
    assert (status, body["beginning_offset"], body["end_offset"]) == (400, 0, 1)


def damaged_batch(change):
    batch = build_batch([b"one", b"two"], now_ms=1)
    change(batch)
    return bytes(batch)


def batch_with_crc(change):
    """Return a damaged batch with a correct CRC."""

    def change_and_update_crc(batch):
        change(batch)
        struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))

    return damaged_batch(change_and_update_crc)


def overwrite(layout, position, value):
    return lambda batch: struct.pack_into(layout, batch, position, value)


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"", "no batch"),
        (b"x" * 40, "too few"),
        (damaged_batch(overwrite(">I", 17, 1)), "CRC"),
        (damaged_batch(overwrite(">B", 70, 0xFF)), "CRC"),
        (damaged_batch(overwrite(">i", 8, 1 << 20)), "batchLength"),
        (damaged_batch(overwrite(">i", 8, 3)), "batchLength"),
        (damaged_batch(overwrite(">b", 16, 1)), "magic"),
        (damaged_batch(lambda batch: batch.pop()), "batchLength"),
        (batch_with_crc(overwrite(">i", 57, 5)), "recordCount"),
        (batch_with_crc(overwrite(">i", 23, 7)), "recordCount"),
        (batch_with_crc(overwrite(">h", 21, 0x20)), "attributes"),
        (bytes(build_batch([b"good"], now_ms=1)) + b"tail", "too few"),
    ],
    ids=lambda value: value if type(value) is str else "body",
)
async def test_inconsistent_batches_are_refused(api, body, word):
    await api.create_topic()
    status, answer = await api.post("/topics/t/partitions/0", data=body, headers=BATCHES)
    assert (status, answer["error_code"], answer["outcome"]) == (400, 40002, "failed")
    assert word in answer["message"]
    assert await fetch_end_offset(api) == 0


async def test_records_and_batches_over_the_topics_limit_are_refused(api):
    await api.create_topic(max_message_bytes="2000")
    status, body = await api.post("/topics/t", {"records": [{"value": "x" * 3000}]})
    assert (status, body["error_code"]) == (413, 413)
    assert "max.message.bytes=2000" in body["message"]
    batch = bytes(build_batch([b"x" * 3000]))
    status, body = await api.post("/topics/t/partitions/0", data=batch, headers=BATCHES)
    assert (status, body["error_code"]) == (413, 413)
    status, body = await api.post("/topics/t", {"records": [{"value": 1}, {"value": "x" * 3000}]})
    assert (status, body["offsets"][1]["error_code"]) == (200, 413)


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_bodies_over_the_limit_are_refused(start_api, is_chunked):
    api = await start_api(body_bytes_max=100_000)
    await api.create_topic()

    async def parts():
        for _ in range(30):
            yield b"x" * 10_000

    data = parts() if is_chunked else b"x" * 300_000
    status, body = await api.post("/topics/t", data=data, headers={"Content-Type": "application/json"})
    assert (status, body["error_code"]) == (413, 413)
    assert await fetch_end_offset(api) == 0
    assert (await api.post("/topics/t", GOOD))[0] == 200


async def exchange(api, request, *, is_cut=False):
    """Send raw bytes; return the data received until the server closes, or nothing if the client aborts (`is_cut`)."""
    reader, writer = await asyncio.open_connection(*api.address)
    writer.write(request)
    await writer.drain()
    if is_cut:
        writer.transport.abort()
        return b""
    answer = await reader.read()
    writer.close()
    return answer


def request_head(length, extra="", path="/topics/t/partitions/0", kind="application/vnd.raftlog.batches"):
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n{length}{extra}Connection: close\r\n\r\n"
    ).encode()


async def test_a_truncated_body_appends_nothing(api):
    await api.create_topic()
    batch = bytes(build_batch([b"x" * 1000] * 100))
    started = api.server._connections.requests_count
    await exchange(api, request_head(f"Content-Length: {2 * len(batch)}\r\n") + batch, is_cut=True)
    connections = api.server._connections
    await until(lambda: connections.requests_count > started and not connections.connections)
    assert await fetch_end_offset(api) == 0
    assert (await api.post("/topics/t", GOOD))[0] == 200


async def test_a_broken_chunked_body_appends_nothing(api):
    await api.create_topic()
    batch = bytes(build_batch([b"x"]))
    body = b"%x\r\n%b\r\nzzz\r\n" % (len(batch), batch)
    answer = await exchange(api, request_head("Transfer-Encoding: chunked\r\n") + body)
    assert b" 400 " in answer.split(b"\r\n")[0]
    assert await fetch_end_offset(api) == 0


async def test_a_body_that_does_not_arrive_in_time_is_refused(start_api):
    api = await start_api(body_timeout_ms=50)
    await api.create_topic()
    answer = await exchange(api, request_head("Content-Length: 1000\r\n") + b"x")
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"outcome":"failed"' in answer


async def test_a_client_that_expects_100_gets_continue(api):
    await api.create_topic()
    batch = bytes(build_batch([b"x"]))
    reader, writer = await asyncio.open_connection(*api.address)
    writer.write(request_head(f"Content-Length: {len(batch)}\r\n", "Expect: 100-continue\r\n"))
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(batch)
    assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
    writer.close()


async def test_garbage_is_refused_and_the_broker_continues(api):
    await api.create_topic()
    assert (await exchange(api, b"\x00\x01\x02 nonsense\r\n\r\n")).startswith(b"HTTP/1.0 400")
    assert (await api.post("/topics/t", GOOD))[0] == 200
