"""Clients that put load on nodes and record the answers as histories for `jepsen.checkers`.

Every client is one process of the history with one operation under way. The node and the operation are drawn from the
seed. Errors that Maelstrom calls definite are `fail`, all others `info`."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from jepsen.checkers import Assign, Fetched, GroupOffsets, Op, Poll, Recorder, Send
from jepsen.checkers.history import ASSIGN, CAS, COMMIT, COMMITTED, POLL, READ, SEND, WRITE, Kind, Payload, Register
from raftlog.types import Offset, TopicPartition
from tests.maelstrom.driver import Body, Client, ErrorAnswer, Network
from tests.waiting import WITHIN_S

GROUP = "maelstrom"


class Load:
    """Clients of a network, and their history."""

    def __init__(self, network: Network, seed: int, keys: int, pause_s: float = 0.002) -> None:
        self.network, self.random, self.pause_s = network, Random(seed), pause_s
        self.keys = [f"k{number}" for number in range(keys)]
        self.history: list[Op] = []
        began = time.monotonic_ns()
        self.recorder = Recorder(lambda: time.monotonic_ns() - began, self.history.append)
        self.processes = 0
        self.successes = 0
        """Count of successful operations."""
        self._is_over = False

    async def run(self, work: Callable[["Worker"], Awaitable[None]], clients: int, meanwhile: Awaitable[None]) -> None:
        """Let each client run operations one after another until `meanwhile` ends."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(clients):
                tasks.create_task(self._work(work, Worker(self)))
            await meanwhile
            self._is_over = True

    async def _work(self, work: Callable[["Worker"], Awaitable[None]], worker: "Worker") -> None:
        while not self._is_over:
            await work(worker)
            await asyncio.sleep(self.pause_s)

    def count(self, kind: Kind, type_: str = "ok") -> int:
        return sum(op.kind == kind and op.type == type_ for op in self.history)


class Worker:
    """Client that draws and sends operations."""

    def __init__(self, load: Load) -> None:
        self.load, self.random = load, load.random
        self.client: Client = load.network.client()
        load.processes += 1
        self.process = load.processes
        self.positions: dict[str, int] = {}
        self._last_value = 0

    def node(self) -> str:
        return self.random.choice(self.load.network.names)

    def key(self) -> str:
        return self.random.choice(self.load.keys)

    def value(self) -> str:
        self._last_value += 1
        return f"{self.process}-{self._last_value}"

    async def operate(
        self, kind: Kind, asked: Payload, ask: Awaitable[Body], told: Callable[[Body], Payload]
    ) -> Body | ErrorAnswer:
        """Send an operation and record its outcome."""
        recorder = self.load.recorder
        invocation = recorder.invoke(self.process, kind, asked)
        try:
            body = await ask
        except ErrorAnswer as error:
            (recorder.fail if error.is_definite else recorder.info)(invocation, str(error))
            return error
        recorder.ok(invocation, told(body))
        self.load.successes += 1
        return body

    # kafka

    async def send_kafka_operation(self) -> None:
        """Send an operation of Maelstrom's `kafka` workload."""
        await self.random.choices((self.send, self.poll, self.list_committed), (5, 4, 2))[0]()

    async def send(self) -> None:
        key, value = self.key(), self.value()
        partition = _partition(key)
        await self.operate(
            SEND,
            Send(partition, (value,)),
            self.client.ask(self.node(), "send", key=key, msg=value),
            lambda body: Send(partition, (value,), (Offset(body["offset"]),)),
        )

    async def poll(self) -> None:
        """Poll all keys from their positions, and commit the fetched offsets, as Maelstrom's clients do."""
        if not self.positions:
            await self.seek()
        asked = dict(self.positions)
        body = await self.operate(
            POLL, Poll(), self.client.ask(self.node(), "poll", offsets=asked), lambda body: _poll_from(asked, body)
        )
        if isinstance(body, ErrorAnswer) or not body["msgs"]:
            return
        last = {key: messages[-1][0] for key, messages in body["msgs"].items()}
        self.positions.update({key: offset + 1 for key, offset in last.items()})
        offsets = GroupOffsets(GROUP, tuple((_partition(key), Offset(offset)) for key, offset in last.items()))
        await self.operate(
            COMMIT, offsets, self.client.ask(self.node(), "commit_offsets", offsets=last), lambda _: offsets
        )

    async def seek(self) -> None:
        """Set all positions to the beginning."""
        self.positions = dict.fromkeys(self.load.keys, 0)
        invocation = self.load.recorder.invoke(
            self.process, ASSIGN, Assign(tuple((_partition(key), Offset(0)) for key in self.positions))
        )
        self.load.recorder.ok(invocation)

    async def list_committed(self) -> None:
        keys = self.load.keys
        await self.operate(
            COMMITTED,
            GroupOffsets(GROUP, tuple((_partition(key), None) for key in keys)),
            self.client.ask(self.node(), "list_committed_offsets", keys=keys),
            lambda body: GroupOffsets(GROUP, tuple((_partition(key), body["offsets"].get(key)) for key in keys)),
        )

    async def drain(self) -> None:
        """Read from the beginning until all acknowledged messages were read."""
        await self.seek()
        ends = dict.fromkeys(self.load.keys, 0)
        for op in self.load.history:
            if op.kind == SEND and op.type == "ok":
                assert isinstance(op.payload, Send)
                key = op.payload.partition.topic
                ends[key] = max(ends[key], op.payload.offsets[0] + 1)
        async with asyncio.timeout(WITHIN_S):
            while any(self.positions[key] < end for key, end in ends.items()):
                await self.poll()

    # lin-kv

    async def send_register_operation(self) -> None:
        """Send an operation of Maelstrom's `lin-kv` workload; few values, so that some comparisons succeed."""
        await self.random.choices((self.read, self.write, self.cas), (5, 4, 3))[0]()

    async def read(self) -> None:
        key = self.key()

        async def ask() -> Body:
            try:
                return await self.client.ask(self.node(), "read", key=key)
            except ErrorAnswer as error:
                if error.code != 20:
                    raise
                return {"value": None}

        await self.operate(READ, Register(key), ask(), lambda body: Register(key, body["value"]))

    async def write(self) -> None:
        key, value = self.key(), self.random.randrange(4)
        asked = Register(key, value)
        await self.operate(WRITE, asked, self.client.ask(self.node(), "write", key=key, value=value), lambda _: asked)

    async def cas(self) -> None:
        key, expected, value = self.key(), self.random.randrange(4), self.random.randrange(4)
        asked = Register(key, value, expected)
        answer = self.client.ask(self.node(), "cas", key=key, **{"from": expected, "to": value})
        await self.operate(CAS, asked, answer, lambda _: asked)


def _partition(key: str) -> TopicPartition:
    return TopicPartition(key, 0)


def _poll_from(asked: dict[str, int], body: Body) -> Poll:
    """Convert a poll's answer; check that every key's messages begin at the requested offset."""
    fetched = []
    for key, messages in body["msgs"].items():
        assert messages[0][0] == asked[key], f"{key} asked from {asked[key]}, and sent {messages[0][0]}"
        offsets, values = zip(*messages, strict=True)
        fetched.append(Fetched(_partition(key), tuple(map(Offset, offsets)), values))
    return Poll(tuple(fetched))


def sum_reports(reports: dict[str, Body]) -> tuple[int, int]:
    """Return the operations of all nodes, and the messages between them."""
    total: Any = [(report["operations"], report["messages_between_nodes"]) for report in reports.values()]
    return sum(each[0] for each in total), sum(each[1] for each in total)
