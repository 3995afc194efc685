"""Produce and fetch over HTTP, in every format."""

import asyncio
import base64
import io

import pytest
from crc32c import crc32c

from raftlog.records import Compression, NewRecord, build_batch, read_records, split_batches
from tests.waiting import until, until_async

JSON = {"Content-Type": "application/vnd.kafka.json.v2+json"}
BINARY = "application/vnd.kafka.binary.v2+json"
BATCHES = "application/vnd.raftlog.batches"
RECORDS = "/topics/t/partitions/0/records"


def offset_row(partition, offset):
    return {"partition": partition, "offset": offset, "error_code": None, "error": None}


def encode_base64(raw):
    return base64.b64encode(raw).decode()


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "application/vnd.kafka.json.v2+json",
        "Application/JSON; charset=utf-8",
    ],
)
async def test_json_is_returned_as_it_was_sent(api, content_type):
    await api.create_topic()
    values = [{"a": [1, 2.5, None, True]}, "text", 5, -0.25, False, [], 'ünïcode " \\ \n', {"big": 12345678901234567}]
    records = [{"value": value, "key": {"k": number}} for number, value in enumerate(values)]
    status, body = await api.post("/topics/t", {"records": records}, headers={"Content-Type": content_type})
    assert status == 200
    assert body == {
        "offsets": [offset_row(0, number) for number in range(len(values))],
        "key_schema_id": None,
        "value_schema_id": None,
    }
    status, found = await api.get(RECORDS + "?offset=0")
    assert status == 200
    assert [record["value"] for record in found] == values
    assert [record["key"] for record in found] == [{"k": number} for number in range(len(values))]
    assert found[1].keys() == {"topic", "key", "value", "partition", "offset", "timestamp", "headers"}


async def test_null_keys_and_values_stay_null(api):
    await api.create_topic()
    await api.post("/topics/t", {"records": [{"key": "k", "value": None}, {"key": None, "value": 1}]})
    _, found = await api.get(RECORDS + "?offset=0")
    assert [(record["key"], record["value"]) for record in found] == [("k", None), (None, 1)]


async def test_binary_records_are_returned_as_base64(api):
    await api.create_topic()
    raw = bytes(range(256))
    body = {"records": [{"key": encode_base64(b"k"), "value": encode_base64(raw)}, {"value": None}]}
    status, _ = await api.post("/topics/t/partitions/0", body, headers={"Content-Type": BINARY})
    assert status == 200
    status, found = await api.get(RECORDS + "?offset=0", headers={"Accept": BINARY})
    assert (found[0]["key"], base64.b64decode(found[0]["value"])) == (encode_base64(b"k"), raw)
    assert found[1]["value"] is None


async def test_values_other_than_json_state_their_encoding(api):
    await api.create_topic()
    batch = build_batch([NewRecord(b"plain text", b"\xff\xfe"), NewRecord(b'{"a":', b"7")])
    await api.post("/topics/t/partitions/0", data=bytes(batch), headers={"Content-Type": BATCHES})
    _, found = await api.get(RECORDS + "?offset=0")
    assert found[0]["value"] == "plain text"
    assert base64.b64decode(found[0]["key"]) == b"\xff\xfe"
    assert found[0]["encoding"] == {"key": "base64", "value": "text"}
    assert (found[1]["key"], found[1]["value"], found[1]["encoding"]) == (7, '{"a":', {"value": "text"})


async def test_headers_and_timestamps_are_kept(api):
    await api.create_topic()
    headers = [{"name": "trace", "value": encode_base64(b"\x00\x01")}, {"name": "empty", "value": None}]
    records = [
        {"value": 1, "headers": headers, "timestamp": 1714564800000},
        {"value": 2, "timestamp": "2024-05-01T12:00:00.5Z"},
    ]
    await api.post("/topics/t", {"records": records})
    _, found = await api.get(RECORDS + "?offset=0")
    assert found[0]["headers"] == headers
    assert [record["timestamp"] for record in found] == [1714564800000, 1714564800500]
    _, answer = await api.get("/topics/t/partitions/0/offsets?timestamp=1714564800001")
    assert answer == {"beginning_offset": 0, "end_offset": 2, "offset": 1, "timestamp": 1714564800500}
    _, answer = await api.get("/topics/t/partitions/0/offsets?timestamp=1814564800001")
    assert (answer["offset"], answer["timestamp"]) == (None, None)


async def test_records_may_name_their_partitions(api):
    await api.create_topic(partitions=3)
    records = [{"value": 1, "partition": 2}, {"value": 2, "partition": 0}, {"value": 3, "partition": 2}]
    _, body = await api.post("/topics/t", {"records": records})
    assert body["offsets"] == [offset_row(2, 0), offset_row(0, 0), offset_row(2, 1)]


async def test_a_partly_failed_call_returns_200_with_a_code_for_each_record(api):
    await api.create_topic()
    status, body = await api.post("/topics/t", {"records": [{"value": 1}, {"value": 2, "partition": 5}]})
    assert status == 200
    assert body["offsets"][0] == offset_row(0, 0)
    failed = body["offsets"][1]
    assert (failed["offset"], failed["error_code"], failed["outcome"]) == (None, 40402, "failed")
    status, body = await api.post(
        "/topics/t", {"records": [{"value": 2, "partition": 5}, {"value": 1, "partition": 6}]}
    )
    assert (status, body["error_code"], body["outcome"]) == (404, 40402, "failed")


@pytest.mark.parametrize("acks", ["all", "1", "0"])
async def test_acks_are_accepted_and_acks_0_returns_no_offsets(api, acks):
    await api.create_topic()
    status, body = await api.post(f"/topics/t?acks={acks}", {"records": [{"value": 1}]})
    assert status == 200
    assert body["offsets"] == [offset_row(0, None if acks == "0" else 0)]
    _, found = await api.get(RECORDS + "?offset=0&timeout=10000")
    assert [record["value"] for record in found] == [1]


@pytest.mark.parametrize("codec", list(Compression))
async def test_stored_batches_are_returned_unchanged(api, codec):
    await api.create_topic()
    sent = build_batch([b'"%d"' % number for number in range(100)], codec)
    described = await api.get("/v3/clusters/-/topics/t")
    posting = api.session.post(
        f"{api.url}/topics/t/partitions/0", data=bytes(sent) * 2, headers={"Content-Type": BATCHES}
    )
    async with posting as response:
        assert response.status == 200
        assert response.headers["X-Raftlog-Topic-Id"] == described[1]["topic_id"]
        body = await response.json()
    assert body["offsets"] == [offset_row(0, 0)]
    assert (body["next_offset"], body["high_watermark"]) == (200, 200)
    headers = {"Accept": BATCHES}
    async with api.session.get(api.url + RECORDS + "?offset=150", headers=headers) as response:
        raw = await response.read()
        assert response.headers["Content-Type"] == BATCHES
        assert response.headers["X-Raftlog-High-Watermark"] == "200"
        assert response.headers["X-Raftlog-Log-Start"] == "0"
        assert response.headers["X-Raftlog-Next-Offset"] == "200"
        assert response.headers["X-Raftlog-Topic-Id"] == described[1]["topic_id"]
    ((header, batch),) = split_batches(raw)
    assert header.base_offset == 100
    assert bytes(batch[16:]) == bytes(sent[16:])
    assert [record.offset for record in read_records(batch)] == list(range(100, 200))
    _, found = await api.get(RECORDS + "?offset=150")
    assert [(record["offset"], record["value"]) for record in found] == [
        (offset, str(offset - 100)) for offset in range(150, 200)
    ]


async def test_batches_without_records_after_compaction_are_skipped(start_api):
    api = await start_api({"retention_interval_s": 0.05})
    await api.create_topic(cleanup_policy="compact", segment_bytes="16384", min_cleanable_dirty_ratio="0.01")
    for number in range(60):
        key = f"own {number}" if number < 3 else "same"
        records = [{"key": key, "value": "y"}, {"key": "same", "value": "x" * 500}]
        await api.post("/topics/t/partitions/0", {"records": records})

    async def is_compacted() -> bool:
        return (await api.get(RECORDS + "?offset=6&max_bytes=1"))[1][0]["offset"] > 50

    await until_async(is_compacted)
    for offset in (*range(8), 60, 119):  # wherever a reader stands
        async with api.session.get(f"{api.url}{RECORDS}?offset={offset}&timeout=0&max_bytes=1") as response:
            (record,) = await response.json()
            assert int(response.headers["X-Raftlog-Next-Offset"]) == record["offset"] + 1 > offset
    for format_ in (BATCHES, "application/json"):
        async with api.session.get(f"{api.url}{RECORDS}?offset=120&timeout=0", headers={"Accept": format_}) as response:
            assert (response.status, response.headers["X-Raftlog-Next-Offset"]) == (200, "120")


async def test_large_batches_are_stored_and_returned(api):
    await api.create_topic()
    sent = build_batch([b"x" * 1000] * 3000)
    status, _ = await api.post("/topics/t/partitions/0", data=io.BytesIO(sent), headers={"Content-Type": BATCHES})
    assert status == 200
    async with api.session.get(api.url + RECORDS + "?offset=0", headers={"Accept": BATCHES}) as response:
        assert len(await response.read()) == len(sent)


async def test_a_json_answer_ends_at_max_bytes_and_the_next_one_continues(api):
    await api.create_topic()
    await api.post("/topics/t", {"records": [{"value": "x" * 500} for _ in range(50)]})
    offset, sizes = 0, []
    while offset < 50:
        _, found = await api.get(f"{RECORDS}?offset={offset}&max_bytes=2000")
        assert found[0]["offset"] == offset
        offset = found[-1]["offset"] + 1
        sizes.append(len(found))
    assert max(sizes) <= 4


async def test_many_records_in_one_answer_are_in_order(api):
    await api.create_topic()
    await api.post("/topics/t", {"records": [{"value": number} for number in range(5000)]})
    _, found = await api.get(RECORDS + "?offset=10&max_bytes=16000000")
    assert [record["value"] for record in found] == list(range(10, 5000))


async def test_a_fetch_waits_for_the_next_record(api):
    await api.create_topic()
    waiting = asyncio.create_task(api.get(RECORDS + "?offset=0&timeout=20000"))
    await until(lambda: api.server._connections.requests_count)
    await api.post("/topics/t", {"records": [{"value": "news"}]})
    status, found = await waiting
    assert (status, [record["value"] for record in found]) == (200, ["news"])


async def test_a_fetch_at_the_end_returns_nothing_after_its_timeout(api):
    await api.create_topic()
    assert await api.get(RECORDS + "?offset=0&timeout=1") == (200, [])
    async with api.session.get(api.url + RECORDS + "?offset=0&timeout=0", headers={"Accept": BATCHES}) as response:
        assert (response.status, await response.read()) == (200, b"")


async def test_many_producers_at_once_get_distinct_contiguous_offsets(api):
    await api.create_topic()
    answers = await asyncio.gather(*[api.post("/topics/t", {"records": [{"value": n}]}) for n in range(200)])
    offsets = {answer["offsets"][0]["offset"]: n for n, (_, answer) in enumerate(answers)}
    assert sorted(offsets) == list(range(200))
    _, found = await api.get(RECORDS + "?offset=0")
    assert [record["value"] for record in found] == [offsets[offset] for offset in range(200)]
    assert api.broker.parts.counters.appends < 200


async def test_undecodable_records_can_be_skipped(api):
    await api.create_topic()
    broken = build_batch([b"1"] * 100, Compression.ZSTD)
    broken[70:] = b"\x00" * (len(broken) - 70)
    from_crc = crc32c(memoryview(broken)[21:])
    broken[17:21] = from_crc.to_bytes(4, "big")
    good = build_batch([b"2"])
    await api.post("/topics/t/partitions/0", data=bytes(good + broken + good), headers={"Content-Type": BATCHES})
    _, found = await api.get(RECORDS + "?offset=0")
    assert [record["offset"] for record in found] == [0]
    status, body = await api.get(RECORDS + "?offset=1")
    assert (status, body["error_code"]) == (422, 42207)
    assert "offset 101" in body["message"]
    _, found = await api.get(RECORDS + "?offset=101")
    assert [record["value"] for record in found] == [2]
