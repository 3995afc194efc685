"""States of transactions over HTTP, and their end by an operator."""

from typing import Any

from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.groups.results import TransactionalProducer
from raftlog.types import TopicPartition


def soon() -> Deadline:
    return deadline_in(10_000)


async def begin(api: Any) -> TransactionalProducer:
    """Begin a transaction with a partition and a group."""
    await api.create_topic()
    transactions = api.broker.transactions
    identity = await transactions.initialize("tx", 60_000, deadline=soon())
    producer = TransactionalProducer("tx", *identity)
    places = await transactions.find_partitions([TopicPartition("t", 0)], deadline=soon())
    await transactions.add_partitions(producer, list(places.values()), deadline=soon())
    await transactions.add_group(producer, "g", deadline=soon())
    return producer


async def test_transactions_are_listed_described_and_aborted(api: Any) -> None:
    assert await api.get("/transactions") == (200, {"transactions": []})
    assert (await api.get("/transactions/tx"))[1]["error_code"] == 40409
    producer = await begin(api)
    status, found = await api.get("/transactions")
    [row] = found["transactions"]
    assert (status, row["state"], row["producer_id"], row["producer_epoch"]) == (200, "Ongoing", *producer[1:])
    assert row["started_ms"] > 0
    assert row["age_ms"] >= 0
    status, found = await api.get("/transactions/tx")
    assert {**row, "age_ms": found["age_ms"]}.items() <= found.items()
    assert (found["partitions"], found["groups"]) == ([{"topic": "t", "partition": 0}], ["g"])
    for _ in range(2):
        assert (await api.post("/transactions/tx/abort"))[0] == 204
    status, found = await api.get("/transactions/tx")
    assert (found["state"], found["partitions"], found["started_ms"]) == ("CompleteAbort", [], None)
    assert found["producer_epoch"] == producer.epoch + 1
    assert (await api.post("/transactions/unknown/abort"))[1]["error_code"] == 40409


async def test_transactions_are_measured(api: Any) -> None:
    await begin(api)
    async with api.session.get(f"http://{api.address[0]}:{api.address[1]}/metrics") as response:
        lines = (await response.text()).splitlines()
    assert 'raftlog_transactional_ids{state="Ongoing"} 1.0' in lines
    assert 'raftlog_transactions_total{result="committed"} 0.0' in lines
    [oldest] = [line.split()[1] for line in lines if line.startswith("raftlog_transaction_oldest_age_seconds ")]
    assert 0 <= float(oldest) < 60
