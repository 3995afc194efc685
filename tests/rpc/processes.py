"""Processes that communicate over real sockets on loopback in one test, and a peer that sends arbitrary bytes."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from raftlog.cluster_secret import ClusterSecret
from raftlog.runtime.rpc.authentication import (
    Credentials,
    ProvingSide,
    credentials_of,
    decode_proof,
    encode_proof,
    transcript_of,
)
from raftlog.runtime.rpc.calls import Answer, Call
from raftlog.runtime.rpc.config import RpcConfig
from raftlog.runtime.rpc.endpoint import bounds_of_callers
from raftlog.runtime.rpc.frames.frame import Frame, FrameKind, FrameReader
from raftlog.runtime.rpc.handshake import (
    NONCE_SIZE,
    PROTOCOL_VERSION,
    Channel,
    HandshakeRefusal,
    Hello,
    PeerIdentity,
    decode_hello,
    decode_refusal,
    encode_hello,
    pack_hello,
)
from raftlog.runtime.rpc.tcp_transport import TcpTransport
from raftlog.runtime.rpc.tls import TlsContexts
from raftlog.runtime.transport import Envelope, ProcessHeartbeat
from raftlog.types import NodeId

QUICK = RpcConfig(reconnect_min_ms=5, reconnect_max_ms=20, close_timeout_ms=200)
CREDENTIALS = credentials_of(ClusterSecret((b"a secret of this test's processes",)))
_seeds: Iterator[int] = iter(range(1, 1 << 30))
Serve = Callable[[NodeId, object], Awaitable[object]]


def identity_of(node: int, **changes: Any) -> PeerIdentity:
    return PeerIdentity("blue", NodeId(node), uuid.UUID(int=node), 1, 1, f"host-{node}")._replace(**changes)


async def echo(node: NodeId, request: object) -> Answer:
    assert isinstance(request, Call)
    return Answer([node, request.value], request.payload)


class Inbox:
    """Queue of items in order of arrival."""

    def __init__(self) -> None:
        self._items: asyncio.Queue[Any] = asyncio.Queue()

    def put(self, *item: Any) -> None:
        self._items.put_nowait(item)

    async def next(self) -> Any:
        return await asyncio.wait_for(self._items.get(), 10)

    def __len__(self) -> int:
        return self._items.qsize()


class Process:
    """Transport with hooks that record their calls in `turns`, `beats` and `connections`."""

    def __init__(
        self,
        identity: PeerIdentity,
        config: RpcConfig = QUICK,
        tls: TlsContexts | None = None,
        serve: Serve = echo,
        credentials: Credentials = CREDENTIALS,
    ) -> None:
        self.identity = identity
        self.turns, self.beats, self.connections = Inbox(), Inbox(), Inbox()
        self.transport = TcpTransport(
            lambda: self.identity, Random(next(_seeds)), config, credentials=credentials, tls=tls
        )
        self.transport.on_envelopes = self.turns.put
        self.transport.on_heartbeat = self.beats.put
        self.transport.on_connection = self.connections.put
        self.transport.serve = serve

    @property
    def node(self) -> NodeId:
        return self.identity.node_id

    @property
    def address(self) -> tuple[str, int]:
        return self.transport.address

    async def wait_for_channels(self, node: int, channels: Sequence[Channel] = (Channel.RAFT, Channel.BULK)) -> None:
        """Wait until the channels to a node are connected; any other event fails the test."""
        missing = [(node, channel, True) for channel in channels]
        while missing:
            missing.remove(await self.connections.next())


@asynccontextmanager
async def run_processes(*processes: Process, port: int = 0) -> AsyncIterator[None]:
    """Run the processes; check at the end that no error was unhandled."""
    loop = asyncio.get_running_loop()
    failures: list[Mapping[str, Any]] = []
    loop.set_exception_handler(lambda _, context: failures.append(context))
    for process in processes:
        await process.transport.start("127.0.0.1", port)
    try:
        yield
    finally:
        for process in processes:
            await process.transport.close()
        loop.set_exception_handler(None)
    assert not failures, failures


@asynccontextmanager
async def run_cluster(*processes: Process) -> AsyncIterator[None]:
    """Run the processes connected to each other."""
    async with run_processes(*processes):
        addresses = {process.node: process.address for process in processes}
        for process in processes:
            process.transport.set_addresses({node: at for node, at in addresses.items() if node != process.node})
        for process in processes:
            for node in addresses:
                if node != process.node:
                    await wait_until_connected(process, node)
        yield


async def wait_until_connected(process: Process, node: int) -> None:
    """Wait until both channels to a node are connected."""
    while True:
        status = {peer.node: peer for peer in process.transport.peers()}[NodeId(node)]
        if status.raft.is_connected and status.bulk.is_connected:
            return
        await process.connections.next()


class RawPeer:
    """Socket with frames, without the rules of the transport."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._frames = FrameReader(_any_frame(), 1 << 20)

    @classmethod
    async def connect(cls, address: tuple[str, int]) -> "RawPeer":
        return cls(*await asyncio.open_connection(*address))

    def write(self, *buffers: Any) -> None:
        self.writer.write(b"".join(buffers))

    async def connect_handshake(self, hello: Hello, credentials: Credentials = CREDENTIALS) -> Hello | HandshakeRefusal:
        """Shake hands as the connecting side; return the other side's hello, or its refusal."""
        body = pack_hello(hello)
        self.write(*encode_hello(body))
        frame = await self.read_frame()
        if frame.kind is FrameKind.REFUSAL:
            return decode_refusal(frame.body)
        their_body = bytes(frame.body)
        transcript = transcript_of(body, their_body)
        self.write(*encode_proof(credentials.prove(ProvingSide.CONNECTOR, transcript)))
        frame = await self.read_frame()
        if frame.kind is FrameKind.REFUSAL:
            return decode_refusal(frame.body)
        proof = decode_proof(frame.body)
        assert credentials.accepts(proof, ProvingSide.ACCEPTOR, transcript)
        return decode_refusal(proof.refusal) if proof.refusal else decode_hello(their_body)

    async def accept_handshake(self, node: int, credentials: Credentials = CREDENTIALS) -> Channel:
        """Shake hands as the accepting side; return the requested channel."""
        their_body = bytes((await self.read_frame()).body)
        channel = decode_hello(their_body).channel
        body = pack_hello(hello_of(node, channel))
        transcript = transcript_of(their_body, body)
        self.write(*encode_hello(body))
        assert credentials.accepts(decode_proof((await self.read_frame()).body), ProvingSide.CONNECTOR, transcript)
        self.write(*encode_proof(credentials.prove(ProvingSide.ACCEPTOR, transcript)))
        return channel

    async def read_frame(self) -> Frame:
        """Return the next frame; raise `EOFError` if the connection ends first."""
        while (frame := self._frames.next_frame()) is None:
            data = await asyncio.wait_for(self.reader.read(65_536), 10)
            if not data:
                raise EOFError
            while data:
                if self._frames.missing_room:
                    self._frames.grow()
                room = self._frames.get_buffer()
                size = min(len(room), len(data))
                room[:size] = data[:size]
                self._frames.advance(size)
                data = data[size:]
        return frame

    async def wait_until_closed(self) -> bytes:
        """Wait until the other side closes; return its last bytes."""
        try:
            return await asyncio.wait_for(self.reader.read(-1), 10)
        except ConnectionError:
            return b""

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            return


class FakePeer:
    """Node that only shakes hands; `raft` has its connections for Raft."""

    def __init__(self, node: int, *, is_deaf: bool = False) -> None:
        self.node = NodeId(node)
        self.raft = Inbox()
        self.address: tuple[str, int]
        self._is_deaf = is_deaf
        self._writers: list[asyncio.StreamWriter] = []

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Accept one connection; its Raft messages are not read if this process is deaf."""
        self._writers.append(writer)
        raw = RawPeer(reader, writer)
        try:
            channel = await raw.accept_handshake(self.node)
        except (EOFError, ConnectionError):
            return  # the other side ended in the middle of the handshake; `listening` closes the writer
        if self._is_deaf:
            writer.transport.pause_reading()
        if channel is Channel.RAFT:
            self.raft.put(raw)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self.accept, "127.0.0.1", 0)
        self.address = server.sockets[0].getsockname()
        try:
            yield
        finally:
            server.close()
            for writer in self._writers:
                writer.transport.abort()
            for writer in self._writers:
                await RawPeer(asyncio.StreamReader(), writer).close()
            await server.wait_closed()


def _any_frame() -> Any:
    bounds = dict(bounds_of_callers(QUICK, Channel.RAFT))
    return dict.fromkeys(FrameKind, bounds[FrameKind.TURN])


def hello_of(node: int, channel: Channel = Channel.RAFT, **changes: Any) -> Hello:
    return Hello(PROTOCOL_VERSION, channel, b"raw boot", identity_of(node, **changes), bytes(NONCE_SIZE))


def envelopes_of(turn: Any) -> list[Envelope]:
    return list(turn[1])


def heartbeat_of(node: int, boot_epoch: int, journal_sequence: int) -> ProcessHeartbeat:
    return ProcessHeartbeat(identity_of(node).disk_uuid, boot_epoch, journal_sequence)
