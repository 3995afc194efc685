"""Brokers and partitions on a simulated disk whose syncs come back by themselves, or when the test lets them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random

import pytest

from raftlog.config import LogConfig
from raftlog.partitions.broker import Broker
from raftlog.partitions.budget import Budget
from raftlog.partitions.counters import Counters
from raftlog.partitions.partition import Partition, clock_ms
from raftlog.partitions.settings import BrokerSettings
from raftlog.storage.simulated_disk import SimulatedDisk


class PumpedDisk(SimulatedDisk):
    """Completes every submitted sync in the next turn of the loop, unless `is_held`."""

    is_held = False

    def submit_sync(self, files, directories, done):
        super().submit_sync(files, directories, done)
        if not self.is_held:
            asyncio.get_running_loop().call_soon(self.complete_next)

    def let_go(self):
        """Complete what was held back, and hold nothing from now on."""
        self.is_held = False
        self.complete_all()


@pytest.fixture
def disk() -> PumpedDisk:
    return PumpedDisk(Random(7))


@pytest.fixture
async def open_partition(disk) -> AsyncIterator[Callable[..., Partition]]:
    opened: list[Partition] = []

    def open_(config: LogConfig | None = None, *, budget_bytes: int = 1 << 30, accumulate_bytes: int = 1 << 20):
        partition = Partition.open(
            disk,
            "/data/t/0",
            config or LogConfig(),
            name="t/0",
            budgets=(Budget(budget_bytes, "t/0"), Budget(1 << 30, "this broker")),
            counters=Counters(),
            accumulate_bytes_max=accumulate_bytes,
            create=True,
        )
        partition.counters = partition._counters
        opened.append(partition)
        return partition

    yield open_
    disk.let_go()
    for partition in opened:
        partition.close()


@pytest.fixture
async def open_broker(disk) -> AsyncIterator[Callable[..., Awaitable[Broker]]]:
    opened: list[tuple[Broker, int]] = []

    async def open_(clock=clock_ms, **settings) -> Broker:
        broker = await Broker.open(BrokerSettings(data_dir="/data", **settings), disk=disk, clock=clock)
        opened.append((broker, disk.epoch))
        return broker

    yield open_
    disk.let_go()
    for broker, epoch in opened:
        if broker.is_ready and epoch == disk.epoch:  # the process of an earlier epoch is dead
            await broker.close()
