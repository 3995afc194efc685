"""Isolation of reads over HTTP: records, stored batches, lines and offsets."""

import orjson

from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.replica import AppendPermission
from raftlog.records import TransactionMarker, split_batches
from tests.replica.transacting import confirm, transactional_batch

RECORDS = "/topics/t/partitions/0/records"
BATCHES = {"Accept": "application/vnd.raftlog.batches"}
UNCOMMITTED = "&isolation=read_uncommitted"


async def write(api, sequence, *values):
    replica = api.broker.parts.topics.get("t").partition(0).replica
    await replica.transactions.enlist(7, AppendPermission(0, "tx"), confirm, deadline_in(5_000))
    await replica.append([transactional_batch(sequence, *values)], -1)


async def end(api, *, is_commit):
    replica = api.broker.parts.topics.get("t").partition(0).replica
    await replica.transactions.end_transaction(TransactionMarker(7, 0, is_commit, 1), deadline_in(5_000))


async def values_from(api, offset, more=""):
    status, records = await api.get(f"{RECORDS}?offset={offset}&timeout=0{more}")
    assert status == 200, records
    return [(record["offset"], record["value"]) for record in records]


async def test_aborted_and_open_records_are_hidden_unless_uncommitted_ones_are_wanted(api):
    await api.create_topic()
    await write(api, 0, b"1", b"2")
    await end(api, is_commit=False)
    await write(api, 2, b"3")
    await end(api, is_commit=True)
    await write(api, 3, b"4")
    assert await values_from(api, 0) == [(3, 3)]
    assert await values_from(api, 0, UNCOMMITTED) == [(0, 1), (1, 2), (3, 3), (5, 4)]
    status, bounds = await api.get("/topics/t/partitions/0/offsets")
    assert (status, bounds["end_offset"]) == (200, 5)
    status, bounds = await api.get("/topics/t/partitions/0/offsets?isolation=read_uncommitted")
    assert (status, bounds["end_offset"]) == (200, 6)
    async with api.session.get(f"{api.url}{RECORDS}?offset=0&timeout=0", headers=BATCHES) as response:
        stored = [header for header, _ in split_batches(await response.read())]
        assert response.headers["X-Raftlog-Next-Offset"] == "5"
    assert [(header.base_offset, header.next_offset, header.record_count) for header in stored] == [
        (0, 3, 0),
        (3, 4, 1),
        (4, 5, 0),
    ]
    async with api.session.get(f"{api.url}{RECORDS}?offset=0", headers={"Accept": "application/x-ndjson"}) as response:
        lines = (await response.read()).splitlines()
    assert [orjson.loads(line)["offset"] for line in lines] == [3]


async def test_an_unknown_isolation_is_refused(api):
    await api.create_topic()
    status, body = await api.get(f"{RECORDS}?offset=0&isolation=serializable")
    assert status == 400
    assert "read_committed" in body["message"]
