"""Octet-stream bodies: one record each, stored completely or not at all, and never larger than the topic allows."""

import asyncio
import base64
import errno
import io
import os
import tempfile

import pytest

from raftlog.api.http.records import octet_stream
from tests.waiting import until

OCTETS = {"Content-Type": "application/octet-stream"}
HEAD = (
    b"POST /topics/t HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n"
)
BINARY = {"Accept": "application/vnd.kafka.binary.v2+json"}
RECORDS = "/topics/t/partitions/0/records?max_bytes=16000000&offset="


async def send(api, body, path="/topics/t", **headers):
    body = io.BytesIO(body) if isinstance(body, bytes) else body
    return await api.post(path, data=body, headers=OCTETS | headers)


async def fetch_end_offset(api):
    return (await api.get("/topics/t/partitions/0/offsets"))[1]["end_offset"]


@pytest.mark.parametrize("size", [0, 10, 3_000_000])
async def test_the_body_becomes_the_value_of_one_record(api, size):
    await api.create_topic()
    value = os.urandom(size)
    status, said = await send(api, value)
    assert (status, said["offsets"]) == (200, [{"partition": 0, "offset": 0, "error_code": None, "error": None}])
    (found,) = (await api.get(RECORDS + "0", headers=BINARY))[1]
    assert base64.b64decode(found["value"]) == value
    assert (found["key"], found["headers"]) == (None, [])


async def test_key_timestamp_and_headers_are_stored(api):
    await api.create_topic()
    headers = {"X-Raftlog-Headers": '[{"name":"h","value":"AAE="},{"name":"n","value":null}]'}
    await send(api, b"v", "/topics/t/partitions/0?key=a%00%ff%2B&timestamp=2024-05-01T12:00:00Z", **headers)
    await send(api, b"v", "/topics/t?key=&timestamp=7")
    first, second = (await api.get(RECORDS + "0", headers=BINARY))[1]
    assert base64.b64decode(first["key"]) == b"a\x00\xff+"
    assert (first["timestamp"], second["timestamp"]) == (1714564800000, 7)
    assert first["headers"] == [{"name": "h", "value": "AAE="}, {"name": "n", "value": None}]
    assert second["key"] == ""


async def test_a_body_over_the_limit_is_refused_before_it_ends(api):
    await api.create_topic(max_message_bytes="100000")
    reader, writer = await asyncio.open_connection(*api.address)
    writer.write(HEAD % 200_000)
    head = await reader.readuntil(b"\r\n\r\n")  # nothing of the body was sent
    assert b" 413 " in head.split(b"\r\n")[0]
    writer.close()
    sent = 0

    async def body():
        nonlocal sent
        while True:
            sent += 1
            yield b"x" * 50_000

    status, said = await send(api, body())
    assert (status, said["error_code"], said["outcome"]) == (413, 413, "failed")
    assert "max.message.bytes" in said["message"]
    status, _ = await send(api, b"x" * 99_000)
    assert (status, await fetch_end_offset(api)) == (200, 1)


async def test_a_truncated_body_leaves_no_record_and_no_spool_file(start_api, monkeypatch):
    opened = []

    class Spool(tempfile.SpooledTemporaryFile):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            opened.append(self)

    monkeypatch.setattr(octet_stream.tempfile, "SpooledTemporaryFile", Spool)
    api = await start_api(body_timeout_ms=200)
    await api.create_topic()
    never = asyncio.Event()

    async def body():
        yield b"x" * 1_000_000
        await never.wait()

    status, said = await send(api, body())
    assert (status, said["error_code"], said["outcome"]) == (408, 40801, "failed")
    _, writer = await asyncio.open_connection(*api.address)
    writer.write(HEAD % 10 + b"12345")
    await writer.drain()
    writer.close()
    await send(api, b"after")
    (found,) = (await api.get(RECORDS + "0", headers=BINARY))[1]
    assert base64.b64decode(found["value"]) == b"after"
    assert opened[0]._rolled
    await until(lambda: all(spool.closed for spool in opened))
    assert api.server.bodies.memory.used == 0


async def test_invalid_records_are_refused(api):
    await api.create_topic()
    for path, headers in [
        ("/topics/t?timestamp=soon", {}),
        ("/topics/t?timestamp=-1", {}),
        ("/topics/t", {"X-Raftlog-Headers": "{"}),
        ("/topics/t", {"X-Raftlog-Headers": '[{"name":1}]'}),
    ]:
        status, said = await send(api, b"v", path, **headers)
        assert (status, said["error_code"], said["outcome"]) == (400, 40002, "failed"), path
    assert (await send(api, b"v", "/topics/none"))[0] == 404
    assert await fetch_end_offset(api) == 0


async def test_missing_space_for_the_spool_is_reported(api, monkeypatch):
    class Full(tempfile.SpooledTemporaryFile):
        def rollover(self):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(octet_stream.tempfile, "SpooledTemporaryFile", Full)
    await api.create_topic()
    status, said = await send(api, b"x" * 1_000_000)
    assert (status, said["error_code"], said["outcome"]) == (507, 50701, "failed")
    assert await fetch_end_offset(api) == 0
