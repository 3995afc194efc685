"""Compressed batches with much content, and large keys and values: converted to JSON in steps beside other tasks."""

import asyncio
import base64
import io

import orjson
import pytest

from raftlog.errors import InvalidBatch, UndecodableBatch
from raftlog.partitions.consumers.taken_records import take_records
from raftlog.records import Compression, NewRecord, build_batch, open_in_steps, read_header, read_records
from raftlog.records.compression import decompress_in_steps
from raftlog.runtime.batch_opener import BatchOpener
from raftlog.topic_config import MIB
from raftlog.types import Offset
from tests.loop_hold import HOLD_S_MAX, LoopHold
from tests.stepping import run_steps

BATCHES = {"Content-Type": "application/vnd.raftlog.batches"}
JSON, BINARY = "application/vnd.kafka.json.v2+json", "application/vnd.kafka.binary.v2+json"
RECORDS = "/topics/t/partitions/0/records"
CODECS = list(Compression)[1:]


async def store(api, *records, compression=Compression.ZSTD):
    await api.create_topic()
    batch = bytes(build_batch(records, compression=compression))
    status, answer = await api.post("/topics/t/partitions/0", data=io.BytesIO(batch), headers=BATCHES)
    assert status == 200, answer


@pytest.mark.parametrize("compression", CODECS)
@pytest.mark.parametrize("size", [0, 1, 70_000, 3 * MIB])
def test_decompression_in_steps_returns_the_same_batch(compression, size):
    batch = bytes(build_batch([b"x" * size, NewRecord(b"2", b"key", headers=[("h", b"1")])], compression=compression))
    opened, _ = run_steps(open_in_steps(batch))
    assert not read_header(opened).compression
    assert read_header(opened).record_count == 2
    assert [(each.offset, each.key, each.value) for each in read_records(opened)] == [
        (0, None, b"x" * size),
        (1, b"key", b"2"),
    ]


@pytest.mark.parametrize("compression", CODECS)
def test_a_large_batch_takes_many_steps(compression):
    """Gzip is decompressed with a step per MiB; the other codecs allocate in such steps before their single call."""
    opened, steps = run_steps(open_in_steps(bytes(build_batch([bytes(40 * MIB)], compression=compression))))
    assert len(opened) > 40 * MIB
    assert steps >= 40


@pytest.mark.parametrize("compression", CODECS)
def test_the_bound_of_decompression_is_exact(compression):
    batch = bytes(build_batch([bytes(MIB), bytes(MIB)], compression=compression))
    opened = bytearray()
    run_steps(decompress_in_steps(compression, batch[61:], 64 * MIB, opened))
    size = len(opened)
    run_steps(decompress_in_steps(compression, batch[61:], size, exactly := bytearray()))
    assert exactly == opened
    found = bytearray(b"before")
    with pytest.raises(InvalidBatch, match=f"more than {size - 1} bytes"):
        run_steps(decompress_in_steps(compression, batch[61:], size - 1, found))
    with pytest.raises(UndecodableBatch, match="more than 1000 bytes"):
        run_steps(open_in_steps(batch, 1000))


async def test_large_batches_are_decompressed_one_after_another():
    """Large batches wait while one is being decompressed; small ones do not."""
    opener = BatchOpener(64 * MIB)
    large = bytes(build_batch([bytes(8 * MIB)], compression=Compression.GZIP))
    async with opener._turn:
        waiting = asyncio.ensure_future(opener.open(large))
        assert len(await opener.open(bytes(build_batch([b"x" * 1000], compression=Compression.GZIP)))) > 1000
        assert not waiting.done()
    assert len(await waiting) > 8 * MIB


VALUES = [
    pytest.param(b"\x01" * (24 * MIB), "text", id="escaped"),
    pytest.param("é€😀,".encode() * (3 * MIB), "text", id="text"),
    pytest.param(b"\xff\x00" * (16 * MIB) + b"1", "base64", id="bytes"),
    pytest.param(b"x" * (20 * MIB) + b"\xc3", "base64", id="cut character"),
    pytest.param(b'"' + b"json " * (4 * MIB) + b'"', None, id="json"),
]


@pytest.mark.parametrize(("value", "encoding"), VALUES)
async def test_large_values_do_not_block_the_loop(api, value, encoding):
    await store(api, NewRecord(value, b"a" * 100_000), b"2")
    for accept in (JSON, BINARY):
        async with api.session.get(api.url + f"{RECORDS}?offset=0&max_bytes=1", headers={"Accept": accept}) as response:
            async with LoopHold() as hold:
                body = await response.read()
            assert response.status == 200
        assert hold.longest_s < HOLD_S_MAX
        [record] = orjson.loads(body)
        if accept == BINARY:
            assert base64.b64decode(record["value"]) == value
            continue
        assert record.get("encoding", {}).get("value") == encoding
        assert record["encoding"]["key"] == "text"
        shown = record["value"] if encoding else orjson.dumps(record["value"])
        if encoding:
            shown = base64.b64decode(shown) if encoding == "base64" else shown.encode()
        assert shown == value
    assert api.server.answers.used == 0


async def test_skipping_records_before_the_offset_does_not_block_the_loop(api):
    count = 1_500_000
    await store(api, *[b""] * count)
    async with LoopHold() as hold:
        status, found = await api.get(f"{RECORDS}?offset={count - 1}")
    assert (status, [each["offset"] for each in found]) == (200, [count - 1])
    assert hold.longest_s < HOLD_S_MAX


async def test_lines_with_large_and_small_values_are_in_order(api):
    values = [b"1", b"\x01" * 100_000, b"2", b'"' + b"3" * 70_000 + b'"', b"\xff" * 80_000, b"4", b"5"]
    await store(api, *values)
    async with api.session.get(f"{api.url}{RECORDS}?offset=0", headers={"Accept": "application/x-ndjson"}) as response:
        lines = [orjson.loads(line) for line in (await response.text()).splitlines()]
    status, rows = await api.get(f"{RECORDS}?offset=0")
    assert (status, lines) == (200, rows)
    assert [row["offset"] for row in rows] == list(range(7))
    assert [row.get("encoding") for row in rows] == [
        None, {"value": "text"}, None, None, {"value": "base64"}, None, None
    ]  # fmt: skip


async def test_counting_records_for_a_poll_does_not_block_the_loop():
    count = 1_500_000
    batch = bytes(build_batch([b""] * count, compression=Compression.ZSTD))
    opener = BatchOpener(64 * MIB)
    async with LoopHold() as hold:
        taken = await take_records([batch], Offset(count - 1), 100, opener)
    assert (taken.records, taken.end) == (1, count)
    assert hold.longest_s < HOLD_S_MAX


async def test_a_lookup_by_time_does_not_block_the_loop(api):
    count = 1_500_000
    await store(api, *[NewRecord(b"", None, 1_000)] * count, NewRecord(b"", None, 2_000))
    async with LoopHold() as hold:
        status, found = await api.get("/topics/t/partitions/0/offsets?timestamp=2000")
    assert (status, found["offset"], found["timestamp"]) == (200, count, 2_000)
    assert hold.longest_s < HOLD_S_MAX
