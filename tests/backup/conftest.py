"""Fixtures: brokers behind HTTP, with topics whose logs have gaps and a later start, and clients of them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from raftlog.api.http.server.server import HttpServer, HttpSettings
from raftlog.backup.backup import BackupResult, run_backup
from raftlog.backup.partition_copy import CopyOptions
from raftlog.backup.restore import RestoreOptions, RestorePlan, RestoreResult, run_restore
from raftlog.backup.stores import BackupStore
from raftlog.client import BrokerClient
from raftlog.client.decode import read_batches
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.settings import BrokerSettings
from raftlog.records import NewRecord, build_batch, read_records
from raftlog.types import Offset
from tests.small_journal import SMALL_JOURNAL

SMALL_FILES = CopyOptions(file_bytes=5_000, parallel=2, give_up_after_s=20.0)
TEMPORARY = {
    "retention_ms": "-1",
    "retention_bytes": "-1",
    "cleanup_policy": "delete",
    "max_message_bytes": str(256 << 20),
    "min_insync_replicas": "1",
}
"""Settings of a topic during its restoration, as arguments of `create`."""
Content = list[tuple[Offset, int, bytes | None, bytes | None]]


class Served:
    """Broker of one behind HTTP, and a client of it."""

    def __init__(self, broker: Broker, client: BrokerClient) -> None:
        self.broker, self.client = broker, client

    async def produce(self, topic: str, partition: int, first: int, count: int, keys: int = 7) -> None:
        """Append records with the numbers from `first` on, in batches of three."""
        numbers = range(first, first + count)
        for begin in range(0, count, 3):
            records = [
                NewRecord(b"value %d" % each * 20, b"key %d" % (each % keys), each)
                for each in numbers[begin : begin + 3]
            ]
            await self.client.produce_batches(topic, partition, build_batch(records))

    async def content(self, topic: str, partition: int = 0) -> Content:
        """Return all records of a partition."""
        start, end = await self.client.offsets(topic, partition, linearizable=True)
        found: Content = []
        offset = int(start)
        while offset < end:
            fetched = await self.client.fetch_batches(topic, partition, offset, timeout_ms=500)
            for header, batch in read_batches(fetched.body):
                found += [(each.offset, each.timestamp, each.key, each.value) for each in read_records(batch)]
                offset = header.next_offset
        return [each for each in found if each[0] >= start]


Serve = Callable[[], Awaitable[Served]]


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Serve]:
    """Return a function that starts a broker of a new cluster."""
    opened: list[tuple[Broker, HttpServer, BrokerClient]] = []

    async def start() -> Served:
        data_dir = str(tmp_path / f"cluster-{len(opened)}")
        broker = await Broker.open(BrokerSettings(data_dir=data_dir, driver=SMALL_JOURNAL))
        server = HttpServer(broker, HttpSettings())
        host, port = await server.start("127.0.0.1", 0)
        await broker.start(f"{host}:{port}")
        client = BrokerClient(f"{host}:{port}")
        opened.append((broker, server, client))
        return Served(broker, client)

    yield start
    for broker, server, client in opened:
        await client.close()
        await server.stop(1.0)
        await broker.close()


async def create(served: Served, name: str, partitions: int = 1, **config: str) -> None:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    await served.broker.create_topic(name, partitions, config=settings, deadline=deadline_in(10_000))


async def save(served: Served, store: BackupStore, **options: Any) -> BackupResult:
    return await run_backup(served.client, store, SMALL_FILES, lambda _: None, **options)


async def restore(served: Served, store: BackupStore, **options: Any) -> RestoreResult:
    return await run_restore(served.client, RestorePlan(store, RestoreOptions(**options)), lambda _: None)
