"""Idempotent producers over HTTP: ids, sequences in JSON and in stored batches, retries, refusals; and record keys."""

import pytest

from raftlog.records import BatchBuilder, NewRecord, build_batch

BATCHES = {"Content-Type": "application/vnd.raftlog.batches"}


@pytest.fixture(autouse=True)
async def given_ids(api):
    """Request a producer id; the controller then assigns ids 0 to 999 to this broker."""
    assert (await api.post("/producers", {}))[0] == 200


def produce_body(sequence, *values, producer=0, epoch=0):
    return {
        "records": [{"value": value} for value in values],
        "producer_id": producer,
        "producer_epoch": epoch,
        "sequence": sequence,
    }


def offset_row(offset, **more):
    return {"partition": 0, "offset": offset, "error_code": None, "error": None, **more}


async def test_a_retry_returns_the_first_offsets(api):
    await api.create_topic()
    status, producer = await api.post("/producers", {})
    assert (status, producer["producer_epoch"]) == (200, 0)
    path, first = "/topics/t/partitions/0", producer["producer_id"]
    assert (await api.post("/producers", {}))[1]["producer_id"] == first + 1
    assert (await api.post("/producers?fresh=true", {}))[1]["producer_id"] >= first + 998
    assert (await api.post("/producers?fresh=maybe", {}))[0] == 400
    status, done = await api.post(path, produce_body(0, "a", "b", producer=first))
    assert (status, done["offsets"]) == (200, [offset_row(0), offset_row(1)])
    assert (await api.post(path, produce_body(2, "c", producer=first)))[1]["offsets"] == [offset_row(2)]
    status, again = await api.post(path, produce_body(0, "a", "b", producer=first))
    assert (status, again["offsets"]) == (200, [offset_row(0, duplicate=True), offset_row(1, duplicate=True)])
    status, again = await api.post(path, produce_body(2, "c", producer=first))
    assert (status, again["offsets"]) == (200, [offset_row(2, duplicate=True)])
    assert (await api.get(f"{path}/offsets"))[1]["end_offset"] == 3
    assert (await api.post("/topics/t", produce_body(3, "d", producer=first)))[1]["offsets"] == [offset_row(3)]


async def test_stored_batches_have_the_sequence_in_their_headers(api):
    await api.create_topic()
    builder = BatchBuilder(producer_id=9, producer_epoch=1, base_sequence=0)
    builder.append(NewRecord(b"x"), 5)
    batch = bytes(builder.build())
    path = "/topics/t/partitions/0"
    assert (await api.post(path, data=batch, headers=BATCHES))[1]["offsets"] == [offset_row(0)]
    status, again = await api.post(path, data=batch, headers=BATCHES)
    assert (status, again["offsets"], again["next_offset"]) == (200, [offset_row(0, duplicate=True)], 1)
    builder = BatchBuilder(producer_id=9, producer_epoch=-1, base_sequence=-1)
    builder.append(NewRecord(b"x"), 5)
    status, refused = await api.post(path, data=bytes(builder.build()), headers=BATCHES)
    assert (status, refused["outcome"]) == (400, "failed")


@pytest.mark.parametrize(
    ("sent", "status", "code", "outcome"),
    [
        (produce_body(3, "a"), 409, 40911, "failed"),
        (produce_body(0, "a", producer=1_000), 409, 40911, "failed"),
        (produce_body(7, "a", producer=1), 409, 40909, "failed"),
        (produce_body(0, "a", producer=1), 504, 50402, "unknown"),
        (produce_body(6, "a", producer=1, epoch=1), 409, 40909, "failed"),
        ({**produce_body(0, "a"), "sequence": None}, 422, 42203, "failed"),
        ({**produce_body(0, "a"), "producer_id": "7"}, 422, 42203, "failed"),
        (produce_body(-1, "a"), 400, 40002, "failed"),
        (produce_body(1 << 31, "a"), 400, 40002, "failed"),
        (produce_body(0, "a", epoch=1 << 15), 400, 40002, "failed"),
        (produce_body(0, "a", producer=1 << 63), 400, 40002, "failed"),
    ],
)
async def test_refused_sequences_return_their_code_and_outcome(api, sent, status, code, outcome):
    await api.create_topic()
    for sequence in range(6):
        await api.post("/topics/t/partitions/0", produce_body(sequence, "x", producer=1))
    answer, refused = await api.post("/topics/t/partitions/0", sent)
    assert (answer, refused["error_code"], refused["outcome"]) == (status, code, outcome), refused
    assert (await api.get("/topics/t/partitions/0/offsets"))[1]["end_offset"] == 6


async def test_an_older_epoch_is_fenced(api):
    await api.create_topic()
    path = "/topics/t/partitions/0"
    await api.post(path, produce_body(0, "x", epoch=2))
    status, refused = await api.post(path, produce_body(1, "x", epoch=1))
    assert (status, refused["error_code"]) == (409, 40910)


async def test_all_records_of_an_idempotent_call_go_to_one_named_partition(api):
    await api.create_topic(partitions=2)
    status, refused = await api.post("/topics/t", produce_body(0, "x"))
    assert status == 400
    assert "one partition" in refused["message"]
    apart = {**produce_body(0), "records": [{"value": 1, "partition": 0}, {"value": 2, "partition": 1}]}
    assert (await api.post("/topics/t", apart))[0] == 400
    together = {**produce_body(0), "records": [{"value": 1, "partition": 1}, {"value": 2, "partition": 1}]}
    status, done = await api.post("/topics/t", together)
    assert [each["offset"] for each in done["offsets"]] == [0, 1]
    assert (await api.post("/topics/t/partitions/7", produce_body(0, "x")))[0] == 404
    nothing = await api.post("/topics/t/partitions/0", {**produce_body(0), "records": [{}]})
    assert nothing[0] == 200


async def test_acks_0_and_1_are_deduplicated_too(api):
    await api.create_topic()
    for acks in ("0", "1", "all", "1"):
        status, done = await api.post(f"/topics/t/partitions/0?acks={acks}", produce_body(0, "x"))
        assert (status, done["offsets"][0]["offset"]) == (200, None if acks == "0" else 0)
    assert (await api.get("/topics/t/partitions/0/offsets?linearizable=true"))[1]["end_offset"] == 1


async def test_a_compacted_topic_refuses_records_without_a_key(api):
    await api.create_topic(cleanup_policy="compact")
    path = "/topics/t/partitions/0"
    status, refused = await api.post(path, {"records": [{"value": "x"}]})
    assert (status, refused["outcome"]) == (400, "failed")
    assert "no key" in refused["message"]
    status, some = await api.post(path, {"records": [{"value": "x"}, {"key": "k", "value": "x"}]})
    assert [each["error_code"] for each in some["offsets"]] == [40002, None]
    without, with_key = build_batch([b"x"]), build_batch([NewRecord(None, b"k")])
    assert (await api.post(path, data=bytes(without), headers=BATCHES))[0] == 400
    assert (await api.post(path, data=bytes(with_key), headers=BATCHES))[0] == 200
    assert (await api.post(path, produce_body(0, "x")))[0] == 400
    lines = {"Content-Type": "application/x-ndjson"}
    async with api.session.post(api.url + path, data=b'{"value": "x"}\n', headers=lines) as response:
        assert response.status == 400
    assert (await api.get(f"{path}/offsets"))[1]["end_offset"] == 2


async def test_records_are_deleted_below_an_offset(api):
    await api.create_topic()
    path = "/topics/t/partitions/0"
    await api.post(path, {"records": [{"value": number} for number in range(5)]})
    assert await api.call("DELETE", f"{path}/records?before=3") == (200, {"log_start_offset": 3})
    assert await api.call("DELETE", f"{path}/records?before=1") == (200, {"log_start_offset": 3})
    status, refused = await api.get(f"{path}/records?offset=2")
    assert (status, refused["beginning_offset"], refused["end_offset"]) == (400, 3, 5)
    assert (await api.call("DELETE", f"{path}/records?before=6"))[0] == 400
    assert await api.call("DELETE", f"{path}/records?before=5") == (200, {"log_start_offset": 5})
    assert (await api.get(f"{path}/records?offset=5"))[1] == []
    assert (await api.post(path, {"records": [{"value": "x"}]}))[1]["offsets"][0]["offset"] == 5
    assert (await api.call("DELETE", "/topics/__consumer_offsets/partitions/0/records?before=0"))[0] in (400, 404)


async def test_cleanup_settings_are_validated(api):
    await api.create_topic("log", cleanup_policy="compact,delete", min_cleanable_dirty_ratio="0.25")
    for name, value in (
        ("cleanup.policy", "shred"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("min.cleanable.dirty.ratio", "much"),
        ("delete.retention.ms", "-1"),
        ("producer.id.expiration.ms", "0"),
    ):
        with pytest.raises(Exception, match=name):
            await api.create_topic("bad", **{name.replace(".", "_"): value})
