"""Nodes with the controller, in one test process, on loopback and with real directories.

Waits are for events: every applied entry and every step wakes the waiters of conditions."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from raftlog.partitions.controller import ControllerHost, MetadataSettings, address_text
from raftlog.partitions.controller.machine import Addresses, CreateTopic, settings_of
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.node import Node, NodeSettings
from raftlog.raft import RaftSettings
from raftlog.runtime.config import DriverConfig
from raftlog.runtime.journal.config import JournalConfig
from raftlog.runtime.rpc.config import RpcConfig
from raftlog.testing.ports import reserve_port
from tests.cluster_secret import SECRET

WITHIN_S = 20.0
DRIVER = DriverConfig(
    tick_ms=20,
    raft=RaftSettings(quiesce_after_ticks=20),
    journal=JournalConfig(file_bytes=1 << 18, write_bytes_max=1 << 16, reserve_bytes=1 << 16, checkpoint_bytes=1 << 20),
)
RPC = RpcConfig(reconnect_min_ms=5, reconnect_max_ms=50, close_timeout_ms=200)
SETTINGS: dict[str, Any] = {"look_ms": 20, "look_ms_max": 50, "care_ms": 20, "attempt_ms": 500}


def node_settings(directory: Path, number: int, port: int | None, **changes: Any) -> NodeSettings:
    defaults: dict[str, Any] = {
        "data_dir": str(directory / str(number)),
        "node_id": number,
        "host_label": f"host-{number}",
        "rpc_port": port,
        "driver": DRIVER,
        "rpc": RPC,
        "secret": SECRET,
        "housekeeping_ms": 20,
        "settle_ms": 0,
    }
    return NodeSettings(**{**defaults, **changes})


def soon(seconds: float = WITHIN_S) -> Deadline:
    return deadline_in(seconds * 1_000)


class Broker:
    """One start of a node with its copy of the metadata."""

    def __init__(self, node: Node, metadata: ControllerHost, moved: asyncio.Event) -> None:
        self.node, self.metadata = node, metadata
        metadata.observers = [moved.set]
        node.on_step = lambda group, ready: moved.set()
        self.started: asyncio.Task[None] | None = None

    @property
    def number(self) -> int:
        return int(self.node.identity.node_id)

    @classmethod
    async def open(cls, settings: NodeSettings, metadata: MetadataSettings, moved: asyncio.Event) -> "Broker":
        """Open the node and its metadata; nothing runs yet."""
        node = await Node.open(settings)
        try:
            return cls(node, ControllerHost.open(node, metadata), moved)
        except BaseException:
            await node.stop()
            raise

    async def begin(self) -> None:
        """Start the node, and begin to start the metadata without waiting."""
        await self.node.start()
        addresses = Addresses(f"127.0.0.1:{9000 + self.number}", "", "")
        self.started = asyncio.create_task(self.metadata.start(addresses))

    async def stop(self) -> None:
        await self.metadata.stop()
        if self.started is not None:
            self.started.cancel()
            await asyncio.gather(self.started, return_exceptions=True)
        await self.node.stop()


class Brokers:
    """Nodes by number, with addresses that are known from the beginning."""

    def __init__(self, directory: Path, numbers: Iterable[int], seeds: Sequence[int] | None = None) -> None:
        self.directory, self.numbers = directory, tuple(numbers)
        self._held = {number: reserve_port() for number in self.numbers}
        self.seeds = tuple(seeds if seeds is not None else self.numbers)
        self.running: dict[int, Broker] = {}
        self.moved = asyncio.Event()
        self.settings: dict[str, Any] = dict(SETTINGS)
        self.node_changes: dict[str, Any] = {}

    def address(self, number: int) -> tuple[str, int]:
        return "127.0.0.1", self.port(number)

    def port(self, number: int) -> int:
        """Return the RPC port of a broker, reserved until the block ends."""
        return int(self._held[number].getsockname()[1])

    def move(self, number: int) -> None:
        """Give the node another port for its next start."""
        self._held[number].close()
        self._held[number] = reserve_port()

    def address_text(self, number: int) -> str:
        return address_text(self.address(number))

    async def begin(self, number: int, *, seeds: Sequence[int] | None = None, **changes: Any) -> Broker:
        """Start one node without waiting until it is in the cluster."""
        named = self.seeds if seeds is None else seeds
        metadata = MetadataSettings(seeds=tuple(self.address(seed) for seed in named), **self.settings)
        settings = node_settings(self.directory, number, self.port(number), **{**self.node_changes, **changes})
        broker = await Broker.open(settings, metadata, self.moved)
        self.running[number] = broker
        await broker.begin()
        return broker

    async def start(self, *numbers: int, **changes: Any) -> None:
        """Start these nodes, or all, and wait until they are in the cluster."""
        begun = [await self.begin(number, **changes) for number in numbers or self.numbers]
        async with asyncio.timeout(WITHIN_S):
            await asyncio.gather(*(broker.started for broker in begun if broker.started is not None))

    async def stop(self, *numbers: int) -> None:
        stopping = [self.running.pop(number) for number in numbers or tuple(self.running)]
        await asyncio.gather(*(broker.stop() for broker in stopping))

    async def close(self) -> None:
        """Stop all nodes and release their ports."""
        await self.stop()
        for held in self._held.values():
            held.close()

    async def wait_until(self, condition: Callable[[], object]) -> None:
        """Wait until the condition holds; test it again after each step of any node."""
        async with asyncio.timeout(WITHIN_S):
            while not condition():
                self.moved.clear()
                await self.moved.wait()

    def leader(self) -> int:
        """Return the number of the controller's leader; 0 without a leader."""
        for number, broker in self.running.items():
            group_id = broker.metadata.group_id
            known = None if group_id is None else broker.node.leader_of(group_id)
            if known is not None and known.is_ready:
                return number
        return 0

    async def wait_until_equal(self) -> bytes:
        """Wait until the states of all nodes are equal; return their hash."""

        def are_equal() -> bool:
            states = [broker.metadata.state for broker in self.running.values()]
            return len({(state.applied_index, state.state_hash()) for state in states}) == 1

        await self.wait_until(are_equal)
        return next(iter(self.running.values())).metadata.state.state_hash()

    def make_topic(self, name: str, number: int) -> CreateTopic:
        """Return the creation of a topic with one replica on the first broker."""
        broker = next(iter(self.running.values()))
        replica = broker.metadata.state.all_brokers()[0].replica
        return CreateTopic(name, UUID(int=0x7000 + number), ((replica,),), settings_of({}), 5_000)


class LogLines(logging.Handler):
    """Log lines of this project that a test can wait for."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[str] = []
        self._more = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())
        self._more.set()

    async def wait_for(self, text: str) -> str:
        """Wait for a line with this text; return the line."""
        async with asyncio.timeout(WITHIN_S):
            while (line := next((line for line in self._lines if text in line), None)) is None:
                self._more.clear()
                await self._more.wait()
        return line


@asynccontextmanager
async def log_lines() -> AsyncIterator[LogLines]:
    lines, logger = LogLines(), logging.getLogger("raftlog.partitions.controller")
    before = logger.level
    logger.addHandler(lines)
    logger.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        logger.removeHandler(lines)
        logger.setLevel(before)


@asynccontextmanager
async def brokers(
    directory: Path, numbers: Iterable[int], seeds: Sequence[int] | None = None
) -> AsyncIterator[Brokers]:
    """Configure nodes without starting them; those that run at the end are stopped."""
    cluster = Brokers(directory, numbers, seeds)
    try:
        yield cluster
    finally:
        await cluster.close()
