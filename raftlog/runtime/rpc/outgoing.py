r"""Connecting side of a connection: introduces and proves itself, checks the other side, sends, matches answers.

    INTRODUCED  --HELLO-->  PROVING  --PROOF, accepted-->  ESTABLISHED  -->  closed
            \--REFUSAL-->  closed  \--REFUSAL, a refusal in the PROOF, or refused here-->  closed

Requests without an answer when the connection breaks fail with `ConnectionLost`; whether they were done is unknown."""

import asyncio
from typing import Any

from raftlog.errors import Overloaded, RaftlogError
from raftlog.runtime.rpc.authentication import (
    Proof,
    ProvingSide,
    authenticate,
    decode_proof,
    encode_proof,
    transcript_of,
)
from raftlog.runtime.rpc.calls import Answer, Call, decode_answer, encode_call
from raftlog.runtime.rpc.connection import Connection
from raftlog.runtime.rpc.endpoint import Endpoint, bounds_of_answers
from raftlog.runtime.rpc.errors import BadFrame, ConnectionLost, HandshakeRefused, NoAnswer, NotConnected
from raftlog.runtime.rpc.frames.frame import Frame, FrameKind
from raftlog.runtime.rpc.handshake import (
    UNPROVEN,
    Channel,
    HandshakeRefusal,
    Hello,
    Reason,
    check_peer,
    check_version,
    decode_hello,
    decode_refusal,
    encode_hello,
    encode_refusal,
    is_outsider,
    pack_hello,
)
from raftlog.runtime.rpc.writer import Writer
from raftlog.types import NodeId

_Waiting = tuple["asyncio.Future[Answer]", asyncio.TimerHandle]


class Outgoing:
    """Connection that this process opens: to a node, or to any process at an address if `node` is None.

    It is the handler of its `Connection`."""

    def __init__(self, endpoint: Endpoint, node: NodeId | None, channel: Channel, connection: Connection) -> None:
        """Begin the handshake of an outgoing connection to `node`; None: any node, for a probe."""
        self.connection = connection
        self.hello: Hello | None = None
        """Introduction of the other side; None until the handshake is done."""
        self.established: asyncio.Future[None] = endpoint.loop.create_future()
        """Done when the handshake is done; fails if the handshake fails."""
        self.closed_reason: asyncio.Future[Exception | None] = endpoint.loop.create_future()
        """Done when the connection is closed; the result is the reason, if known."""
        traffic = endpoint.traffic[channel]
        self._received = traffic.received
        self.writer = Writer(endpoint.loop, endpoint.config, connection, endpoint.budget(channel), traffic.sent)
        self._endpoint = endpoint
        self._node = node
        self._peer_name = "the other side" if node is None else f"node {node}"
        self._local = endpoint.new_hello(channel)
        self._local_body = pack_hello(self._local)
        self._is_raft = channel is Channel.RAFT
        self._remote: Hello | None = None
        """Introduction of the other side, not proved yet."""
        self._transcript = b""
        self._waiting: dict[int, _Waiting] = {}
        """Requests without an answer, by correlation; at most `calls_outstanding_max`."""
        self._last_correlation = 0
        self._is_noted = False
        """Whether the memory of peers counts this connection as open."""

    def request(self, call: Call) -> "asyncio.Future[Answer]":
        """Send a request. Raises `NotConnected`, `Overloaded` and `InvalidArgument` when nothing was sent.

        The future fails with the other side's error, with `NoAnswer` after the timeout, or with `ConnectionLost`.
        """
        config = self._endpoint.config
        if self.closed_reason.done():  # its owner has not been notified yet
            raise NotConnected(f"{self._peer_name} is not connected: {_describe_error(self.closed_reason.result())}")
        if len(self._waiting) >= config.calls_outstanding_max:
            raise Overloaded(f"{len(self._waiting)} requests wait for {self._peer_name}")
        correlation = self._last_correlation = self._last_correlation + 1
        if not self.writer.post_frame(encode_call(correlation, call, config)):
            raise Overloaded(f"{self.writer.queued_bytes} bytes wait to be sent to {self._peer_name}")
        loop = self._endpoint.loop
        future: asyncio.Future[Answer] = loop.create_future()
        timer = loop.call_later(call.timeout_ms / 1000, self._time_out, correlation, call)
        self._waiting[correlation] = future, timer
        return future

    def _time_out(self, correlation: int, call: Call) -> None:
        """Fail a request that was not answered in time."""
        self._settle(correlation, NoAnswer(f"{self._peer_name} did not answer {call.name} in {call.timeout_ms} ms"))

    def _settle(self, correlation: int, outcome: Answer | RaftlogError) -> None:
        """Complete the request with this correlation number; ignore an answer after its deadline."""
        waiting = self._waiting.pop(correlation, None)
        if waiting is None:  # the answer came after its deadline
            return
        future, timer = waiting
        timer.cancel()
        if future.done():  # its caller gave up
            return
        if isinstance(outcome, RaftlogError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    # the handler

    def on_open(self) -> None:
        """Begin the handshake."""
        if self._is_raft:
            self.connection.write_at_once()
        self.connection.write(encode_hello(self._local_body))

    def take(self, frame: Frame) -> None:
        """Handle a frame: an answer, or a step of the handshake. Raises `BadFrame` if it is out of turn."""
        if self.hello is not None:
            correlation, outcome = decode_answer(frame, self._endpoint.config)
            self._received.count_frame(frame.kind)
            self._received.bytes += frame.size
            self._settle(correlation, outcome)
        elif frame.kind is FrameKind.REFUSAL:
            self._end_refused(decode_refusal(frame.body), is_proven=False)
        elif frame.kind is FrameKind.HELLO and self._remote is None:
            self._prove(bytes(frame.body))
        elif frame.kind is FrameKind.PROOF and self._remote is not None:
            self._verify(self._remote, decode_proof(frame.body))
        else:
            raise BadFrame(f"a frame of kind {frame.kind.name} out of turn in the handshake")

    def on_writable(self) -> None:
        """Continue to write queued frames."""
        self.writer.resume()

    def on_close(self, error: Exception | None) -> None:
        """Fail the handshake, or all requests without an answer."""
        self.writer.end()
        if self.hello is not None and self._is_noted:
            self._endpoint.memory.remove_connection(self.hello)
        if not self.established.done():
            self.established.set_exception(error or ConnectionResetError("the connection ended in its handshake"))
        self.closed_reason.set_result(error)
        for correlation in list(self._waiting):
            self._settle(
                correlation, ConnectionLost(f"the connection to {self._peer_name} broke: {_describe_error(error)}")
            )

    # the handshake

    def _prove(self, remote_body: bytes) -> None:
        """Check the acceptor's version and send our proof."""
        remote = decode_hello(remote_body)
        refusal = check_version(self._local, remote)
        if refusal is not None:
            self._refuse(refusal)
            return
        self._remote, self._transcript = remote, transcript_of(self._local_body, remote_body)
        self.connection.write(encode_proof(self._endpoint.credentials.prove(ProvingSide.CONNECTOR, self._transcript)))

    def _verify(self, remote: Hello, proof: Proof) -> None:
        """Check the acceptor's proof, and end the connection if either side refuses."""
        refusal = authenticate(
            self._endpoint.credentials,
            proof,
            ProvingSide.ACCEPTOR,
            self._transcript,
            remote,
            self.connection.certified_nodes(),
        )
        if refusal is not None:
            self._refuse(refusal)
        elif proof.refusal:
            self._end_refused(decode_refusal(proof.refusal), is_proven=True)
        else:
            self._check_peer(remote)

    def _check_peer(self, remote: Hello) -> None:
        """Complete the handshake, or refuse the peer by its identity and this process's records."""
        endpoint, peer = self._endpoint, remote.identity
        known = endpoint.memory.find_record(peer.node_id, peer.disk_uuid)
        refusal = check_peer(self._local, remote, known, self._node)
        if refusal is not None:
            self._refuse(refusal)
            return
        if self.established.done():  # no caller waits for it any more
            raise BadFrame("the handshake came too late")
        self.hello = remote
        self._is_noted = not is_outsider(remote, known)
        if self._is_noted:
            endpoint.memory.add_connection(remote)
        self.connection.set_frame_bounds(bounds_of_answers(endpoint.config), endpoint.config.read_buffer_bytes)
        self.established.set_result(None)

    def _refuse(self, refusal: HandshakeRefusal) -> None:
        """Send the refusal and close the connection."""
        self.connection.write(encode_refusal(refusal))
        self.connection.close(HandshakeRefused(refusal.message, reason=refusal.reason))

    def _end_refused(self, refusal: HandshakeRefusal, *, is_proven: bool) -> None:
        """Close after the other side's refusal, which is only logged unless that side has proved its identity."""
        reason = refusal.reason if is_proven or refusal.reason in UNPROVEN else Reason.UNKNOWN
        message = f"{self._peer_name} refuses the connection: {refusal.message}"
        self.connection.abort(HandshakeRefused(message, reason=reason, is_remote=True))
        if is_proven:
            self._endpoint.on_refused(refusal)


def _describe_error(error: Any) -> str:
    """Return the reason why a connection ended."""
    return str(error) if error is not None else "it was closed"
