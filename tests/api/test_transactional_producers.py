"""Transactions over HTTP: records, offsets, both ends, fencing, retries, and bad requests."""

import asyncio
from typing import Any

import pytest

from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.transactions.transitions import EPOCH_MAX
from raftlog.records import BatchBuilder, NewRecord
from tests.api.conftest import Api

BATCHES = {"Content-Type": "application/vnd.raftlog.batches"}
Identity = dict[str, int]


async def initialize(api: Api, name: str = "tx", **body: Any) -> Identity:
    status, found = await api.post(f"/transactions/{name}/producer", body)
    assert status == 200, found
    return found


async def send(
    api: Api,
    producer: Identity,
    *values: Any,
    sequence: int = 0,
    path: str = "/topics/t/partitions/0",
    name: str = "tx",
) -> tuple[int, Any]:
    body = {**producer, "sequence": sequence, "records": [{"value": value} for value in values]}
    return await api.post(f"{path}?transactional_id={name}", body)


async def end(api: Api, producer: Identity, *, commit: bool = True, name: str = "tx") -> tuple[int, Any]:
    return await api.post(f"/transactions/{name}/end", {**producer, "commit": commit})


async def read(api: Api, isolation: str = "read_committed", partition: int = 0) -> list[Any]:
    """Return the values of a partition, once all markers are written."""
    await api.broker.transactions.fence("tx", deadline=deadline_in(10_000))
    path = f"/topics/t/partitions/{partition}/records?offset=0&timeout=0&isolation={isolation}"
    return [row["value"] for row in (await api.get(path))[1]]


def batch_of(producer: Identity, *values: bytes, sequence: int = 0, is_transactional: bool = True) -> bytes:
    builder = BatchBuilder(**producer, base_sequence=sequence, is_transactional=is_transactional)
    for value in values:
        builder.append(NewRecord(value), 1_000)
    return bytes(builder.build())


async def commit_offset(api: Api, producer: Identity, offset: int, **member: Any) -> tuple[int, Any]:
    rows = [{"topic": "t", "partition": 0, "offset": offset}]
    return await api.post("/transactions/tx/offsets", {**producer, "group": "g", "offsets": rows, **member})


async def test_offsets_of_an_open_transaction_are_unstable(api: Api) -> None:
    """Readers of committed records wait for the end: otherwise they process its records again (F53)."""
    await api.create_topic()
    producer = await initialize(api)
    assert (await commit_offset(api, producer, 5))[0] == 204
    unstable = [{"topic": "t", "partition": 0}]
    assert (await api.get("/groups/g/offsets"))[1] == {"offsets": [], "unstable": unstable}
    producer = (await end(api, producer))[1]
    await api.broker.transactions.fence("tx", deadline=deadline_in(10_000))
    [row] = (await api.get("/groups/g/offsets"))[1].pop("offsets")
    assert row["offset"] == 5
    assert "unstable" not in (await api.get("/groups/g/offsets"))[1]


async def committed_offset(api: Api) -> int | None:
    rows = (await api.get("/groups/g/offsets"))[1]["offsets"]
    return rows[0]["offset"] if rows else None


async def test_transaction_commits_records_and_aborts_others(api: Api) -> None:
    await api.create_topic(partitions=2)
    first = await initialize(api)
    assert await send(api, first, "a", "b") == (
        200,
        {
            "offsets": [{"partition": 0, "offset": at, "error_code": None, "error": None} for at in (0, 1)],
            "key_schema_id": None,
            "value_schema_id": None,
        },
    )
    assert (await send(api, first, "c", path="/topics/t/partitions/1"))[0] == 200
    assert (await api.get("/topics/t/partitions/0/records?offset=0&timeout=0"))[1] == []
    status, second = await end(api, first)
    assert (status, second) == (200, {**first, "producer_epoch": first["producer_epoch"] + 1})
    # The next transaction may begin at once, while the markers of the last are under way; its sequences begin again.
    assert (await send(api, second, "lost"))[0] == 200
    status, third = await end(api, second, commit=False)
    assert (status, third["producer_epoch"]) == (200, 2)
    assert await read(api) == ["a", "b"]
    assert await read(api, partition=1) == ["c"]
    assert await read(api, "read_uncommitted") == ["a", "b", "lost"]


async def test_stored_batches_belong_to_transaction(api: Api) -> None:
    await api.create_topic()
    producer = await initialize(api)
    path = "/topics/t/partitions/0?transactional_id=tx"
    for attempt in range(2):
        status, found = await api.post(path, data=batch_of(producer, b"x", b"y"), headers=BATCHES)
        assert (status, found["offsets"][0]["offset"], found["next_offset"]) == (200, 0, 2)
        assert found["offsets"][0].get("duplicate", False) is (attempt == 1)
    plain = batch_of(producer, b"z", sequence=2, is_transactional=False)
    assert (await api.post(path, data=plain, headers=BATCHES))[0] == 400
    status, found = await api.post("/topics/t/partitions/0", data=batch_of(producer, b"z", sequence=2), headers=BATCHES)
    assert (status, found["error_code"]) == (400, 40002)
    assert (await end(api, producer))[0] == 200
    assert await read(api) == ["x", "y"]


async def test_retried_end_returns_the_same_identity_and_another_end_is_fenced(api: Api) -> None:
    await api.create_topic()
    first = await initialize(api)
    await send(api, first, "a")
    second = (await end(api, first))[1]
    assert await end(api, first) == (200, second)
    assert (await end(api, first, commit=False))[1]["error_code"] == 40910
    await send(api, second, "b")
    # A late repetition does not end the transaction that has begun since.
    assert (await end(api, first))[1]["error_code"] == 40910
    assert (await send(api, first, "late", sequence=1))[1]["error_code"] == 40910
    assert (await end(api, second))[0] == 200
    assert await read(api) == ["a", "b"]


async def test_newer_producer_fences_older_one_and_aborts_its_transaction(api: Api) -> None:
    await api.create_topic()
    zombie = await initialize(api)
    await send(api, zombie, "lost")
    newer = await initialize(api)
    assert newer["producer_id"] == zombie["producer_id"]
    assert newer["producer_epoch"] > zombie["producer_epoch"]
    for status, found in (
        await send(api, zombie, "late", sequence=1),
        await end(api, zombie),
        await end(api, zombie, commit=False),
        await commit_offset(api, zombie, 1),
        await api.post("/transactions/tx/producer", zombie),
    ):
        assert (status, found["error_code"]) == (409, 40910)
    assert (await send(api, newer, "kept"))[0] == 200
    assert (await end(api, newer))[0] == 200
    assert await read(api) == ["kept"]
    assert (await send(api, {**newer, "producer_id": 999}, "x"))[1]["error_code"] == 40913


async def test_request_that_names_a_foreign_producer_neither_writes_nor_delays_it(api: Api) -> None:
    await api.create_topic()
    owner, other = await initialize(api), await initialize(api, "other")
    assert (await send(api, owner, "a"))[0] == 200
    for sequence in (0, 1):
        status, found = await send(api, owner, "injected", sequence=sequence, name="other")
        assert (status, found["error_code"]) == (409, 40913)
    invented = {**owner, "producer_epoch": owner["producer_epoch"] + 1}
    refused = asyncio.create_task(send(api, invented, "invented"))
    foreign = asyncio.create_task(send(api, invented, "invented", name="other"))
    await asyncio.sleep(0)
    assert (await send(api, owner, "b", sequence=1))[0] == 200
    assert (await refused)[1]["error_code"] == 40910  # long before the request's timeout
    assert (await foreign)[1]["error_code"] == 40913
    assert (await end(api, owner))[0] == 200
    assert (await send(api, other, "c", name="other"))[0] == 200
    assert (await end(api, other, name="other"))[0] == 200
    await api.broker.transactions.fence("other", deadline=deadline_in(10_000))
    assert await read(api) == ["a", "b", "c"]


async def test_owner_gets_the_next_identity_and_retries_safely(api: Api) -> None:
    await api.create_topic()
    first = await initialize(api)
    await send(api, first, "lost")
    second = await initialize(api, **first)
    assert await initialize(api, **first) == second
    assert await end(api, second, commit=False) == (200, {**second, "producer_epoch": second["producer_epoch"] + 1})
    assert await read(api) == []


async def test_offsets_count_once_the_transaction_is_committed(api: Api) -> None:
    await api.create_topic()
    producer = await initialize(api)
    await send(api, producer, "a")
    assert await commit_offset(api, producer, 5) == (204, None)
    assert await committed_offset(api) is None
    producer = (await end(api, producer, commit=False))[1]
    await read(api)
    assert await committed_offset(api) is None
    assert await commit_offset(api, producer, 7) == (204, None)
    assert (await end(api, producer))[0] == 200
    await read(api)
    assert await committed_offset(api) == 7


async def test_offsets_of_zombie_member_are_refused(api: Api) -> None:
    await api.create_topic()
    producer = await initialize(api)
    join = {"protocols": [{"name": "range", "metadata": ""}], "rebalance_timeout_ms": 1000}
    joined = (await api.post("/groups/g/join", join))[1]
    member = {"member_id": joined["member_id"], "generation": joined["generation"]}
    assert await commit_offset(api, producer, 1, **member) == (204, None)
    stale = await commit_offset(api, producer, 1, member_id=member["member_id"], generation=joined["generation"] + 1)
    assert (stale[0], stale[1]["error_code"]) == (409, 40905)
    assert (await commit_offset(api, producer, 1, member_id="gone", generation=1))[1]["error_code"] == 40407
    assert (await commit_offset(api, producer, 1, member_id="gone"))[1]["error_code"] == 42203


async def test_nothing_to_commit_and_abort_of_nothing(api: Api) -> None:
    first = await initialize(api)
    assert (await end(api, first))[1]["error_code"] == 40914
    second = (await end(api, first, commit=False))[1]
    assert second["producer_epoch"] == first["producer_epoch"] + 1
    assert await end(api, first, commit=False) == (200, second)
    assert (await end(api, second, name="other"))[1]["error_code"] == 40913


async def test_epochs_are_used_up(api: Api) -> None:
    await api.create_topic()
    producer = await initialize(api)
    transactions = api.broker.transactions
    [coordinator] = [each for each in transactions.coordinators if "tx" in each.folded.records]
    record = coordinator.folded.records["tx"]
    coordinator.folded.records["tx"] = record._replace(epoch=EPOCH_MAX - 1)
    last = {**producer, "producer_epoch": EPOCH_MAX - 1}
    assert (await send(api, last, "a"))[0] == 200
    used_up = (await end(api, last))[1]
    assert used_up["producer_epoch"] == EPOCH_MAX
    assert (await send(api, used_up, "b"))[1]["error_code"] == 40914
    fresh = await initialize(api, **used_up)
    assert fresh["producer_epoch"] == 0
    assert fresh["producer_id"] != producer["producer_id"]
    assert (await send(api, fresh, "b"))[0] == 200
    assert (await end(api, fresh))[0] == 200
    assert await read(api) == ["a", "b"]


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("producer", {"timeout_ms": 0}, 400, 40002),
        ("producer", {"timeout_ms": 2_000_000_000}, 400, 40002),
        ("producer", {"producer_id": 1}, 422, 42203),
        ("producer", {"time": 1}, 400, 40002),
        ("end", {}, 422, 42203),
        ("end", {"producer_id": 1, "producer_epoch": 0}, 422, 42203),
        ("end", {"producer_id": 1, "producer_epoch": 0, "commit": "yes"}, 422, 42203),
        ("end", {"producer_id": 1, "producer_epoch": 32_768, "commit": True}, 400, 40002),
        ("end", {"producer_id": -1, "producer_epoch": 0, "commit": True}, 400, 40002),
        ("offsets", {"producer_id": 1, "producer_epoch": 0, "group": "g", "offsets": []}, 422, 42208),
        ("offsets", {"producer_id": 1, "producer_epoch": 0, "offsets": [{"topic": "t"}]}, 422, 42203),
    ],
)
async def test_bad_bodies_are_refused(api: Api, path: str, body: Any, status: int, code: int) -> None:
    await initialize(api)
    found = await api.post(f"/transactions/tx/{path}", body)
    assert (found[0], found[1]["error_code"]) == (status, code), found


async def test_bad_produce_requests_are_refused(api: Api) -> None:
    await api.create_topic(partitions=2)
    producer = await initialize(api)
    path = "/topics/t/partitions/0?transactional_id=tx"
    assert (await api.post(path, {"records": [{"value": 1}]}))[1]["error_code"] == 42203
    assert (await api.post(f"{path}&acks=1", {"records": [{"value": 1}]}))[1]["error_code"] == 40002
    ndjson = {"Content-Type": "application/x-ndjson"}
    assert (await api.post(path, data=b'{"value": 1}\n', headers=ndjson))[0] == 415
    assert (await send(api, producer, "x", path="/topics/t"))[1]["error_code"] == 40002
    assert (await send(api, producer, "x", path="/topics/nothing/partitions/0"))[1]["error_code"] == 40401
    assert (await send(api, producer, "x", path="/topics/t/partitions/7"))[1]["error_code"] == 40402
    assert (await send(api, producer, "x", name="unknown"))[1]["error_code"] == 40913
    assert (await send(api, producer, "x", path="/topics/__transaction_state/partitions/0"))[0] == 400
    rows = [{"topic": "nothing", "partition": 0, "offset": 1}]
    found = await api.post("/transactions/tx/offsets", {**producer, "group": "g", "offsets": rows})
    assert (found[0], found[1]["error_code"]) == (404, 40401)
