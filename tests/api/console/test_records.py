"""Records in the console: starts, filters, large and binary values, hostile text, live tails and counts."""

import asyncio
import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from raftlog.api.http.console import record_scan
from raftlog.api.http.console import records as record_pages
from raftlog.api.http.console.shown_records import HEADERS_MAX, show_bytes
from raftlog.partitions.deadline import deadline_in
from raftlog.records import NewRecord, Record, read_records
from raftlog.runtime import slices
from raftlog.types import Buffer
from tests.loop_hold import LoopTurns
from tests.waiting import until

LINES = {"Accept": "application/x-ndjson"}
BASE = "/console/api/topics/t/partitions/0"
SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>"


async def produce(api: Any, *records: NewRecord) -> None:
    found = await api.broker.produce_records("t", 0, records, deadline=deadline_in(10_000))
    assert [each.error for each in found] == [None] * len(records)


async def read(api: Any, query: str) -> Any:
    status, found = await api.get(f"{BASE}/records?{query}")
    assert status == 200, found
    return found


def offsets(page: Any) -> list[int]:
    return [each["offset"] for each in page["records"]]


@pytest.fixture
async def numbered(api: Any) -> Any:
    """Start a broker with ten records in `t`: timestamps 1000 to 1009, keys k0 to k9, JSON values."""
    await api.create_topic()
    await produce(api, *(NewRecord(b'{"n": %d}' % n, b"k%d" % n, timestamp=1_000 + n) for n in range(10)))
    return api


async def test_reads_begin_at_an_offset_a_time_or_the_newest_records(numbered) -> None:
    page = await read(numbered, "offset=3&limit=4")
    assert (offsets(page), page["next_offset"], page["is_end"]) == ([3, 4, 5, 6], 7, False)
    page = await read(numbered, f"offset={page['next_offset']}&limit=4")
    assert (offsets(page), page["next_offset"], page["is_end"], page["high_watermark"]) == ([7, 8, 9], 10, True, 10)
    assert offsets(await read(numbered, "offset=beginning&limit=1")) == [0]
    assert offsets(await read(numbered, "timestamp=1007")) == [7, 8, 9]
    assert offsets(await read(numbered, "newest=3")) == [7, 8, 9]
    assert offsets(await read(numbered, "newest=500")) == list(range(10))
    for empty in ("offset=end", "offset=10", "timestamp=9000"):
        page = await read(numbered, empty)
        assert (page["records"], page["is_end"], page["next_offset"]) == ([], True, 10), empty


async def test_a_filter_is_for_keys_values_and_headers(numbered) -> None:
    await produce(numbered, NewRecord(b"y", b"x", headers=[("trace", b"k7")]))
    assert offsets(await read(numbered, "offset=0&filter=k7")) == [7, 10]
    assert offsets(await read(numbered, "offset=0&filter=k7&in=key")) == [7]
    assert offsets(await read(numbered, "offset=0&filter=k7&in=headers")) == [10]
    assert offsets(await read(numbered, "offset=0&filter=%227&in=value")) == []
    page = await read(numbered, "offset=0&filter=nothing")
    assert (page["records"], page["scanned"], page["is_end"]) == ([], 11, True)


async def test_a_search_stops_after_bounded_work_and_continues(numbered, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_pages, "SCANNED_BYTES_MAX", 1)
    monkeypatch.setattr(record_scan, "FETCH_BYTES", 1)  # a batch at a time
    await produce(numbered, NewRecord(b"needle"))
    page = await read(numbered, "offset=0&limit=1&filter=e")
    assert (page["records"], page["next_offset"], page["is_end"], page["scanned"]) == ([], 10, False, 10)
    page = await read(numbered, "offset=10&limit=2&filter=e")
    assert (offsets(page), page["next_offset"], page["is_end"]) == ([10], 11, True)


async def test_large_values_are_cut_and_whole_on_request(api) -> None:
    await api.create_topic()
    value = "ä" * 500_000
    await produce(api, NewRecord(value.encode(), b"k"), NewRecord(b"\xff" * 1_000_000, b"k"))
    first, second = (await read(api, "offset=0&value_bytes=1001"))["records"]
    assert first["value"] == {"encoding": "text", "data": "ä" * 500, "size": 1_000_000, "is_truncated": True}
    assert second["value"]["encoding"] == "base64"
    assert base64.b64decode(second["value"]["data"]) == b"\xff" * 1001
    assert first["size"] == 1_000_001
    _, [whole] = await api.get("/topics/t/partitions/0/records?offset=0&max_bytes=1")
    assert whole["value"] == value
    page = await read(api, "newest=2&filter=%C3%A4%C3%A4&in=value")
    assert offsets(page) == [0]


async def test_hostile_and_binary_contents_stay_text(api) -> None:
    await api.create_topic()
    headers = [(SCRIPT, SCRIPT.encode()), ("binary", b"\x00\xff"), ("none", None)]
    await produce(
        api,
        NewRecord(SCRIPT.encode(), SCRIPT.encode(), headers=headers),
        NewRecord(None, b"\xc3\x28"),
        NewRecord(b"123456789012345678901234567890", b""),
        NewRecord(b'"\\ud800"'),
        NewRecord(b"[" * 5_000),
    )
    async with api.session.get(f"{api.url}{BASE}/records?offset=0") as response:
        assert response.headers["Content-Type"].startswith("application/json")
        found = (await response.json())["records"]
    script, tombstone, number, surrogate, deep = found
    assert script["key"]["data"] == script["value"]["data"] == script["headers"][0]["name"] == SCRIPT
    assert script["headers"][0]["value"] == {
        "encoding": "text",
        "data": SCRIPT,
        "size": len(SCRIPT),
        "is_truncated": False,
    }
    assert script["headers"][1]["value"]["encoding"] == "base64"
    assert script["headers"][2]["value"] is None
    assert (tombstone["value"], tombstone["key"]["encoding"]) == (None, "base64")
    assert number["value"] == {
        "encoding": "json",
        "data": "123456789012345678901234567890",
        "size": 30,
        "is_truncated": False,
    }
    assert number["key"]["data"] == ""
    assert surrogate["value"]["encoding"] in ("json", "text")
    assert deep["value"]["encoding"] == "text"


async def test_headers_beyond_the_bound_are_counted(api) -> None:
    await api.create_topic()
    await produce(api, NewRecord(b"v", headers=[(str(n), b"") for n in range(HEADERS_MAX + 7)]))
    [record] = (await read(api, "offset=0"))["records"]
    assert (len(record["headers"]), record["headers_left_out"]) == (HEADERS_MAX, 7)


def test_a_text_is_never_cut_within_a_character() -> None:
    for size in range(1, 9):
        shown = show_bytes("aä€😀".encode(), size)
        assert shown is not None
        assert (shown.encoding, "aä€😀".startswith(shown.data)) == ("text", True)
    shown = show_bytes(b"abc\xffdef", 5)
    assert shown is not None
    assert shown.encoding == "base64"


@pytest.mark.parametrize(
    "query",
    [
        "",
        "offset=0&newest=1",
        "offset=0&timestamp=1",
        "offset=x",
        "offset=-1",
        "newest=0",
        "newest=501",
        "timestamp=-1",
        "offset=0&limit=0",
        "offset=0&limit=501",
        "offset=0&value_bytes=70000",
        "offset=0&in=all-of-it&filter=x",
        f"offset=0&filter={'x' * 1_025}",
        "offset=0&follow=yes",
        "offset=0&isolation=none",
        "offset=0&other=1",
    ],
)
async def test_wrong_parameters_are_refused(api, query: str) -> None:
    await api.create_topic()
    assert (await api.get(f"{BASE}/records?{query}"))[0] == 400


async def test_unknown_places_and_deleted_offsets_are_errors(numbered) -> None:
    assert (await numbered.get("/console/api/topics/none/partitions/0/records?offset=0"))[0] == 404
    assert (await numbered.get("/console/api/topics/t/partitions/7/records?offset=0"))[0] == 404
    await numbered.broker.delete_records("t", 0, 4, deadline=deadline_in(10_000))
    status, error = await numbered.get(f"{BASE}/records?offset=2")
    assert (status, error["beginning_offset"], error["end_offset"]) == (400, 4, 10)
    assert offsets(await read(numbered, "offset=beginning&limit=1")) == [4]


async def next_line(response: Any) -> Any:
    return json.loads(await asyncio.wait_for(response.content.readline(), 20))


async def test_a_tail_continues_with_new_records_that_pass_the_filter(numbered) -> None:
    async with numbered.session.get(
        f"{numbered.url}{BASE}/records?offset=8&follow=true&filter=k", headers=LINES
    ) as response:
        assert response.headers["Content-Type"] == "application/x-ndjson"
        assert [(await next_line(response))["offset"] for _ in range(2)] == [8, 9]
        await produce(numbered, NewRecord(b"x", b"other"), NewRecord(b"y", b"k"))
        assert (await next_line(response))["offset"] == 11
    await until(lambda: numbered.server._app.answers.used == 0)


async def test_a_tail_that_begins_at_the_end_names_its_offset_at_once(numbered) -> None:
    """A page whose stream breaks before the first record continues there, and not at a later end."""
    async with numbered.session.get(f"{numbered.url}{BASE}/records?offset=end&follow=true", headers=LINES) as response:
        assert (await next_line(response))["heartbeat"] == {"next_offset": 10, "high_watermark": 10, "scanned": 0}


async def test_a_quiet_tail_has_heartbeats(numbered, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftlog.api.http.console.record_tail.HEARTBEAT_MS", 50)
    async with numbered.session.get(f"{numbered.url}{BASE}/records?offset=9&follow=true", headers=LINES) as response:
        assert (await next_line(response))["offset"] == 9
        assert (await next_line(response))["heartbeat"] == {"next_offset": 10, "high_watermark": 10, "scanned": 1}


async def test_a_tail_ends_with_an_error_line_when_its_topic_is_deleted(numbered) -> None:
    async with numbered.session.get(f"{numbered.url}{BASE}/records?offset=9&follow=true", headers=LINES) as response:
        assert (await next_line(response))["offset"] == 9
        await numbered.broker.delete_topic("t", deadline=deadline_in(10_000))
        line = await next_line(response)
        assert (line["error_code"], line["next_offset"]) == (40401, 10)
        assert await response.content.read() == b""


async def test_a_tail_without_memory_names_the_first_record_that_it_did_not_send(numbered) -> None:
    """The record was decoded, and found no memory; a tail that continues at `next_offset` has it."""
    answers = numbered.server.answers
    path = f"{numbered.url}{BASE}/records?offset=9&follow=true&value_bytes=65536"
    async with numbered.session.get(path, headers=LINES) as response:
        assert (await next_line(response))["offset"] == 9
        assert answers.try_take(response, answers.free)
        await produce(numbered, NewRecord(b"x" * 60_000))
        line = await next_line(response)
        answers.release(response)
    assert (line["error_code"], line["next_offset"]) == (50305, 10)
    assert offsets(await read(numbered, f"offset={line['next_offset']}")) == [10]


async def test_a_tail_needs_a_client_that_reads_lines(numbered) -> None:
    assert (await numbered.get(f"{BASE}/records?offset=0&follow=true"))[0] == 406
    assert (await numbered.get(f"{BASE}/records?newest=1&follow=true", headers=LINES))[0] == 400


async def test_tails_are_limited(numbered, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_pages, "TAILS_MAX", 1)
    url = f"{numbered.url}{BASE}/records?offset=0&follow=true"
    async with numbered.session.get(url, headers=LINES) as response:
        await next_line(response)
        assert (await numbered.get(f"{BASE}/records?offset=0&follow=true", headers=LINES))[0] == 429


async def test_a_count_within_a_batch_lets_other_tasks_run(api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first batch is opened if the count begins within it."""
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    await api.create_topic()
    await produce(api, *(NewRecord(b"v") for _ in range(1_000)))
    begun: list[int] = []

    def note(batch: Buffer) -> Iterator[Record]:
        for record in read_records(batch):
            begun.append(turns.count)
            yield record

    monkeypatch.setattr(record_scan, "read_records", note)
    async with LoopTurns() as turns:
        status, found = await api.get(f"{BASE}/count?offset=10")
    assert (status, found["records"], found["is_complete"]) == (200, 990, True)
    assert len(begun) == 1_000
    assert begun[-1] - begun[0] >= 1_000 // record_scan._RECORDS_PER_YIELD - 1


async def test_records_are_counted_without_gaps(numbered) -> None:
    status, found = await numbered.get(f"{BASE}/count")
    assert (status, found) == (
        200,
        {"records": 10, "first_offset": 0, "next_offset": 10, "end_offset": 10, "is_complete": True},
    )
    await numbered.broker.delete_records("t", 0, 4, deadline=deadline_in(10_000))
    assert (await numbered.get(f"{BASE}/count"))[1]["records"] == 6
    assert (await numbered.get(f"{BASE}/count?offset=8"))[1]["records"] == 2
    assert (await numbered.get(f"{BASE}/count?offset=99"))[1]["records"] == 0
