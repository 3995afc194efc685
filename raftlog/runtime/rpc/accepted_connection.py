r"""Accepting side of a connection: waits for an introduction and its proof, checks the peer, takes its frames.

    STRANGER  --HELLO-->  INTRODUCED  --PROOF, accepted-->  PEER  -->  closed
        \--anything else, too late-->  closed  \--anything else, not proved, refused, too late-->  closed

Frames are taken from peers only. Raft messages must name the peer's own node and disk as their sender, and are
taken only from members of the cluster."""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from raftlog.raft import ReplicaId
from raftlog.runtime.rpc.authentication import (
    Proof,
    ProvingSide,
    authenticate,
    decode_proof,
    encode_proof,
    transcript_of,
)
from raftlog.runtime.rpc.connection import Connection
from raftlog.runtime.rpc.endpoint import Endpoint, bounds_of_callers
from raftlog.runtime.rpc.errors import BadFrame, HandshakeRefused
from raftlog.runtime.rpc.frames.codec import TurnDecoder, decode_heartbeat
from raftlog.runtime.rpc.frames.frame import Frame, FrameKind
from raftlog.runtime.rpc.handshake import (
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
    pack_refusal,
)
from raftlog.runtime.rpc.request_server import RequestServer
from raftlog.runtime.rpc.writer import Writer
from raftlog.types import Buffer

_logger = logging.getLogger(__name__)


class ConnectionRegistry(Protocol):
    """Owner of the accepted connections."""

    def add(self, accepted: "AcceptedConnection") -> None:
        """Add a connection that is open."""
        ...

    def promote(self, accepted: "AcceptedConnection") -> None:
        """Count a connection as a peer's after its handshake."""
        ...

    def drop(self, accepted: "AcceptedConnection") -> None:
        """Remove a connection that is closed."""
        ...


class AcceptedConnection:
    """One accepted connection; the handler of its `Connection`."""

    def __init__(self, endpoint: Endpoint, registry: ConnectionRegistry, connection: Connection) -> None:
        """Begin the handshake of an accepted connection; `registry` is the owner of all of them."""
        self.connection = connection
        self.hello: Hello | None = None
        """Introduction of the peer; None until its identity is proved."""
        self._introduced: tuple[Hello, Hello, bytes] | None = None
        """Local introduction, remote one, and the transcript, while the proof is awaited."""
        self._endpoint = endpoint
        self._registry = registry
        self._timer: asyncio.TimerHandle | None = None
        self._decoder = TurnDecoder()
        self._replica: ReplicaId
        """Node and disk of the peer; set after the handshake."""
        self._writer: Writer | None = None
        self._server: RequestServer | None = None
        self._is_noted = False
        """Whether the memory of peers counts this connection as open."""

    def end(self) -> None:
        """Write the waiting messages, and close; called when the process stops."""
        if self._writer is not None:
            self._writer.flush()
        self.connection.close()

    # the handler

    def on_open(self) -> None:
        """Register the connection, and limit the time for its handshake."""
        self._registry.add(self)
        timeout_s = self._endpoint.config.handshake_timeout_ms / 1000
        self._timer = self._endpoint.loop.call_later(timeout_s, self._time_out)

    def take(self, frame: Frame) -> None:
        """Handle a frame: a step of the handshake, Raft messages, a heartbeat, or a request."""
        if self.hello is None:
            self._shake_hands(frame)
            return
        node = self.hello.identity.node_id
        received = self._endpoint.traffic[self.hello.channel].received
        received.bytes += frame.size
        if frame.kind is FrameKind.TURN:
            envelopes = self._decoder.decode(frame.body, frame.payload, self._replica)
            received.count_messages(envelopes)
            if self._endpoint.memory.is_member(*self._replica):
                self._endpoint.on_envelopes(node, envelopes)
            else:
                self._endpoint.messages_from_outsiders += len(envelopes)
        elif frame.kind is FrameKind.BEAT:
            heartbeat = decode_heartbeat(frame.body)
            if heartbeat.disk_uuid != self.hello.identity.disk_uuid:
                raise BadFrame(f"node {node} sends a heartbeat of another disk than that of its handshake")
            received.count_frame(frame.kind)
            self._endpoint.memory.note_heartbeat(self.hello, heartbeat)
            if self._endpoint.memory.is_member(*self._replica):
                self._endpoint.on_heartbeat(node, heartbeat)
        elif frame.kind is FrameKind.CALL:
            assert self._server is not None, f"a request of node {node} before its handshake"
            received.count_frame(frame.kind)
            self._server.take(frame)
        else:
            refusal = decode_refusal(frame.body)
            message = f"node {node} refuses the connection: {refusal.message}"
            self.connection.abort(HandshakeRefused(message, reason=refusal.reason, is_remote=True))
            self._endpoint.on_refused(refusal)

    def on_writable(self) -> None:
        """Continue to write after the socket's buffer has room again."""
        if self._writer is not None:
            self._writer.resume()

    def on_close(self, error: Exception | None) -> None:
        """End the service of the peer, and report a connection that broke the protocol."""
        if self._timer is not None:
            self._timer.cancel()
        self._registry.drop(self)
        endpoint = self._endpoint
        if self._writer is not None:
            self._writer.end()
        if self.hello is not None and self._is_noted:
            endpoint.memory.remove_connection(self.hello)
        if isinstance(error, HandshakeRefused) and error.reason == Reason.SELF:
            return
        if isinstance(error, (BadFrame, HandshakeRefused)):
            endpoint.protocol_errors.add(self.connection.source, str(error), endpoint.loop.time())
        elif self.hello is None and not endpoint.is_closing:
            endpoint.protocol_errors.add(self.connection.source, "its handshake was incomplete", endpoint.loop.time())

    # the handshake

    def _shake_hands(self, frame: Frame) -> None:
        """Handle a frame of the handshake; raises `BadFrame` for one out of turn."""
        if frame.kind is FrameKind.HELLO and self._introduced is None:
            self._introduce(bytes(frame.body))
        elif frame.kind is FrameKind.PROOF and self._introduced is not None:
            self._verify(decode_proof(frame.body))
        else:
            raise BadFrame(f"it sent a frame of kind {frame.kind.name} out of turn in the handshake")

    def _introduce(self, remote_body: bytes) -> None:
        """Answer the connector's hello with our own, or refuse its version."""
        remote = decode_hello(remote_body)
        local = self._endpoint.new_hello(remote.channel)
        refusal = check_version(local, remote)
        if refusal is not None:
            self._refuse(refusal, encode_refusal(refusal))
            return
        local_body = pack_hello(local)
        self._introduced = local, remote, transcript_of(remote_body, local_body)
        self.connection.write(encode_hello(local_body))

    def _verify(self, proof: Proof) -> None:
        """Check the connector's proof and identity; send our own proof, with a refusal if there is one."""
        assert self._introduced is not None, "a proof without an introduction"
        (local, remote, transcript), self._introduced = self._introduced, None
        endpoint, peer = self._endpoint, remote.identity
        certified = self.connection.certified_nodes()
        refusal = authenticate(endpoint.credentials, proof, ProvingSide.CONNECTOR, transcript, remote, certified)
        if refusal is not None:
            self._refuse(refusal, encode_refusal(refusal))
            return
        known = endpoint.memory.find_record(peer.node_id, peer.disk_uuid)
        refusal = check_peer(local, remote, known)
        answer = b"" if refusal is None else pack_refusal(refusal)
        own_proof = encode_proof(endpoint.credentials.prove(ProvingSide.ACCEPTOR, transcript, answer))
        if refusal is not None:
            self._refuse(refusal, own_proof)
            return
        self.connection.write(own_proof)
        self._begin(remote, is_noted=not is_outsider(remote, known))

    def _begin(self, remote: Hello, *, is_noted: bool) -> None:
        """Begin to serve the peer, whose identity is proved.

        `is_noted`: the memory of peers has recorded its handshake."""
        endpoint, peer = self._endpoint, remote.identity
        self.connection.set_frame_bounds(
            bounds_of_callers(endpoint.config, remote.channel), endpoint.config.read_buffer_bytes
        )
        assert self._timer is not None, "a stranger without a time limit"
        self._timer.cancel()
        if remote.channel is Channel.PROBE:
            probe_s = endpoint.config.probe_timeout_ms / 1000
            self._timer = endpoint.loop.call_later(probe_s, self.connection.abort)
        self.hello = remote
        self._replica = ReplicaId(peer.node_id, peer.disk_uuid)
        self._writer = Writer(
            endpoint.loop,
            endpoint.config,
            self.connection,
            endpoint.budget(remote.channel),
            endpoint.traffic[remote.channel].sent,
        )
        if remote.channel is Channel.PROBE:
            self._server = RequestServer(endpoint, peer.node_id, self._writer, partial(endpoint.serve_probe, peer))
        else:
            self._server = RequestServer(endpoint, peer.node_id, self._writer, partial(endpoint.serve, peer.node_id))
        self._is_noted = is_noted
        if is_noted:
            endpoint.memory.add_connection(remote)
        self._registry.promote(self)
        _logger.debug("node %s connected for %s from %s", peer.node_id, remote.channel.name, self.connection.source)

    def _refuse(self, refusal: HandshakeRefusal, frame: Sequence[Buffer]) -> None:
        """Send the refusal and close.

        The timer continues: a connection that does not take the refusal is aborted."""
        self.connection.write(frame)
        self.connection.close(HandshakeRefused(refusal.message, reason=refusal.reason))

    def _time_out(self) -> None:
        """Abort a connection whose handshake took too long."""
        self.connection.abort(BadFrame("its handshake timed out"))
