"""Backups of partitions with transactions: only committed records are saved, at their offsets; markers become gaps."""

import asyncio
from pathlib import Path

import confluent_kafka

from raftlog.backup.backup import run_backup
from raftlog.backup.partition_copy import CopyOptions
from raftlog.backup.restore import RestoreOptions, RestorePlan, run_restore
from raftlog.backup.stores import DirectoryStore
from raftlog.client import BrokerClient
from raftlog.client.decode import read_batches
from raftlog.records import read_records
from raftlog.testing import BrokerProcess


def produce_transactions(kafka: str, name: str, *ends: str) -> confluent_kafka.Producer:
    """Produce transactions of three records each; every one is committed, aborted, or left open."""
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka, "transactional.id": name, "linger.ms": 0})
    producer.init_transactions(30)
    for number, end in enumerate(ends):
        producer.begin_transaction()
        for record in range(3):
            producer.produce("orders", b"%s %d %d" % (end.encode(), number, record), partition=0)
        producer.flush(30)
        if end != "open":
            (producer.commit_transaction if end == "commit" else producer.abort_transaction)(30)
    return producer


async def read(client: BrokerClient) -> tuple[tuple[int, int], list[tuple[int, bytes | None]]]:
    """Return bounds and committed records of the partition."""
    start, end = await client.offsets("orders", 0, linearizable=True)
    found, offset = [], int(start)
    while offset < end:
        fetched = await client.fetch_batches("orders", 0, offset, timeout_ms=500)
        for header, batch in read_batches(fetched.body):
            if not header.is_control:
                found += [(each.offset, each.value) for each in read_records(batch)]
            offset = header.next_offset
    return (start, end), found


async def test_only_committed_records_are_saved(tmp_path: Path) -> None:
    store = DirectoryStore(str(tmp_path / "backup"))
    with BrokerProcess(tmp_path / "old", "--kafka", "127.0.0.1:0") as old, BrokerProcess(tmp_path / "new") as new:
        old.start()
        new.start()
        async with BrokerClient(old.address) as client, BrokerClient(new.address) as target:
            await client.create_topic("orders")
            ends = ("commit", "abort", "commit", "abort")
            await asyncio.to_thread(produce_transactions, old.ready["kafka"], "first", *ends)
            held = await asyncio.to_thread(produce_transactions, old.ready["kafka"], "second", "commit", "open")
            saved = await run_backup(client, store, CopyOptions(), lambda _: None)
            bounds, records = await read(client)
            assert saved.records == len(records) == 9
            assert {value.split()[0] for _, value in records if value is not None} == {b"commit"}
            await run_restore(target, RestorePlan(store, RestoreOptions()), lambda _: None)
            assert await read(target) == (bounds, records)
            await asyncio.to_thread(held.commit_transaction, 30)
            assert (await run_backup(client, store, CopyOptions(), lambda _: None)).records == 3
            await target.delete_topic("orders")
            await run_restore(target, RestorePlan(store, RestoreOptions()), lambda _: None)
            assert await read(target) == await read(client)
