"""The tail of a partition: lines as they commit, in bounded memory, for as long as the reader stays."""

import asyncio
import contextlib

import orjson
from aiohttp import web
from crc32c import crc32c

from raftlog.api.http.records import tail
from raftlog.errors import NoLeader
from raftlog.records import NewRecord, build_batch

NDJSON = {"Accept": "application/x-ndjson"}
BATCHES = {"Content-Type": "application/vnd.raftlog.batches"}
RECORDS = "/topics/t/partitions/0/records"


async def append(api, *values):
    status, _ = await api.post("/topics/t/partitions/0", {"records": [{"value": value} for value in values]})
    assert status == 200


@contextlib.asynccontextmanager
async def tail_of(api, query):
    """Open a tail; `next_line` returns the lines of the response."""
    async with api.session.get(api.url + RECORDS + "?" + query, headers=NDJSON) as response:
        assert response.status == 200, await response.text()
        yield response


async def next_line(response):
    line = await response.content.readline()
    return orjson.loads(line) if line.strip() else line


async def values(response, count):
    return [(await next_line(response))["value"] for _ in range(count)]


async def whole(api, query):
    async with tail_of(api, query) as response:
        return [orjson.loads(line) for line in (await response.read()).splitlines()]


async def test_all_there_is(api):
    await api.topic()
    await append(api, *range(3000))
    await append(api, {"a": [1]}, "text", None)
    found = await whole(api, "offset=beginning")
    assert [each["value"] for each in found] == [*range(3000), {"a": [1]}, "text", None]
    assert [each["offset"] for each in found] == list(range(3003))
    assert found[0].keys() == {"topic", "key", "value", "partition", "offset", "timestamp", "headers"}
    assert [each["offset"] for each in await whole(api, "offset=1500")] == list(range(1500, 3003))
    assert await whole(api, "offset=end") == []
    async with tail_of(api, "offset=3003") as response:
        assert response.headers["Content-Type"] == "application/x-ndjson"
        assert await response.read() == b""


async def test_from_a_time_on(api):
    await api.topic()
    await api.post("/topics/t", {"records": [{"value": 1, "timestamp": 1000}, {"value": 2, "timestamp": 2000}]})
    assert [each["value"] for each in await whole(api, "timestamp=1500")] == [2]
    assert await whole(api, "timestamp=2500") == []


async def test_it_follows(api):
    await api.topic()
    await append(api, 1)
    follow = "follow=true&offset="
    async with tail_of(api, follow + "beginning") as everything, tail_of(api, follow + "end") as new:
        assert await values(everything, 1) == [1]
        await append(api, 2, 3)
        assert await values(new, 2) == [2, 3]
        await append(api, 4)
        assert await values(everything, 3) == [2, 3, 4]
        assert await values(new, 1) == [4]


async def test_its_output_can_be_sent_back(api):
    await api.topic()
    await api.topic("copy")
    batch = build_batch([NewRecord(b"text", b"\xff", 5, [("h", b"\x00")]), NewRecord(b"7"), NewRecord(None, b'"k"')])
    await api.post("/topics/t/partitions/0", data=bytes(batch), headers=BATCHES)
    async with tail_of(api, "offset=0") as response:
        lines = await response.read()
    status, said = await api.post("/topics/copy", data=lines, headers={"Content-Type": "application/x-ndjson"})
    assert (status, said["records"]) == (200, 3)
    _, first = await api.get(RECORDS + "?offset=0")
    _, second = await api.get("/topics/copy/partitions/0/records?offset=0")
    assert [each | {"topic": "copy"} for each in first] == second


async def test_errors_before_the_first_line_are_the_status(api):
    await api.topic()
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


async def test_quiet_has_a_heartbeat_when_it_is_asked_for(api):
    await api.topic()
    async with tail_of(api, "offset=end&follow=true&heartbeat=50") as response:
        assert [await next_line(response) for _ in range(2)] == [b"\n", b"\n"]
        await append(api, 5)
        while (line := await next_line(response)) == b"\n":
            pass
        assert line["value"] == 5


async def test_its_end_has_the_next_position(api):
    await api.topic()
    await append(api, 1, 2)
    async with tail_of(api, "offset=0&follow=true") as response:
        assert await values(response, 2) == [1, 2]
        await api.call("DELETE", "/v3/clusters/-/topics/t")
        last = await next_line(response)
        assert (last["error_code"], last["outcome"], last["next_offset"]) == (40401, "failed", 2)
        assert await response.content.read() == b""


async def test_the_stop_of_the_server_is_its_end(api):
    await api.topic()
    await append(api, 1)
    async with tail_of(api, "offset=0&follow=true") as response:
        await values(response, 1)
        await api.server.stop(2.0)
        last = await next_line(response)
        assert (last["error_code"], last["next_offset"]) == (50302, 1)


async def test_a_reader_that_goes_away_ends_it_at_once(api, monkeypatch):
    await api.topic()
    fetches = set()
    inner = api.broker.fetch

    async def fetch(*args, **options):
        task = asyncio.current_task()
        fetches.add(task)
        return await inner(*args, **options)

    monkeypatch.setattr(api.broker, "fetch", fetch)
    async with tail_of(api, "offset=end&follow=true") as response:
        while len(fetches) < 2:
            await asyncio.sleep(0.01)
        response.close()
    done, pending = await asyncio.wait(fetches, timeout=5)
    assert not pending
    assert any(task.cancelled() for task in done)


async def test_a_slow_reader_holds_one_fetch(api, monkeypatch):
    """The log is read as the reader drains: while it takes nothing, nothing more is read."""
    await api.topic()
    for _ in range(8):
        await append(api, *["x" * 1000] * 1000)
    reads = []
    inner = api.broker.fetch

    async def fetch(topic, partition, offset, **options):
        reads.append(offset)
        return await inner(topic, partition, offset, **options)

    monkeypatch.setattr(api.broker, "fetch", fetch)
    async with tail_of(api, "offset=0") as response:
        before = -1
        while before != len(reads):  # until it stands still
            before = len(reads)
            await asyncio.sleep(0.2)
        assert reads[-1] < 8000
        found = [orjson.loads(line)["offset"] async for line in response.content]
    assert found == list(range(8000))


async def test_a_very_long_line_is_written_in_parts(api, monkeypatch):
    await api.topic()
    value = "x" * 900_000
    await append(api, value)
    written = []
    write = web.StreamResponse.write

    async def note(response, data):
        written.append(len(data))
        await write(response, data)

    monkeypatch.setattr(web.StreamResponse, "write", note)
    async with tail_of(api, "offset=0") as response:
        assert orjson.loads(await response.content.read())["value"] == value
    assert sum(written) > len(value)
    assert max(written) <= 256 * 1024


async def test_it_waits_for_a_leader_and_loses_nothing(api, monkeypatch):
    await api.topic()
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
    async with tail_of(api, "offset=0&follow=true") as response:
        assert await values(response, 1) == [1]
        await append(api, 2)
        assert await values(response, 1) == [2]
        assert refusals == 0
    refusals = 1_000
    async with tail_of(api, "offset=0&follow=true&timeout=150") as response:
        await values(response, 2)
        last = await next_line(response)
        assert (last["error_code"], last["next_offset"]) == (50302, 2)


async def test_there_are_not_too_many(api, monkeypatch):
    monkeypatch.setattr(tail, "TAILS_MAX", 2)
    await api.topic()
    async with tail_of(api, "offset=end&follow=true"), tail_of(api, "offset=end&follow=true"):
        status, body = await api.get(RECORDS + "?offset=end&follow=true", headers=NDJSON)
        assert (status, body["error_code"]) == (429, 42901)


async def test_records_that_cannot_be_opened_end_it_behind_those_that_can(api):
    await api.topic()
    await append(api, 1)
    broken = bytearray(build_batch([b"2"]))
    broken[61:] = b"\x7f" * (len(broken) - 61)
    broken[17:21] = crc32c(bytes(broken[21:])).to_bytes(4, "big")
    await api.post("/topics/t/partitions/0", data=bytes(broken), headers=BATCHES)
    found = await whole(api, "offset=0")
    assert found[0]["value"] == 1
    assert (found[1]["error_code"], found[1]["next_offset"]) == (42207, 1)
