"""Brokers in this process for synchronous tests.

They run on a loop in a thread of their own, serve HTTP on loopback, and are controlled by ordinary calls."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from raftlog.api.http.server.server import HttpServer
from raftlog.client import BrokerClient
from raftlog.partitions.broker import Broker
from raftlog.partitions.settings import BrokerSettings
from raftlog.raft import RaftSettings
from raftlog.records import NewRecord, build_batch
from raftlog.runtime.config import DriverConfig
from raftlog.testing.ports import reserve_port
from tests.cluster_secret import SECRET
from tests.small_journal import SMALL_JOURNAL

T = TypeVar("T")
DRIVER = DriverConfig(
    tick_ms=20,
    raft=RaftSettings(election_ticks_min=9, quiesce_after_ticks=28),
    journal=SMALL_JOURNAL.journal,
)


class LocalBrokers:
    """Brokers by node id that run in a thread; `http` has their addresses."""

    def __init__(self, directory: Path, count: int, **settings: Any) -> None:
        self._directory, self._more = directory, {"driver": DRIVER} | settings
        self._held = [reserve_port() for _ in range(count)]
        self._rpc = [("127.0.0.1", each.getsockname()[1]) for each in self._held]
        self._running: dict[int, tuple[Broker, HttpServer]] = {}
        self.http: dict[int, str] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="brokers-here")
        self._thread.start()

    @property
    def bootstrap(self) -> str:
        return ",".join(self.http.values())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def start(self) -> None:
        self.run(self._start())

    async def _start(self) -> None:
        numbers = range(1, len(self._rpc) + 1)
        opened = [await Broker.open(self._settings(number)) for number in numbers]
        for number, broker in zip(numbers, opened, strict=True):
            server = HttpServer(broker)
            self.http[number] = "{}:{}".format(*await server.start("127.0.0.1", 0))
            self._running[number] = broker, server
        await asyncio.gather(*(self._running[number][0].start(self.http[number]) for number in numbers))

    def _settings(self, number: int) -> BrokerSettings:
        directory = str(self._directory / str(number))
        if len(self._rpc) == 1:
            return BrokerSettings(data_dir=directory, **self._more)
        return BrokerSettings(
            data_dir=directory,
            node_id=number,
            rpc=self._rpc[number - 1],
            seeds=tuple(self._rpc),
            secret=SECRET,
            **self._more,
        )

    def stop(self, number: int) -> None:
        """Stop a broker for good: its connections are closed, and its leaderships move to others."""
        self.run(self._stop(number))

    async def _stop(self, number: int) -> None:
        broker, server = self._running.pop(number)
        await server.stop(0.0)
        await broker.close()

    def close(self) -> None:
        for number in tuple(self._running):
            self.stop(number)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        for each in self._held:
            each.close()

    # requests of tests

    def call(self, name: str, *args: Any, **options: Any) -> Any:
        """Call a method of `BrokerClient`."""

        async def called() -> Any:
            async with BrokerClient(self.bootstrap.split(",")) as client:
                return await getattr(client, name)(*args, **options)

        return self.run(called())

    def create_topic(self, name: str, partitions: int = 1, **config: str) -> None:
        self.call("create_topic", name, partitions, config={key.replace("_", "."): config[key] for key in config})

    def produce(self, topic: str, partition: int, records: Sequence[NewRecord | bytes], per_batch: int = 100) -> None:
        for first in range(0, len(records), per_batch):
            batch = build_batch(records[first : first + per_batch])
            self.call("produce_batches", topic, partition, bytes(batch))


@contextmanager
def run_brokers(directory: Path, count: int = 1, **settings: Any) -> Iterator[LocalBrokers]:
    """Run `count` brokers; `settings` are fields of `BrokerSettings`."""
    brokers = LocalBrokers(directory, count, **settings)
    try:
        brokers.start()
        yield brokers
    finally:
        brokers.close()
