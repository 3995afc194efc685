"""Transport of one process over the simulated network, by datagrams or by one ordered stream per pair of nodes.

The driver uses it as it uses real connections. Sent buffers are copied to bytes, as by a kernel, so
that later changes by their sender have no effect. Each bulk request opens a stream. Messages are dropped while the
stream to their receiver is being opened."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final, Protocol

from jepsen.simulation.network.network import SimulatedNetwork
from jepsen.simulation.network.streams import Stream
from jepsen.simulation.node import Node, Process
from raftlog.errors import RaftlogError
from raftlog.raft.messages import AppendRequest
from raftlog.runtime.transport import Envelope, ProcessHeartbeat, Transport
from raftlog.types import NodeId

RAFT: Final = "raft"
BULK: Final = "bulk"
REQUEST_TIMEOUT_S: Final = 4.0
RECONNECT_S: Final = 0.05


class Receiver(Protocol):
    """Interface of the driver for received messages."""

    def receive(self, node: NodeId, envelopes: Sequence[Envelope]) -> None:
        """Receive messages of Raft groups from a node."""
        ...

    def receive_heartbeat(self, node: NodeId, heartbeat: ProcessHeartbeat) -> None:
        """Receive a heartbeat of a node's process."""
        ...

    async def serve(self, node: NodeId, request: object) -> object:
        """Return the answer to a bulk request. Raises `RaftlogError` for a refusal."""
        ...


class SimulatedTransport(Transport):
    """Transport of one process. `deliver_to` sets the receiver of incoming messages."""

    def __init__(
        self,
        network: SimulatedNetwork,
        process: Process,
        nodes: dict[NodeId, Node],
        *,
        streams: bool,
        watch: Callable[[Sequence[Envelope]], None],
    ) -> None:
        self._network, self._process, self._nodes = network, process, nodes
        self._numbers = {node.number: number for number, node in nodes.items()}
        self._watch = watch
        self._peer_streams = (
            {number: PeerStream(network, process, node) for number, node in nodes.items()} if streams else {}
        )
        self._receiver: Receiver | None = None

    def deliver_to(self, receiver: Receiver) -> None:
        """Set the receiver of messages and requests, and accept them from now on; runs in the process."""
        self._receiver = receiver
        network, process = self._network, self._process
        network.bind(process, RAFT, self._on_datagram)
        network.listen(process, RAFT, self._accept_stream)
        network.listen(process, BULK, self._accept_bulk)

    # out

    def send(self, node: NodeId, envelopes: Sequence[Envelope]) -> None:
        """Show the messages to the observer, and send them; they may be lost."""
        self._watch(envelopes)
        self._transmit(node, [freeze_envelope(envelope) for envelope in envelopes], size_of(envelopes))

    def send_heartbeat(self, node: NodeId, heartbeat: ProcessHeartbeat) -> None:
        """Send a heartbeat of this process; it may be lost."""
        self._transmit(node, heartbeat, 16)

    def _transmit(self, node: NodeId, message: object, size_bytes: int) -> None:
        """Send a message by stream or datagram; do nothing for an unknown node."""
        destination = self._nodes.get(node)
        if destination is None:
            return
        if self._peer_streams:
            self._peer_streams[node].send(message, size_bytes)
        else:
            self._network.send(self._process, destination, RAFT, message, size_bytes)

    async def request(self, node: NodeId, request: object) -> object:
        """Send a bulk request over a stream of its own, and return the answer.

        Raises `TimeoutError`, or `OSError` for an unreachable node or a refusal."""
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                stream = await self._network.connect(self._process, self._nodes[node], BULK)
                try:
                    stream.send(freeze(request), size_bytes=200)
                    answer = await stream.receive()
                finally:
                    stream.close()
        except EOFError as error:
            raise ConnectionResetError(str(error)) from error
        if isinstance(answer, RaftlogError):
            raise ConnectionAbortedError(f"refused: {answer}")
        return answer

    # in

    def _on_datagram(self, source: Node, message: object) -> None:
        """Pass a received message to the receiver, if there is one."""
        receiver, node = self._receiver, self._numbers[source.number]
        if receiver is None:
            return
        if isinstance(message, ProcessHeartbeat):
            receiver.receive_heartbeat(node, message)
        else:
            receiver.receive(node, message)  # type: ignore[arg-type]  # nothing else is sent

    def _accept_stream(self, stream: Stream) -> None:
        """Pass all messages of a peer's stream to the receiver."""
        source = stream.peer_node
        stream.start(lambda message: self._on_datagram(source, message), lambda _error: None)

    def _accept_bulk(self, stream: Stream) -> None:
        """Serve the request of a bulk stream in a task."""
        self._process.spawn(self._serve(stream), name="serve")

    async def _serve(self, stream: Stream) -> None:
        """Receive one request, and send the answer or the refusal back."""
        receiver = self._receiver
        if receiver is None:
            return
        node = self._numbers[stream.peer_node.number]
        try:
            request = await stream.receive()
            try:
                answer = await receiver.serve(node, request)
            except RaftlogError as error:
                answer = error
            stream.send(freeze(answer), size_bytes=4096)
            stream.close()
        except (OSError, EOFError):
            return  # the caller has ended


class PeerStream:
    """Stream to one peer, opened with the first message, and again after a break."""

    def __init__(self, network: SimulatedNetwork, process: Process, peer: Node) -> None:
        self._network, self._process, self._peer = network, process, peer
        self._stream: Stream | None = None
        self._is_connecting = False

    def send(self, message: object, size_bytes: int) -> None:
        """Send a message, opening the stream if there is none; messages are dropped while it is being opened."""
        stream = self._stream
        if stream is not None and stream.lost is None:
            stream.send(message, size_bytes)
        elif not self._is_connecting:
            self._is_connecting = True
            self._process.spawn(self._connect(message, size_bytes), name="connect")

    async def _connect(self, message: object, size_bytes: int) -> None:
        """Open the stream and send its first message; after an error, wait before the next attempt."""
        try:
            stream = await self._network.connect(self._process, self._peer, RAFT)
            stream.send(message, size_bytes)
            self._stream = stream
        except OSError:
            await asyncio.sleep(RECONNECT_S)
        finally:
            self._is_connecting = False


def size_of(envelopes: Sequence[Envelope]) -> int:
    """Estimate the size of the messages on a connection."""
    size = 0
    for _, message in envelopes:
        size += 60
        if type(message) is AppendRequest:
            size += sum(entry.size_bytes for entry in message.entries)
    return size


def freeze_envelope(envelope: Envelope) -> Envelope:
    """Return a copy of the message in which entries have their own bytes; other messages unchanged."""
    message = envelope.message
    if type(message) is not AppendRequest or not message.entries:
        return envelope
    entries = tuple(entry._replace(payload=bytes(entry.payload)) for entry in message.entries)
    return Envelope(envelope.group, message._replace(entries=entries))


def freeze(value: Any) -> Any:
    """Return a copy in which every buffer is bytes."""
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, tuple):
        items = [freeze(item) for item in value]
        return type(value)._make(items) if hasattr(value, "_make") else tuple(items)
    if isinstance(value, list):
        return [freeze(item) for item in value]
    if isinstance(value, dict):
        return {key: freeze(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: freeze(getattr(value, field.name)) for field in fields(value)})
    return value
