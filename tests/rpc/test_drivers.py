"""Drivers of three processes over the real transport and real disks: what they commit is the same everywhere."""

import asyncio
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from raftlog.raft import ReplicaId, Role
from raftlog.records import NewRecord, build_batch
from raftlog.runtime.config import DriverConfig
from raftlog.runtime.journal.config import JournalConfig
from raftlog.runtime.process.driver import Driver
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.storage.real_disk import RealDisk
from raftlog.storage.roll import Roll, RollMember
from raftlog.types import NodeId
from tests.rpc.loops import FACTORIES
from tests.rpc.processes import Process, identity_of, run_cluster

GROUP = uuid.UUID(int=77)
CONFIG = DriverConfig(
    tick_ms=20,
    large_append_bytes=4096,
    journal=JournalConfig(file_bytes=1 << 18, write_bytes_max=1 << 16, reserve_bytes=1 << 16, checkpoint_bytes=1 << 20),
)
NODES = (1, 2, 3)


class Broker:
    """A driver on a directory, and its transport."""

    def __init__(self, node: int, directory: Path, pool: ThreadPoolExecutor, moved: asyncio.Event) -> None:
        self.process = Process(identity_of(node))
        loop = asyncio.get_running_loop()
        disk = RealDisk(pool.submit, loop.call_soon_threadsafe)
        transport = self.process.transport
        directory.mkdir()
        self.driver = Driver.open(
            disk,
            str(directory),
            ReplicaId(NodeId(node), self.process.identity.disk_uuid),
            transport,
            Random(node),
            CONFIG,
            boot_epoch=1,
            wall_ms=lambda: 1_000,
            create=True,
        )
        self.driver.on_step = lambda *_: moved.set()
        transport.on_envelopes, transport.on_heartbeat = self.driver.receive, self.driver.receive_heartbeat
        transport.serve = self.driver.serve

    @property
    def group(self) -> PartitionReplica:
        return self.driver.groups[GROUP.bytes]

    def values(self) -> list[bytes]:
        return [bytes(batch) for batch in self.group.read(0, 1 << 24)]


@pytest.mark.parametrize("new_loop", FACTORIES, ids=["asyncio", "uvloop"])
def test_three_drivers_commit_over_sockets(tmp_path: Path, new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    with ThreadPoolExecutor(4) as pool, asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(asyncio.wait_for(_commit(tmp_path, pool), 30))


async def _commit(directory: Path, pool: ThreadPoolExecutor) -> None:
    moved = asyncio.Event()

    async def until(is_true: Callable[[], bool]) -> None:
        while not is_true():
            moved.clear()
            await moved.wait()

    with ExitStack() as stack:
        brokers = [Broker(node, directory / str(node), pool, moved) for node in NODES]
        voters = tuple(RollMember(node, identity_of(node).disk_uuid) for node in NODES)
        for broker in brokers:
            broker.driver.create_group(Roll(GROUP, 1, 0, 0, -1, 1000, 1, voters))
        async with run_cluster(*(broker.process for broker in brokers)):
            for broker in brokers:
                broker.driver.start()
                stack.callback(broker.driver.close)
            await until(lambda: any(broker.group.core.role is Role.LEADER for broker in brokers))
            leader = next(broker for broker in brokers if broker.group.core.role is Role.LEADER)
            sizes = [10] * 60 + [20_000] * 5
            batches = [build_batch([NewRecord(b"%d" % at * size, None, 1)]) for at, size in enumerate(sizes)]
            await asyncio.gather(*(leader.group.propose([batch]) for batch in batches))
            await until(lambda: all(broker.group.high_watermark == len(sizes) for broker in brokers))
            values = [broker.values() for broker in brokers]
            assert len(values[0]) == len(sizes)
            assert values[0] == values[1] == values[2]
            assert all(broker.driver.messages_refused == 0 for broker in brokers)
