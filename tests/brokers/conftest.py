"""Fixtures: three brokers of one cluster in this process, with sockets on loopback, directories, short timeouts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.settings import BrokerSettings
from raftlog.raft import RaftSettings
from raftlog.runtime.config import DriverConfig
from raftlog.testing.ports import reserve_port
from tests.cluster_secret import SECRET
from tests.small_journal import SMALL_JOURNAL

DRIVER = DriverConfig(
    tick_ms=20,
    stall_ms=60_000,
    raft=RaftSettings(election_ticks_min=9, quiesce_after_ticks=28),
    journal=SMALL_JOURNAL.journal,
)
"""Brokers with it never count as stalled: leaders would change whenever the machine holds this process up."""


class Brokers:
    """Brokers of one cluster by node id; a stopped broker keeps its directory and addresses."""

    def __init__(self, directory: Path, ports: list[int], seeds: int | None, **settings: Any) -> None:
        """Configure one broker per port; the first `seeds` of them form the cluster (default: all).

        The others join it when they are started."""
        self._directory, self._settings, self._seeds = directory, settings, seeds
        self._rpc = {number: ("127.0.0.1", port) for number, port in enumerate(ports, 1)}
        self.running: dict[int, Broker] = {}
        self.kafka: dict[int, dict[str, str]] = {}
        """Addresses for Kafka's clients of each broker, by the name of the listener."""
        self.first_user: str | None = None

    async def start(self, *numbers: int) -> None:
        """Open and start the brokers with these node ids, or all, at the same time."""
        opened = {}
        for number in numbers or self._rpc:
            settings = BrokerSettings(
                data_dir=str(self._directory / str(number)),
                node_id=number,
                rpc=self._rpc[number],
                seeds=tuple(self._rpc.values())[: self._seeds],
                secret=SECRET,
                **{"driver": DRIVER, **self._settings},
            )
            opened[number] = self.running[number] = await Broker.open(settings)
        starts = (
            each.start(f"127.0.0.1:{number}", self.kafka.get(number, {}), self.first_user)
            for number, each in opened.items()
        )
        await asyncio.gather(*starts)

    async def stop(self, *numbers: int) -> None:
        """Stop the brokers with these node ids, or all."""
        stopped = [self.running.pop(number) for number in numbers or tuple(self.running)]
        await asyncio.gather(*(broker.close() for broker in stopped))

    def __getitem__(self, number: int) -> Broker:
        return self.running[number]

    async def leader(self, topic: str, partition: int = 0) -> int:
        """Wait until a broker reports the leader of the partition; return its number."""
        broker = next(iter(self.running.values()))
        while True:
            described = await broker.describe_topic(topic, deadline=deadline_in(5_000))
            leader = described.partitions[partition].leader
            if leader is not None and leader in self.running:
                return leader

    async def followers(self, topic: str, partition: int = 0) -> list[int]:
        leader = await self.leader(topic, partition)
        return [number for number in self.running if number != leader]


@asynccontextmanager
async def brokers_in(
    directory: Path, count: int = 3, *, seeds: int | None = None, **settings: Any
) -> AsyncIterator[Brokers]:
    """Provide brokers at reserved ports with data below the directory; stop them at the end."""
    held = [reserve_port() for _ in range(count)]
    brokers = Brokers(directory, [each.getsockname()[1] for each in held], seeds, **settings)
    try:
        yield brokers
    finally:
        await brokers.stop()
        for each in held:
            each.close()


@pytest.fixture
async def brokers(tmp_path) -> AsyncIterator[Brokers]:
    async with brokers_in(tmp_path) as three:
        await three.start()
        yield three
