"""Stored batches with undecodable records: every reader over HTTP gets one named error, and nothing is skipped."""

import orjson

from raftlog.records import split_batches
from tests.undecodable import SMALL, TIMESTAMP_MS, make_bombs

BATCHES = {"Content-Type": "application/vnd.raftlog.batches"}
JSON = {"Accept": "application/vnd.kafka.json.v2+json"}
BINARY = {"Accept": "application/vnd.kafka.binary.v2+json"}
STORED = {"Accept": "application/vnd.raftlog.batches"}
LINES = {"Accept": "application/x-ndjson"}


async def store_between_valid_records(api, topic, batch):
    """Create a topic with the batch at offset 1, between two valid records."""
    await api.create_topic(topic)
    for body in ({"records": [{"value": "before", "timestamp": 5}]}, None, {"records": [{"value": "behind"}]}):
        options = {} if body else {"data": batch, "headers": BATCHES}
        status, answer = await api.post(f"/topics/{topic}/partitions/0", body, **options)
        assert status == 200, answer


def records_path(topic):
    return f"/topics/{topic}/partitions/0/records"


async def test_json_returns_the_records_before_and_then_the_error_until_the_offset_is_past_it(api):
    for number, sent in enumerate(SMALL):
        topic, behind = f"t{number}", 1 + sent.span
        await store_between_valid_records(api, topic, sent.batch)
        for accept in (JSON, BINARY):
            status, found = await api.get(f"{records_path(topic)}?offset=0&max_bytes=1", headers=accept)
            assert (status, [each["offset"] for each in found]) == (200, [0]), sent.name
            status, found = await api.get(f"{records_path(topic)}?offset=0", headers=accept)
            at = len(found)
            assert (status, [each["offset"] for each in found]) == (200, list(range(at))), sent.name
            status, error = await api.get(f"{records_path(topic)}?offset={at}", headers=accept)
            assert (status, error["error_code"], error["outcome"]) == (422, 42207, "failed"), sent.name
            assert error["undecodable"] == {"base_offset": 1, "offset": at, "next_offset": behind}, sent.name
            assert error["message"].startswith(f"{topic}/0: the records from offset {at} on cannot be decoded")
            status, found = await api.get(f"{records_path(topic)}?offset={behind}", headers=accept)
            assert (status, [each["offset"] for each in found]) == (200, [behind]), sent.name


async def test_stored_batches_are_returned_unchanged(api):
    for number, sent in enumerate(SMALL):
        await store_between_valid_records(api, f"t{number}", sent.batch)
        async with api.session.get(f"{api.url}{records_path(f't{number}')}?offset=0", headers=STORED) as response:
            batches = [bytes(batch) for _, batch in split_batches(await response.read())]
        assert [batch[16:] for batch in batches[1:2]] == [sent.batch[16:]], sent.name
        assert len(batches) == 3


async def test_lines_end_with_the_error_and_its_offsets(api):
    for number, sent in enumerate(SMALL):
        topic, behind = f"t{number}", 1 + sent.span
        await store_between_valid_records(api, topic, sent.batch)
        for query in ("offset=0", "offset=beginning&follow=true"):
            async with api.session.get(f"{api.url}{records_path(topic)}?{query}", headers=LINES) as response:
                *found, error = map(orjson.loads, (await response.read()).splitlines())
            assert [each["offset"] for each in found] == list(range(len(found))), sent.name
            assert (error["error_code"], error["next_offset"]) == (42207, len(found)), sent.name
            assert error["undecodable"]["next_offset"] == behind
        async with api.session.get(f"{api.url}{records_path(topic)}?offset={behind}", headers=LINES) as response:
            [found] = map(orjson.loads, (await response.read()).splitlines())
        assert found["value"] == "behind"


async def test_a_lookup_by_time_finds_undecodable_records(api):
    for number, sent in enumerate(SMALL):
        await store_between_valid_records(api, f"t{number}", sent.batch)
        status, found = await api.get(f"/topics/t{number}/partitions/0/offsets?timestamp={TIMESTAMP_MS}")
        assert (status, found["offset"]) == (200, 1), sent.name


async def test_consumer_instances_return_the_records_before_and_then_the_error_until_a_seek(start_api):
    api = await start_api({"group_initial_rebalance_delay_ms": 0, "offsets_partitions": 1})
    for number, sent in enumerate(SMALL):
        topic, behind, instance = f"t{number}", 1 + sent.span, f"/consumers/g/instances/c{number}"
        await store_between_valid_records(api, topic, sent.batch)
        format_ = ("json", "binary")[number % 2]
        await api.post("/consumers/g", {"name": f"c{number}", "format": format_, "auto.offset.reset": "earliest"})
        place = {"topic": topic, "partition": 0}
        await api.post(f"{instance}/assignments", {"partitions": [place]})
        found, status = [], 200
        while status == 200:
            status, answer = await api.get(f"{instance}/records?timeout=200")
            found += [each["offset"] for each in answer] if status == 200 else []
        assert found == list(range(len(found))), sent.name
        assert (status, answer["error_code"]) == (422, 42207), sent.name
        assert answer["undecodable"] == {"base_offset": 1, "offset": len(found), "next_offset": behind}
        assert (await api.get(f"{instance}/records?timeout=200"))[0] == 422, "asking again skips nothing"
        await api.post(f"{instance}/positions", {"offsets": [place | {"offset": behind}]})
        status, answer = await api.get(f"{instance}/records")
        assert (status, [each["offset"] for each in answer]) == (200, [behind]), sent.name
        await api.call("DELETE", instance)


async def test_compression_bombs_are_not_decompressed(start_api):
    api = await start_api({"opened_bytes_max": 1 << 20})
    for number, sent in enumerate(make_bombs()):
        topic = f"t{number}"
        await store_between_valid_records(api, topic, sent.batch)
        status, error = await api.get(f"{records_path(topic)}?offset=1")
        assert (status, error["undecodable"]) == (422, {"base_offset": 1, "offset": 1, "next_offset": 3}), sent.name
        status, found = await api.get(f"{records_path(topic)}?offset=3")
        assert (status, found[0]["value"]) == (200, "behind")
