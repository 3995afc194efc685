"""The tail of a partition: lines as records are committed, in bounded memory, until the reader disconnects."""

import asyncio
import contextlib

import orjson
from aiohttp import web
from crc32c import crc32c

from raftlog.api.http.records import tail
from raftlog.errors import NoLeader
from raftlog.records import NewRecord, build_batch
from tests.waiting import until

NDJSON = {"Accept": "application/x-ndjson"}
BATCHES = {"Content-Type": "application/vnd.raftlog.batches"}
RECORDS = "/topics/t/partitions/0/records"


async def append(api, *values):
    status, _ = await api.post("/topics/t/partitions/0", {"records": [{"value": value} for value in values]})
    assert status == 200


@contextlib.asynccontextmanager
async def open_tail(api, query):
    """Open a tail; read the lines of its response with `next_line`."""
    async with api.session.get(api.url + RECORDS + "?" + query, headers=NDJSON) as response:
        assert response.status == 200, await response.text()
        yield response


async def read_line(response):
    line = await response.content.readline()
    return orjson.loads(line) if line.strip() else line


async def read_values(response, count):
    return [(await read_line(response))["value"] for _ in range(count)]


async def read_all(api, query):
    async with open_tail(api, query) as response:
        return [orjson.loads(line) for line in (await response.read()).splitlines()]


async def test_a_tail_returns_all_records_and_ends(api):
    await api.create_topic()
    await append(api, *range(3000))
    await append(api, {"a": [1]}, "text", None)
    found = await read_all(api, "offset=beginning")
    assert [each["value"] for each in found] == [*range(3000), {"a": [1]}, "text", None]
    assert [each["offset"] for each in found] == list(range(3003))
    assert found[0].keys() == {"topic", "key", "value", "partition", "offset", "timestamp", "headers"}
    assert [each["offset"] for each in await read_all(api, "offset=1500")] == list(range(1500, 3003))
    assert await read_all(api, "offset=end") == []
    async with open_tail(api, "offset=3003") as response:
        assert response.headers["Content-Type"] == "application/x-ndjson"
        assert await response.read() == b""


async def test_a_tail_can_begin_at_a_time(api):
    await api.create_topic()
    await api.post("/topics/t", {"records": [{"value": 1, "timestamp": 1000}, {"value": 2, "timestamp": 2000}]})
    assert [each["value"] for each in await read_all(api, "timestamp=1500")] == [2]
    assert await read_all(api, "timestamp=2500") == []


async def test_a_tail_follows_new_records(api):
    await api.create_topic()
    await append(api, 1)
    follow = "follow=true&offset="
    async with open_tail(api, follow + "beginning") as everything, open_tail(api, follow + "end") as new:
        assert await read_values(everything, 1) == [1]
        await append(api, 2, 3)
        assert await read_values(new, 2) == [2, 3]
        await append(api, 4)
        assert await read_values(everything, 3) == [2, 3, 4]
        assert await read_values(new, 1) == [4]


async def test_the_output_of_a_tail_can_be_produced_again(api):
    await api.create_topic()
    await api.create_topic("copy")
    batch = build_batch([NewRecord(b"text", b"\xff", 5, [("h", b"\x00")]), NewRecord(b"7"), NewRecord(None, b'"k"')])
    await api.post("/topics/t/partitions/0", data=bytes(batch), headers=BATCHES)
    async with open_tail(api, "offset=0") as response:
        lines = await response.read()
    status, said = await api.post("/topics/copy", data=lines, headers={"Content-Type": "application/x-ndjson"})
    assert (status, said["records"]) == (200, 3)
    _, first = await api.get(RECORDS + "?offset=0")
    _, second = await api.get("/topics/copy/partitions/0/records?offset=0")
    assert [each | {"topic": "copy"} for each in first] == second


async def test_errors_before_the_first_line_are_returned_as_a_status(api):
    await api.create_topic()
    for query in [
        "",
        "offset=0&timestamp=0",
        "offset=",
        "offset=middle",
        "offset=0&follow=perhaps",
        "offset=7&follow=true",
        "timestamp=-1",
    ]:
        status, body = await api.get(f"{RECORDS}?{query}", headers=NDJSON)
        assert (status, body["error_code"], body["outcome"]) == (400, 40002, "failed"), query


async def test_an_idle_tail_sends_the_requested_heartbeats(api):
    await api.create_topic()
    async with open_tail(api, "offset=end&follow=true&heartbeat=50") as response:
        assert [await read_line(response) for _ in range(2)] == [b"\n", b"\n"]
        await append(api, 5)
        while (line := await read_line(response)) == b"\n":
            pass
        assert line["value"] == 5


async def test_a_tail_that_fails_returns_the_next_offset(api):
    await api.create_topic()
    await append(api, 1, 2)
    async with open_tail(api, "offset=0&follow=true") as response:
        assert await read_values(response, 2) == [1, 2]
        await api.call("DELETE", "/v3/clusters/-/topics/t")
        last = await read_line(response)
        assert (last["error_code"], last["outcome"], last["next_offset"]) == (40401, "failed", 2)
        assert await response.content.read() == b""


async def test_stopping_the_server_ends_a_tail(api):
    await api.create_topic()
    await append(api, 1)
    async with open_tail(api, "offset=0&follow=true") as response:
        await read_values(response, 1)
        await api.server.stop(2.0)
        last = await read_line(response)
        assert (last["error_code"], last["next_offset"]) == (50302, 1)


async def test_a_reader_that_disconnects_ends_its_tail_at_once(api, monkeypatch):
    await api.create_topic()
    fetches = set()
    inner = api.broker.fetch

    async def fetch(*args, **options):
        task = asyncio.current_task()
        fetches.add(task)
        return await inner(*args, **options)

    monkeypatch.setattr(api.broker, "fetch", fetch)
    async with open_tail(api, "offset=end&follow=true") as response:
        await until(lambda: len(fetches) >= 2)
        response.close()
    done, pending = await asyncio.wait(fetches, timeout=5)
    assert not pending
    assert any(task.cancelled() for task in done)


def find_server_connection(api, client):
    """Return the server's end of a client's connection."""
    (found,) = [
        each
        for each in api.server._connections._open.values()
        if each.get_extra_info("peername") == client.get_extra_info("sockname")
    ]
    return found


def join_chunks(body):
    """Return the content of a body in chunks."""
    found, at = [], 0
    while size := int(body[at : (end := body.index(b"\r\n", at))], 16):
        found.append(body[end + 2 : end + 2 + size])
        at = end + 2 + size + 2
    return b"".join(found)


async def test_a_slow_reader_holds_at_most_one_fetch(api, monkeypatch):
    """The log is read as fast as the reader drains: while the reader reads nothing, no further fetch begins."""
    held_s = tail.HELD_S
    monkeypatch.setattr(tail, "HELD_S", 0.0)
    await api.create_topic()
    await api.create_topic("other")
    for topic in ["t", "other"] * 8:
        await api.post(f"/topics/{topic}", {"records": [{"value": "x" * 1000}] * 1000})
    reads = []
    inner = api.broker.fetch

    async def fetch(topic, partition, offset, **options):
        if topic == "t":
            reads.append(offset)
        return await inner(topic, partition, offset, **options)

    monkeypatch.setattr(api.broker, "fetch", fetch)
    reader, writer = await asyncio.open_connection(*api.address)
    head = f"GET {RECORDS}?offset=0 HTTP/1.1\r\nHost: localhost\r\nAccept: application/x-ndjson\r\n"
    writer.write(head.encode() + b"Connection: close\r\n\r\n")
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
    connection = find_server_connection(api, writer)
    high = connection.get_write_buffer_limits()[1]
    await until(lambda: connection.get_write_buffer_size() > high and api.server.answers.used == 0)
    other = api.url + RECORDS.replace("/t/", "/other/") + "?offset=0"
    async with api.session.get(other, headers=NDJSON) as response:  # a tail that went on would take no longer
        assert len((await response.read()).splitlines()) == 8000
    assert reads[-1] < 7000, "the system's buffers are smaller than the log"
    monkeypatch.setattr(tail, "HELD_S", held_s)
    lines = join_chunks(await reader.read()).splitlines()
    writer.close()
    assert [orjson.loads(line)["offset"] for line in lines] == list(range(8000))


async def test_a_very_long_line_is_written_in_parts(api, monkeypatch):
    await api.create_topic()
    value = "x" * 900_000
    await append(api, value)
    written = []
    write = web.StreamResponse.write

    async def note(response, data):
        written.append(len(data))
        await write(response, data)

    monkeypatch.setattr(web.StreamResponse, "write", note)
    async with open_tail(api, "offset=0") as response:
        assert orjson.loads(await response.content.read())["value"] == value
    assert sum(written) > len(value)
    assert max(written) <= 256 * 1024


async def test_a_tail_waits_for_a_leader_and_loses_nothing(api, monkeypatch):
    await api.create_topic()
    await append(api, 1)
    refusals = 3
    inner = api.broker.fetch

    async def fetch(topic, partition, offset, **options):
        nonlocal refusals
        if offset and refusals:
            refusals -= 1
            raise NoLeader("there is no leader")
        return await inner(topic, partition, offset, **options)

    monkeypatch.setattr(api.broker, "fetch", fetch)
    async with open_tail(api, "offset=0&follow=true") as response:
        assert await read_values(response, 1) == [1]
        await append(api, 2)
        assert await read_values(response, 1) == [2]
        assert refusals == 0
    refusals = 1_000
    async with open_tail(api, "offset=0&follow=true&timeout=150") as response:
        await read_values(response, 2)
        last = await read_line(response)
        assert (last["error_code"], last["next_offset"]) == (50302, 2)


async def test_tails_beyond_the_limit_are_refused(api, monkeypatch):
    monkeypatch.setattr(tail, "TAILS_MAX", 2)
    await api.create_topic()
    async with open_tail(api, "offset=end&follow=true"), open_tail(api, "offset=end&follow=true"):
        status, body = await api.get(RECORDS + "?offset=end&follow=true", headers=NDJSON)
        assert (status, body["error_code"]) == (429, 42901)


async def test_undecodable_records_end_a_tail_after_the_decodable_ones(api):
    await api.create_topic()
    await append(api, 1)
    broken = bytearray(build_batch([b"2"]))
    broken[61:] = b"\x7f" * (len(broken) - 61)
    broken[17:21] = crc32c(bytes(broken[21:])).to_bytes(4, "big")
    await api.post("/topics/t/partitions/0", data=bytes(broken), headers=BATCHES)
    found = await read_all(api, "offset=0")
    assert found[0]["value"] == 1
    assert (found[1]["error_code"], found[1]["next_offset"]) == (42207, 1)
