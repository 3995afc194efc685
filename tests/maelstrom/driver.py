"""Stand-in for Maelstrom in tests: nodes as processes, and the network between them.

    async with Network(tmp_path, 3, seed=1) as network:      starts `raftlog maelstrom` and initializes every node
        client = network.client()
        await client.ask("n1", "echo", echo=5)               the answer's body; raises `ErrorAnswer` for an error

Every message between two nodes is delayed, and lost with some probability; `cut` keeps messages between sets of nodes
from passing until `heal`. Clients' messages are delayed only. Everything random comes from the seed. A message that
Maelstrom would refuse, or one from a node that is none of its own, fails the test."""

import asyncio
import base64
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any, Final, Self
from uuid import UUID

from raftlog.api.maelstrom.settings import RPC
from raftlog.raft import ReplicaId
from raftlog.raft.messages import AppendRequest, Heartbeat
from raftlog.runtime.rpc.calls import decode_call
from raftlog.runtime.rpc.frames.codec import TurnDecoder
from raftlog.runtime.rpc.frames.frame import Frame, FrameBound, FrameKind, FrameReader
from raftlog.testing import process_start
from raftlog.types import NodeId
from tests.waiting import WITHIN_S

DEFINITE: Final = frozenset((1, 10, 11, 12, 14, 20, 21, 22, 30))
TIMEOUT: Final = 0
ASK_TIMEOUT_S: Final = 10.0
FAST: Final = ("--tick-ms", "20", "--timeout-ms", "800", "--gossip-ms", "20", "--linger-ms", "1")
_LIMIT: Final = 64 << 20
Body = dict[str, Any]


class ErrorAnswer(Exception):
    """Error that a node answered."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code

    @property
    def is_definite(self) -> bool:
        return self.code in DEFINITE


class NodeProcess:
    """Process of `raftlog maelstrom` with its pipes."""

    def __init__(self, name: str, flags: Sequence[str]) -> None:
        self.name = name
        command = [sys.executable, "-P", "-m", "raftlog.cli", "maelstrom", *flags]
        pipe = subprocess.PIPE
        self.process: Any = process_start.start(command, stdin=pipe, stdout=pipe, stderr=pipe)
        self._tasks: list[asyncio.Task[bytes | None]] = []

    async def open(self, take: Any) -> None:
        loop = asyncio.get_running_loop()
        self._stdin, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, self.process.stdin)
        streams = []
        for pipe in (self.process.stdout, self.process.stderr):
            reader = asyncio.StreamReader(limit=_LIMIT)
            await loop.connect_read_pipe(lambda reader=reader: asyncio.StreamReaderProtocol(reader), pipe)
            streams.append(reader)
        self._tasks = [loop.create_task(self._read(streams[0], take)), loop.create_task(streams[1].read())]

    async def _read(self, stdout: asyncio.StreamReader, take: Any) -> None:
        while line := await stdout.readline():
            take(self.name, line)

    def write(self, data: bytes) -> None:
        if not self._stdin.is_closing():
            self._stdin.write(data)

    async def close_stdin(self) -> tuple[int, str]:
        """Close stdin and wait for the exit; return exit code and stderr."""
        self._stdin.close()
        return await self.wait()

    async def wait(self) -> tuple[int, str]:
        """Wait until the process exits; return exit code and stderr."""
        async with asyncio.timeout(WITHIN_S):
            await self._tasks[0]
            words = await self._tasks[1]
        return await asyncio.to_thread(self.process.wait, WITHIN_S), (words or b"").decode()

    def kill(self) -> None:
        self.process.kill()
        self._stdin.close()


def frames_in(body: Body) -> Iterator[Frame]:
    """Yield the frames of a message of type `raft`."""
    data = base64.b64decode(body["frames"])
    if not data:
        return
    reader = FrameReader({kind: FrameBound(len(data), len(data)) for kind in FrameKind}, len(data))
    reader.get_buffer()[:] = data
    reader.advance(len(data))
    while (frame := reader.next_frame()) is not None:
        yield frame


def is_of_leader(frame: Frame) -> bool:
    """Return whether the frame is a turn of Raft messages with one that only a leader sends."""
    if frame.kind is not FrameKind.TURN:
        return False
    # The first replica in the turn.
    sender = ReplicaId(NodeId(int.from_bytes(frame.body[2:10])), UUID(bytes=bytes(frame.body[10:26])))
    envelopes = TurnDecoder().decode(frame.body, frame.payload, sender)
    return any(isinstance(message, Heartbeat | AppendRequest) for _, message in envelopes)


class Client:
    """Client that sends requests to nodes, one after another or several at once."""

    def __init__(self, network: "Network", name: str) -> None:
        self._network, self.name = network, name
        self._last_id = 0
        self.waiting: dict[int, asyncio.Future[Body]] = {}

    async def ask(self, node: str, kind: str, timeout_s: float = ASK_TIMEOUT_S, **fields: Any) -> Body:
        """Return the answer; raise `ErrorAnswer` for an error, or (as Maelstrom does) for a timeout."""
        self._last_id += 1
        asked = self._last_id
        future = self.waiting[asked] = asyncio.get_running_loop().create_future()
        self._network.send(self.name, node, {"type": kind, "msg_id": asked, **fields})
        try:
            async with asyncio.timeout(timeout_s):
                body = await future
        except TimeoutError:
            raise ErrorAnswer(TIMEOUT, f"{node} did not answer {kind}") from None
        finally:
            del self.waiting[asked]
        if body["type"] == "error":
            raise ErrorAnswer(body["code"], body.get("text", ""))
        assert body["type"] == f"{kind}_ok", body
        return body

    async def ask_again(self, node: str, kind: str, **fields: Any) -> Body:
        """Retry until an answer is no error and return it; for requests that are safe to repeat."""
        async with asyncio.timeout(WITHIN_S):
            while True:
                try:
                    return await self.ask(node, kind, **fields)
                except ErrorAnswer:
                    continue


class Network:
    """Nodes, clients and the network between them: see the module."""

    def __init__(
        self,
        directory: Path,
        count: int,
        *flags: str,
        seed: int = 0,
        latency_s: tuple[float, float] = (0.0, 0.002),
        loss: float = 0.0,
    ) -> None:
        self.names = [f"n{number}" for number in range(1, count + 1)]
        self.messages: Counter[str] = Counter()
        """Between nodes, by type; lost ones too."""
        self.lost = 0
        self.leader = ""
        """Sender of the newest message that only a leader sends."""
        self.calls: Counter[str] = Counter()
        """Requests between nodes, by name."""
        self.latency_s, self.loss = latency_s, loss
        self._flags = ("--data-dir", str(directory / "data"), *FAST, *flags)
        self._random = Random(seed)
        self._blocked: set[tuple[str, str]] = set()
        """Source and destination of blocked messages; never iterated."""
        self._clients: dict[str, Client] = {}
        self.nodes: dict[str, NodeProcess] = {}
        self._started: list[NodeProcess] = []
        self.failures: list[str] = []
        self._setup = self.client()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        try:
            await asyncio.gather(*map(self.start, self.names))
        except BaseException:
            await self._kill()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                await self.stop()
        finally:
            await self._kill()
        assert not self.failures, self.failures

    async def _kill(self) -> None:
        for node in self._started:
            node.kill()
            await node.wait()

    async def start(self, name: str) -> None:
        """Start a node and send it its name."""
        node = self.nodes[name] = NodeProcess(name, self._flags)
        await node.open(self._take)
        self._started.append(node)
        await self._setup.ask(name, "init", WITHIN_S, node_id=name, node_ids=self.names)

    async def stop(self) -> dict[str, Body]:
        """Stop all nodes by closing their stdin; return the last report of each. Each must exit with 0."""
        ended = await asyncio.gather(*(node.close_stdin() for node in self.nodes.values()))
        reports = {}
        for name, (code, words) in zip(self.nodes, ended, strict=True):
            assert code == 0, f"{name} ended with {code}: {words}"
            assert "Traceback" not in words, words
            reports[name] = json.loads(words.strip().splitlines()[-1])
        self.nodes.clear()
        return reports

    def client(self) -> Client:
        name = f"c{len(self._clients) + 1}"
        client = self._clients[name] = Client(self, name)
        return client

    # faults

    def cut(self, *sides: Sequence[str]) -> None:
        """Separate these sets of nodes; all other nodes form another side."""
        side = {name: number for number, names in enumerate(sides, 1) for name in names}
        self._blocked = {pair for pair in self._pairs() if side.get(pair[0], 0) != side.get(pair[1], 0)}

    def silence(self, to: str) -> None:
        """Drop all messages of other nodes to this node; they still receive its messages."""
        self._blocked = {pair for pair in self._pairs() if pair[1] == to}

    def cut_at_random(self, random: Random) -> None:
        """Block links at random: one node, halves, halves with a bridge, a deaf or mute node, any, or none."""
        names = random.sample(self.names, len(self.names))
        half = len(names) // 2
        kind = random.randrange(6)
        if kind == 0:
            self.cut(names[:1])
        elif kind == 1:
            self.cut(names[:half])
        elif kind == 2:
            self.cut(names[:half], names[half + 1 :])
            self._blocked = {pair for pair in self._blocked if names[half] not in pair}
        elif kind == 3:
            self.silence(names[0])
            if random.random() < 0.5:
                self._blocked = {(dest, src) for src, dest in self._blocked}
        elif kind == 4:
            self._blocked = {pair for pair in self._pairs() if random.random() < 0.3}
        else:
            self.heal()

    def heal(self) -> None:
        self._blocked = set()

    def _pairs(self) -> list[tuple[str, str]]:
        return list(permutations(self.names, 2))

    # messages

    def send(self, src: str, dest: str, body: Body) -> None:
        """Send a message into the network."""
        line = json.dumps({"src": src, "dest": dest, "body": body}).encode() + b"\n"
        self._pass(src, dest, line, body)

    def write(self, node: str, line: bytes) -> None:
        """Write a line of any content directly to a node."""
        self.nodes[node].write(line)

    def _take(self, node: str, line: bytes) -> None:
        """Pass on a message that a node printed."""
        try:
            match json.loads(line):
                case {"src": str(src), "dest": str(dest), "body": {"type": str()} as body} if src == node:
                    self._pass(src, dest, line, body)
                case _:
                    self.failures.append(f"{node} sent {line[:200]!r}")
        except ValueError as error:
            self.failures.append(f"{node} sent {line[:200]!r}: {error}")

    def _pass(self, src: str, dest: str, line: bytes, body: Body) -> None:
        """Send a message on after its latency, unless it is lost."""
        if src in self.nodes and dest in self.names:
            self.messages[body["type"]] += 1
            if body["type"] == "raft":
                self._count_calls(src, body)
            if (src, dest) in self._blocked or self._random.random() < self.loss:
                self.lost += 1
                return
        self._loop.call_later(self._random.uniform(*self.latency_s), self._deliver, src, dest, line, body)

    def _count_calls(self, src: str, body: Body) -> None:
        for frame in frames_in(body):
            if is_of_leader(frame):
                self.leader = src
            elif frame.kind is FrameKind.CALL:
                self.calls[decode_call(frame, RPC)[1].name] += 1

    def _deliver(self, src: str, dest: str, line: bytes, body: Body) -> None:
        """Give a message to its node or client."""
        if dest in self.nodes:
            if (src, dest) not in self._blocked:
                self.nodes[dest].write(line)
        elif dest in self._clients:
            future = self._clients[dest].waiting.get(body.get("in_reply_to", 0))
            if future is not None and not future.done():
                future.set_result(body)
        elif dest not in self.names:
            self.failures.append(f"{src} sent a message to {dest}, which does not exist")
