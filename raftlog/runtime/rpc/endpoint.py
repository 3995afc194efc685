"""State that all connections of one process share: identity, memory of peers, hooks and budgets.

The hooks are set by the owner of the transport before it starts."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random

from raftlog.errors import Unavailable
from raftlog.runtime.memory_budget import MemoryBudget
from raftlog.runtime.rpc.authentication import Credentials
from raftlog.runtime.rpc.config import RpcConfig
from raftlog.runtime.rpc.frames.frame import FrameBound, FrameKind
from raftlog.runtime.rpc.handshake import (
    BOOT_ID_SIZE,
    NONCE_SIZE,
    PROTOCOL_VERSION,
    Channel,
    HandshakeRefusal,
    Hello,
    PeerIdentity,
)
from raftlog.runtime.rpc.memory import PeerMemory
from raftlog.runtime.rpc.protocol_errors import ProtocolErrors
from raftlog.runtime.rpc.throttle import TokenBucket
from raftlog.runtime.rpc.traffic import Traffic
from raftlog.runtime.transport import Envelope, ProcessHeartbeat
from raftlog.types import NodeId


def _ignore(*_: object) -> None:
    """Do nothing; default of callbacks."""


async def _refuse_request(node: NodeId, request: object) -> object:
    """Refuse a request before the owner has set a handler. Raises `Unavailable`."""
    raise Unavailable(f"{type(request).__name__} of node {node} is not served here")


class Endpoint:
    """Shared state of one transport's connections. `draw_nonce(n)` returns n unpredictable bytes."""

    def __init__(
        self,
        identity: Callable[[], PeerIdentity],
        random: Random,
        draw_nonce: Callable[[int], bytes],
        config: RpcConfig,
        credentials: Credentials,
    ) -> None:
        """Create the common state of all connections of this process.

        `identity` returns its present identity, and `draw_nonce` random bytes for a handshake."""
        self.config = config
        self.credentials = credentials
        self.random = random
        self.loop: asyncio.AbstractEventLoop
        """Set when the transport starts."""
        self.is_closing = False
        """Whether the transport is closing its connections because the process stops."""
        self.memory = PeerMemory(config.peers_remembered_max)
        self.protocol_errors = ProtocolErrors(config)
        self.on_envelopes: Callable[[NodeId, Sequence[Envelope]], None] = _ignore
        self.on_heartbeat: Callable[[NodeId, ProcessHeartbeat], None] = _ignore
        self.on_connection: Callable[[NodeId, Channel, bool], None] = _ignore
        self.on_refused: Callable[[HandshakeRefusal], None] = _ignore
        self.serve: Callable[[NodeId, object], Awaitable[object]] = _refuse_request
        self.serve_probe: Callable[[PeerIdentity, object], Awaitable[object]] = lambda peer, request: self.serve(
            peer.node_id, request
        )
        self.tasks: dict[asyncio.Task[None], None] = {}
        """Tasks of requests that are being served, including those whose connection is closed."""
        self.messages_from_outsiders = 0
        """Number of Raft messages that were dropped because their senders are not members of the cluster."""
        self.identity = identity
        """Function that returns the present identity of this process."""
        self._draw_nonce = draw_nonce
        self._boot_id = random.randbytes(BOOT_ID_SIZE)
        self.traffic = {channel: Traffic() for channel in Channel}
        self.receive_budget = MemoryBudget(config.receive_bytes_max)
        self._bulk_budget = TokenBucket(config.bulk_bytes_per_s, config.bulk_burst_bytes)

    def new_hello(self, channel: Channel) -> Hello:
        """Return a new introduction, for one connection."""
        return Hello(PROTOCOL_VERSION, channel, self._boot_id, self.identity(), self._draw_nonce(NONCE_SIZE))

    def limit_bulk(self, bytes_per_s: int | None) -> None:
        """Set the total rate of all bulk connections; None restores the rate in the settings."""
        self._bulk_budget.set_rate(bytes_per_s or self.config.bulk_bytes_per_s)

    def budget(self, channel: Channel) -> TokenBucket | None:
        """Return the token bucket that limits a channel, if any."""
        return self._bulk_budget if channel is Channel.BULK else None


def bounds_of_strangers(config: RpcConfig) -> Mapping[int, FrameBound]:
    """Return the kinds of frames, with their largest sizes, that are accepted before the handshake is done."""
    bound = FrameBound(config.hello_bytes_max, config.hello_bytes_max)
    return {FrameKind.HELLO: bound, FrameKind.PROOF: bound, FrameKind.REFUSAL: bound}


def bounds_of_callers(config: RpcConfig, channel: Channel) -> Mapping[int, FrameBound]:
    """Return the kinds of frames, with their largest sizes, that are accepted from a peer that connected to us."""
    small = FrameBound(config.hello_bytes_max, config.hello_bytes_max)
    bounds: dict[int, FrameBound] = {
        FrameKind.REFUSAL: small,
        FrameKind.CALL: FrameBound(config.header_bytes_max, config.frame_bytes_max),
    }
    if channel is Channel.RAFT:
        bounds[FrameKind.TURN] = FrameBound(config.body_bytes_max, config.frame_bytes_max)
        bounds[FrameKind.BEAT] = small
    return bounds


def bounds_of_answers(config: RpcConfig) -> Mapping[int, FrameBound]:
    """Return the kinds of frames, with their largest sizes, that are accepted from a peer to which we connected."""
    bound = FrameBound(config.header_bytes_max, config.frame_bytes_max)
    return {FrameKind.ANSWER: bound, FrameKind.FAILURE: bound}
