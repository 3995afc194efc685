"""Data directories that three brokers of release 0.1.0 wrote are opened by brokers of this release.

The directories hold the topics `orders` (100 and 60 records: the numbers from 0 on, and from 100 on) and `audit` (30
records, from 1000 on), a topic that was deleted, and what two groups committed. Broker 3 was stopped before the last 10
records of `audit` and of `orders/1` were written.
"""

import fcntl
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from raftlog.client import BrokerClient
from raftlog.client.decode import checked_batches, records_from
from raftlog.cluster_secret import ensure_secret
from raftlog.partitions.controller.machine import FEATURE_LEVEL_KNOWN
from raftlog.records import NewRecord, build_batch
from raftlog.testing.process import READY_SECONDS_MAX, BrokerProcess, wait_ready
from raftlog.types import TopicPartition

DIRECTORIES = Path(__file__).with_name("data_of_release_0_1_0.tar.xz")
WRITTEN = {
    TopicPartition("orders", 0): range(100),
    TopicPartition("orders", 1): range(100, 160),
    TopicPartition("audit", 0): range(1000, 1030),
}
COMMITTED = {
    "billing": {TopicPartition("orders", 0): 60, TopicPartition("orders", 1): 7},
    "auditors": {TopicPartition("audit", 0): 25},
}


HOST = "127.31.41.59"
"""Brokers that move are found while a majority stays where it was, so these run at the addresses that they had."""
RPC = {number: f"{HOST}:2800{number}" for number in (1, 2, 3)}
LOCK = Path(tempfile.gettempdir()) / "raftlog-test-release-0-1-0.lock"


@pytest.fixture
def old_brokers(tmp_path: Path) -> Iterator[dict[int, BrokerProcess]]:
    """Three brokers of this release on the directories, ready; other runs of this test on the machine wait."""
    with tarfile.open(DIRECTORIES) as archive:
        archive.extractall(tmp_path, filter="data")
    ensure_secret(str(tmp_path / "cluster.secret"))
    with LOCK.open("w") as lock, ExitStack() as stack:
        fcntl.flock(lock, fcntl.LOCK_EX)
        processes = {number: stack.enter_context(_process(tmp_path, number)) for number in RPC}
        _start(processes)
        yield processes


def _process(directory: Path, number: int) -> BrokerProcess:
    cluster = ("--seeds", ",".join(RPC.values()), "--cluster-secret-file", str(directory / "cluster.secret"))
    flags = ("--node-id", str(number), "--rpc", RPC[number], "--host-label", f"host-{number}", *cluster)
    return BrokerProcess(str(directory / str(number)), *flags, name=f"broker {number}")


def _start(processes: dict[int, BrokerProcess]) -> None:
    for process in processes.values():
        process.launch()
    wait_ready(list(processes.values()), READY_SECONDS_MAX)


def _addresses(processes: dict[int, BrokerProcess]) -> list[str]:
    return [process.address for process in processes.values()]


async def values(client: BrokerClient, place: TopicPartition) -> list[int]:
    """Return all records of a partition, which has few, as numbers."""
    numbers: list[int] = []
    while len(numbers) < (await client.offsets(*place)).end:
        fetched = await client.fetch_batches(*place, len(numbers), max_bytes=1 << 20)
        for header, batch in checked_batches(fetched.body):
            numbers += [int(record.value or b"") for record in records_from(header, batch, len(numbers))]
    return numbers


async def committed(client: BrokerClient, group: str) -> dict[TopicPartition, int]:
    offsets = await client.groups.committed(group)
    return {place: int(offset.offset) for place, offset in offsets.items()}


async def test_everything_is_there_and_writes_go_on(old_brokers: dict[int, BrokerProcess]) -> None:
    async with BrokerClient(_addresses(old_brokers)) as client:
        assert sorted(await client.topics()) == ["audit", "orders"]
        assert (await client.admin.features())["feature_level"] == FEATURE_LEVEL_KNOWN
        for place, numbers in WRITTEN.items():
            assert await values(client, place) == list(numbers)
        for group, offsets in COMMITTED.items():
            assert await committed(client, group) == offsets
        for place, numbers in WRITTEN.items():
            await client.produce_batches(*place, build_batch([NewRecord(b"7")]))
            assert await values(client, place) == [*numbers, 7]
        billing = {TopicPartition("orders", 0): 101}
        await client.groups.commit("billing", billing)
        assert await committed(client, "billing") == COMMITTED["billing"] | billing
        await client.admin.set_maintenance(1, True)  # an order of the level that 0.1.0 did not have
    for process in old_brokers.values():
        process.stop()
    _start(old_brokers)
    async with BrokerClient(_addresses(old_brokers)) as client:
        for place, numbers in WRITTEN.items():
            assert await values(client, place) == [*numbers, 7]
        assert await committed(client, "billing") == COMMITTED["billing"] | billing
        assert await committed(client, "auditors") == COMMITTED["auditors"]
