"""Bodies too large to parse in one step: same records and answers as small ones, without blocking the event loop."""

import base64
import io

import orjson
import pytest

from raftlog.api.http.records.large_records import PARSED_BYTES_MAX, VALUE_BYTES_MAX, parse_in_steps
from raftlog.api.http.records.new_records import parse_records
from raftlog.api.http.server.media import Format
from raftlog.api.http.server.problems import HttpProblem
from raftlog.partitions.routing.partition import CALL_BATCHES_MAX
from raftlog.records import Compression, build_batch
from raftlog.topic_config import MIB
from tests.loop_hold import HOLD_S_MAX, LoopHold
from tests.stepping import result_of

JSON = {"Content-Type": "application/vnd.kafka.json.v2+json"}
BINARY = {"Content-Type": "application/vnd.kafka.binary.v2+json"}


def parse_body(body, format_=Format.JSON):
    return result_of(parse_in_steps(body, format_))


async def send(api, path, body, headers=JSON):
    async with api.session.post(api.url + path, data=io.BytesIO(body), headers=headers) as response:
        return response.status, await response.json()


async def fetch_records(api, topic="t", count=None):
    """Return the records of partition 0."""
    found, offset = [], 0
    while True:
        _, more = await api.get(f"/topics/{topic}/partitions/0/records?offset={offset}&timeout=0&max_bytes=8000000")
        if not more:
            return found
        found += more
        offset = more[-1]["offset"] + 1


def records_of_all_kinds(count):
    return [
        {
            "value": {"n": number, "text": 'a,]}"[{\\ é\n' * (number % 50), "nested": [[], {}, [{"a": [number]}]]},
            "key": f"key {number}" if number % 3 else None,
            "headers": [{"name": "h", "value": base64.b64encode(b"x" * (number % 9)).decode()}] if number % 5 else None,
            "timestamp": 1_700_000_000_000 + number,
        }
        if number % 2
        else {"value": number}
        for number in range(count)
    ]


@pytest.mark.parametrize("indent", [0, orjson.OPT_INDENT_2])
def test_a_large_body_has_the_same_records_as_a_small_one(indent):
    body = orjson.dumps(
        {"producer_id": 5, "producer_epoch": 0, "sequence": 7, "records": records_of_all_kinds(5_000)}, option=indent
    )
    assert len(body) > 4 * PARSED_BYTES_MAX
    assert parse_body(body) == parse_records(body, Format.JSON)
    body = orjson.dumps(
        {"records": [{"value": 1}, {"value": 2, "partition": 3}] * 20_000, "producer_id": None}, option=indent
    )
    assert parse_body(bytearray(body)) == parse_records(body, Format.JSON)


def test_a_record_may_have_large_members():
    value = b"[" + b'{"a": [1, 2.50, "\\u00e9"]}, ' * 20_000 + b"0]"
    assert len(value) > VALUE_BYTES_MAX
    body = b'{"records": [{"value": 1}, {"key": "k", "value": ' + value + b' , "partition": 2}, {"value": 3}]}'
    records, partitions, _ = parse_body(body)
    assert [record.value for record in records] == [b"1", value, b"3"], "as it was sent"
    assert (records[1].key, partitions) == (b'"k"', [None, 2, None])
    text = orjson.dumps("é\n" * 200_000)
    for encoding, expected in (("json", text), ("text", ("é\n" * 200_000).encode())):
        body = b'{"records":[{"encoding":{"value":"%b"},"value":%b}]}' % (encoding.encode(), text)
        assert parse_body(body)[0][0].value == expected
    raw = bytes(range(256)) * 2_000
    body = orjson.dumps({"records": [{"value": base64.b64encode(raw).decode()}]})
    assert parse_body(body, Format.BINARY)[0][0].value == raw


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b'{"records":[%b{"value":]}' % (b'{"value":1},' * 40_000), "JSON"),
        (b'{"records":[%b{"value":1}]' % (b'{"value":1},' * 40_000), "not an object"),
        (b'{"records":[%b{"value":1}],}' % (b'{"value":1},' * 40_000), "JSON"),
        (b'{"records":[%b]}' % (b'{"value":1},' * 40_000), "JSON"),
        (b'{"records":[%b{"value":1}]}]' % (b'{"value":1},' * 40_000), "not an object"),
        (b'{"records":[%b7]}' % (b'{"value":1},' * 40_000), "record 40000: it is not a JSON object"),
        (b'{"records":[%b{"values":1}]}' % (b'{"value":1},' * 40_000), "record 40000: unknown field 'values'"),
        (b'{"records":{"a":[%b7]}}' % (b"1," * 400_000), 'no list "records"'),
        (b'{"other":[%b7]}' % (b"1," * 400_000), 'no list "records"'),
        (b'{"other":[%b7,]}' % (b"1," * 400_000), "JSON"),
        (b'{"records":[{"value":[%b7,]}]}' % (b"1," * 400_000), "record 0"),
        (b'{"records":[{"value":%b%b}]}' % (b"[" * 200_000, b"]" * 200_000), "bytes without a comma"),
        (b'{"records":[{"value":%b1%b}]}' % (b"[0," * 200_000, b"]" * 200_000), "nested deeper than 254"),
        (b'{"records":[{"headers":[%b7]}]}' % (b"1," * 1_000_000), "headers has 2000003 bytes"),
        (b'{"records":[{"value":"%b}]}' % (b"a," * 400_000), "not terminated"),
    ],
)
async def test_invalid_input_is_named_and_nothing_is_stored(api, body, word):
    await api.create_topic()
    status, said = await send(api, "/topics/t", body)
    assert (status, said["error_code"], said["outcome"]) == (422, 42203, "failed")
    assert word in said["message"]
    assert len(said["message"]) < 300
    assert (await api.get("/topics/t/partitions/0/offsets"))[1]["end_offset"] == 0


async def test_a_body_with_a_hundred_thousand_records_is_stored(api):
    await api.create_topic(partitions=3)
    body = b'{"records":[' + b",".join(b'{"value":%d,"partition":%d}' % (at, at % 3) for at in range(100_000)) + b"]}"
    async with LoopHold() as hold:
        status, said = await send(api, "/topics/t", body)
    assert status == 200
    rows = [(row["partition"], row["offset"], row["error_code"]) for row in said["offsets"]]
    assert rows == [(at % 3, at // 3, None) for at in range(100_000)]
    found = await fetch_records(api)
    assert [row["value"] for row in found] == list(range(0, 100_000, 3))
    assert hold.longest_s < HOLD_S_MAX


async def test_each_record_of_a_large_body_has_its_own_result(api):
    await api.create_topic(max_message_bytes="300000")
    body = orjson.dumps(
        {"records": [{"value": "x" * 400_000}, *({"value": at} for at in range(2_000)), {"value": 1, "partition": 7}]}
    )
    status, said = await send(api, "/topics/t", body)
    codes = [row["error_code"] for row in said["offsets"]]
    assert (status, codes) == (200, [413, *[None] * 2_000, 40402])
    assert [row["offset"] for row in said["offsets"][1:-1]] == list(range(2_000))
    status, said = await send(api, "/topics/t/partitions/5", body[:-30] + b"}]}")
    assert (status, said["error_code"], len(said["offsets"])) == (404, 40402, 2_001)


async def test_an_idempotent_producer_may_send_a_large_body(api):
    await api.create_topic()
    _, given = await api.post("/producers", {})
    body = orjson.dumps({"records": [{"value": at} for at in range(20_000)], "sequence": 0, **given})
    for _ in range(2):
        status, said = await send(api, "/topics/t", body)
        assert (status, said["offsets"][19_999]["offset"]) == (200, 19_999)
    assert said["offsets"][0]["duplicate"]
    assert len(await fetch_records(api)) == 20_000


@pytest.mark.parametrize(
    "unit", [b"[],", b'{"":0},', b'"a",', b'{"value":0},', b"[[[[0]]]],", b'"\\"",'], ids=lambda unit: unit.decode()
)
@pytest.mark.parametrize("is_value", [True, False])
async def test_json_with_very_many_values_does_not_block_the_loop(api, unit, is_value):
    await api.create_topic()
    many = unit * (8 * MIB // len(unit)) + b"0"
    body = b'{"records":[{"value":[%b]}]}' % many if is_value else b'{"records":[%b]}' % many
    async with LoopHold() as hold:
        status, said = await send(api, "/topics/t", body)
    assert (status, said["error_code"]) == ((413, 413) if is_value else (422, 42203)) or b"value" in unit
    assert hold.longest_s < HOLD_S_MAX
    assert api.server.bodies.memory.used == 0


async def test_calls_with_too_many_batches_are_refused(api):
    await api.create_topic()
    batch = bytes(build_batch([b""]))
    path, headers = "/topics/t/partitions/0", {"Content-Type": "application/vnd.raftlog.batches"}
    status, said = await send(api, path, batch * (CALL_BATCHES_MAX + 1), headers)
    assert (status, said["error_code"]) == (413, 413)
    async with LoopHold() as hold:
        status, said = await send(api, path, batch * CALL_BATCHES_MAX, headers)
    assert (status, said["next_offset"]) == (200, CALL_BATCHES_MAX)
    assert hold.longest_s < HOLD_S_MAX


@pytest.mark.parametrize("unit", [b"[],", b'{"":0},'], ids=lambda unit: unit.decode())
async def test_stored_values_that_decompress_to_much_do_not_block_the_loop(api, unit):
    """Produce a batch of a few KiB with a JSON value of eight MiB, which must not be parsed into objects."""
    await api.create_topic()
    value = b"[" + unit * (8 * MIB // len(unit)) + b"0]"
    batch = bytes(build_batch([value, b"[1,", value[:-1]], Compression.GZIP))
    status, _ = await send(api, "/topics/t/partitions/0", batch, {"Content-Type": "application/vnd.raftlog.batches"})
    assert status == 200
    async with LoopHold() as hold:
        url = api.url + "/topics/t/partitions/0/records?offset=0&max_bytes=16000000"
        async with api.session.get(url) as response:
            text = await response.read()
    assert text.startswith(b'[{"topic":"t","key":null,"value":' + value)
    assert text.count(b"encoding") == 2, "those that are not JSON"
    assert hold.longest_s < HOLD_S_MAX


def test_an_undecodable_large_body_is_an_http_problem():
    with pytest.raises(HttpProblem):
        parse_body(b"\xff" * 300_000)
