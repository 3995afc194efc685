"""Transport of the driver over Maelstrom's network: frames between nodes as text in JSON messages.

    body      {"type": "raft", "frames": base64 of frames, one after another}
    frames    Raft messages of a turn, heartbeats between processes, requests and their answers, as over TCP

Frames to one node within the linger time are sent as one message: appends of all groups, votes, forwarded requests,
answers. A heartbeat is sent with the next frames, or alone when the next heartbeat is due. Received frames are not
trusted: they are bounded and checked before they are decoded, and count only for the node that sent them. Created by
`groups`, used by the driver.
"""

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, Final

from raftlog.api.maelstrom.settings import RPC
from raftlog.errors import Overloaded, RaftlogError, Unavailable
from raftlog.raft import ReplicaId
from raftlog.runtime.rpc.authentication import Credentials
from raftlog.runtime.rpc.calls import Answer, Call, decode_answer, encode_call
from raftlog.runtime.rpc.endpoint import Endpoint, bounds_of_answers, bounds_of_callers
from raftlog.runtime.rpc.errors import BadFrame, NoAnswer
from raftlog.runtime.rpc.frames.bulk_codec import call_of, result_of
from raftlog.runtime.rpc.frames.codec import TurnDecoder, decode_heartbeat, encode_heartbeat, encode_turn, size_of
from raftlog.runtime.rpc.frames.frame import Frame, FrameKind, FrameReader
from raftlog.runtime.rpc.handshake import Channel, PeerIdentity
from raftlog.runtime.rpc.request_server import RequestServer
from raftlog.runtime.transfer.bulk import BulkRequest
from raftlog.runtime.transport import Envelope, ProcessHeartbeat, Transport
from raftlog.types import Buffer, NodeId

TYPE: Final = "raft"
BULK_TIMEOUT_MS: Final = 5_000
_BOUNDS: Final = {**bounds_of_callers(RPC, Channel.RAFT), **bounds_of_answers(RPC)}
_logger = logging.getLogger(__name__)


class _SendQueue:
    """Queue of frames to one node."""

    def __init__(self) -> None:
        self.frames: list[Buffer] = []
        self.bytes = 0
        self.heartbeat: list[Buffer] | None = None


class MaelstromTransport(Transport):
    """Transport that sends by `post(name, body)`; the owner sets `on_envelopes`, `on_heartbeat` and `serve`."""

    def __init__(
        self,
        identity: PeerIdentity,
        names: Mapping[NodeId, str],
        replicas: Mapping[NodeId, ReplicaId],
        post: Callable[[str, dict[str, Any]], None],
        random: Random,
        linger_s: float,
    ) -> None:
        """Send RPC frames in Maelstrom messages.

        `names` are the other nodes by node id, `post` sends a message to a name, and `linger_s` is the longest time for
        which frames are collected."""
        self._loop = asyncio.get_running_loop()
        self._endpoint = Endpoint(lambda: identity, random, random.randbytes, RPC, Credentials())
        self._endpoint.loop = self._loop
        self._names, self._post, self._linger_s = names, post, linger_s
        self._replicas = replicas
        """Replica ids of the other nodes, by node id; Maelstrom's network guarantees the name of a sender."""
        self.on_envelopes: Callable[[NodeId, Sequence[Envelope]], None]
        self.on_heartbeat: Callable[[NodeId, ProcessHeartbeat], None]
        self.serve: Callable[[NodeId, object], Awaitable[object]]
        self._decoder = TurnDecoder()
        self._queues = {node: _SendQueue() for node in names}
        self._servers: dict[NodeId, RequestServer] = {}
        self._waiting: dict[tuple[NodeId, int], asyncio.Future[Answer]] = {}
        """Futures of sent requests without an answer, by node and correlation id; at most `calls_outstanding_max`."""
        self._last_correlation = random.getrandbits(40) << 16
        """Correlation id of the last request; begins at random, so that answers to an earlier process match none."""
        self._flush_due: asyncio.Handle | None = None

    def open(self) -> None:
        """Accept requests of other nodes from now on."""
        for node in self._names:
            posts = _AnswerSender(self, node)
            self._servers[node] = RequestServer(self._endpoint, node, posts, partial(self.serve, node))

    def close(self) -> None:
        """Cancel the requests that are being served, and send the queued frames."""
        for task in list(self._endpoint.tasks):
            task.cancel()
        self._flush()

    # out

    def send(self, node: NodeId, envelopes: Sequence[Envelope]) -> None:
        """Send envelopes in frames of at most `RPC.turn_bytes`, unless one envelope is larger."""
        if node not in self._queues:
            return
        turn: list[Envelope] = []
        size = 0
        for envelope in envelopes:
            more = size_of(envelope)
            if turn and size + more > RPC.turn_bytes:
                self.post_frame(node, encode_turn(turn))
                turn, size = [], 0
            turn.append(envelope)
            size += more
        self.post_frame(node, encode_turn(turn))

    def send_heartbeat(self, node: NodeId, heartbeat: ProcessHeartbeat) -> None:
        """Queue a heartbeat; it replaces one that was not sent yet."""
        queue = self._queues.get(node)
        if queue is None:
            return
        if queue.heartbeat is not None:
            self._schedule_flush()
        queue.heartbeat = encode_heartbeat(heartbeat)

    async def request(self, node: NodeId, request: object) -> object:
        """Send a bulk request and return its result. Raises `ConnectionAbortedError` if the node refuses it."""
        question: BulkRequest = request  # type: ignore[assignment]  # the driver asks nothing else
        try:
            answer = await self.call(node, call_of(question, BULK_TIMEOUT_MS))
        except OSError:
            raise
        except RaftlogError as error:
            raise ConnectionAbortedError(f"refused: {error}") from None
        return result_of(question, answer)

    async def call(self, node: NodeId, call: Call) -> Answer:
        """Send a call to a node and return the result; raises the error in its answer.

        Also raises `NoAnswer`, and, if nothing was sent, `Unavailable` or `InvalidArgument`."""
        if node not in self._queues:
            raise Unavailable(f"there is no node {node}")
        if len(self._waiting) >= RPC.calls_outstanding_max:
            raise Overloaded(f"{len(self._waiting)} requests wait for answers")
        correlation = self._last_correlation = self._last_correlation + 1
        frame = encode_call(correlation, call, RPC)
        future: asyncio.Future[Answer] = self._loop.create_future()
        self._waiting[node, correlation] = future
        try:
            async with asyncio.timeout(call.timeout_ms / 1000):
                self.post_frame(node, frame)
                return await future
        except TimeoutError:
            raise NoAnswer(f"{self._names[node]} did not answer {call.name} in {call.timeout_ms} ms") from None
        finally:
            del self._waiting[node, correlation]

    def notify_all(self) -> None:
        """Send an empty message to every other node; a node starts its Raft groups when it receives one."""
        for name in self._names.values():
            self._post(name, {"type": TYPE, "frames": ""})

    def post_frame(self, node: NodeId, frame: list[Buffer]) -> None:
        """Queue a frame; it is sent with others, at once when they fill a message."""
        queue = self._queues[node]
        queue.frames += frame
        queue.bytes += sum(map(len, frame))
        if queue.bytes >= RPC.turn_bytes:
            self._flush_queue(node, queue)
        else:
            self._schedule_flush()

    def _schedule_flush(self) -> None:
        """Schedule a flush after the linger time, unless one is scheduled."""
        if self._flush_due is None:
            if self._linger_s:
                self._flush_due = self._loop.call_later(self._linger_s, self._flush)
            else:
                self._flush_due = self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Send the queued frames and heartbeats of all nodes."""
        self._flush_due = None
        for node, queue in self._queues.items():
            if queue.frames or queue.heartbeat is not None:
                self._flush_queue(node, queue)

    def _flush_queue(self, node: NodeId, queue: _SendQueue) -> None:
        """Send the queued frames and the heartbeat of one node as one message."""
        frames = b"".join([*queue.frames, *(queue.heartbeat or ())])
        queue.frames, queue.bytes, queue.heartbeat = [], 0, None
        self._post(self._names[node], {"type": TYPE, "frames": base64.b64encode(frames).decode()})

    # in

    def receive(self, node: NodeId, body: Mapping[str, Any]) -> None:
        """Process the body of a message of another node. Raises `BadFrame` after processing the frames before it."""
        text = body.get("frames")
        if not isinstance(text, str):
            raise BadFrame(f"a message of node {node} without frames")
        try:
            data = base64.b64decode(text, validate=True)
        except ValueError as error:
            raise BadFrame(f"frames of node {node} are not base64: {error}") from None
        if not data:
            return
        reader = FrameReader(_BOUNDS, len(data))
        reader.get_buffer()[:] = data
        reader.advance(len(data))
        while (frame := reader.next_frame()) is not None:
            self._process_frame(node, frame)
        if reader.is_inside_frame:
            raise BadFrame(f"the last frame of node {node} is incomplete")

    def _process_frame(self, node: NodeId, frame: Frame) -> None:
        """Pass a frame to its receiver by its kind. Raises `BadFrame`."""
        if frame.kind is FrameKind.TURN:
            self.on_envelopes(node, self._decoder.decode(frame.body, frame.payload, self._replicas[node]))
        elif frame.kind is FrameKind.BEAT:
            self.on_heartbeat(node, decode_heartbeat(frame.body))
        elif frame.kind is FrameKind.CALL:
            self._servers[node].take(frame)
        elif frame.kind in (FrameKind.ANSWER, FrameKind.FAILURE):
            self._complete_call(node, frame)
        else:
            raise BadFrame(f"node {node} sends a {frame.kind.name}, which is not expected")

    def _complete_call(self, node: NodeId, frame: Frame) -> None:
        """Complete the future of a call with its answer; discard an answer that comes late or twice."""
        correlation, outcome = decode_answer(frame, RPC)
        future = self._waiting.get((node, correlation))
        if future is None or future.done():  # the answer came after its deadline, or twice
            return
        if isinstance(outcome, RaftlogError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)


class _AnswerSender:
    """Sender of answers to one node."""

    def __init__(self, transport: MaelstromTransport, node: NodeId) -> None:
        self._transport, self._node = transport, node

    def post_frame(self, frame: list[Buffer]) -> bool:
        """Queue a frame for the node; return true, because there is always room."""
        self._transport.post_frame(self._node, frame)
        return True
