"""Single brokers on a simulated disk whose syncs complete in the next turn, or when the test releases them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random

import pytest

from jepsen.simulation.disk.simulated_disk import SimulatedDisk
from raftlog.partitions.broker import Broker
from raftlog.partitions.node.environment import NodeEnvironment
from raftlog.partitions.settings import BrokerSettings
from raftlog.runtime.rpc.authentication import Credentials
from raftlog.runtime.rpc.tcp_transport import TcpTransport
from tests.small_journal import SMALL_JOURNAL


class PumpedDisk(SimulatedDisk):
    """Disk that completes every submitted sync in the next turn of the loop, unless `is_held`."""

    is_held = False

    def submit_sync(self, files, directories, done):
        super().submit_sync(files, directories, done)
        if not self.is_held:
            asyncio.get_running_loop().call_soon(self.complete_next)

    def release_syncs(self):
        """Complete the held syncs, and hold none from now on."""
        self.is_held = False
        self.complete_all()


def clock_ms() -> int:
    return 1_700_000_000_000


@pytest.fixture
def disk() -> PumpedDisk:
    return PumpedDisk(Random(7))


@pytest.fixture
async def open_broker(disk) -> AsyncIterator[Callable[..., Awaitable[Broker]]]:
    opened: list[tuple[Broker, int]] = []
    lives = iter(range(1_000))

    async def open_(clock=clock_ms, **settings) -> Broker:
        random = Random(next(lives))
        around = NodeEnvironment(
            disk=disk,
            make_transport=lambda identity: TcpTransport(identity, random, credentials=Credentials()),
            random=random,
            wall_ms=clock,
        )
        broker = await Broker.open(BrokerSettings(data_dir="/data", **{"driver": SMALL_JOURNAL, **settings}), around)
        opened.append((broker, disk.epoch))
        await broker.start("127.0.0.1:1")
        return broker

    yield open_
    disk.release_syncs()
    for broker, epoch in opened:
        if not broker.node.ended.done() and epoch == disk.epoch:  # the process of an earlier epoch was stopped
            await broker.close()
