"""Driver of `Swim` on an event loop: passes messages between the machine and the wire, which carries sealed bytes.

    wire = UdpWire(); await wire.start(host, port)        first, because the agent announces its port
    agent = Agent(speaker, address, description, keys, wire, random)
    agent.start(addresses)                                then members(), describe(…), set_join_addresses(…), on_change
    agent.leave(); await agent.close()

Nothing is decoded before its seal was verified. Input is bounded in size and in number per second, streams in number,
rounds and time. The machine's time is that of the event loop, which is monotonic. Called by `partitions.gossip`."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from random import Random
from typing import Final, NamedTuple

from raftlog.errors import FormatError
from raftlog.membership import swim
from raftlog.membership.authentication import OVERHEAD_BYTES, AuthenticationError, RefusedDatagram, Seal, SenderIdentity
from raftlog.membership.config import SwimConfig
from raftlog.membership.encoding import decode, encode, fingerprint
from raftlog.membership.keys import GossipKeys
from raftlog.membership.member import Address, GossipIdentity, GossipMember
from raftlog.membership.messages import Message
from raftlog.membership.refusals import Refusals
from raftlog.membership.swim import Conflict, MemberChange, Sender, Swim
from raftlog.membership.wire import DATAGRAM_BYTES_MAX, FRAME_BYTES_MAX, GossipStream, StreamEnd, Wire
from raftlog.types import NodeId

_logger = logging.getLogger(__name__)

DATAGRAMS_PER_S_MAX: Final = 4_000
"""Datagrams processed per second; more are dropped, so that a flood does not occupy the broker's event loop."""
STREAMS_OUT_MAX: Final = 8
ROUNDS_MAX: Final = 16
"""Maximum number of frames that one side sends in one stream."""
MESSAGES_PER_FRAME: Final = 256
FRAMES_PER_TURN_MAX: Final = 32
_MORE, _LAST = b"\x01", b"\x00"
"""First byte of a frame's body: whether more frames belong to the same list of messages."""
LEAVE_S_MAX: Final = 0.6
_LEAVE_LOOK_S: Final = 0.02


class AgentCounters(NamedTuple):
    """Counters since the start. Bytes are those of datagrams and frames, without headers of UDP, TCP and IP."""

    swim: swim.SwimCounters
    datagrams_in: int
    datagrams_out: int
    bytes_in: int
    bytes_out: int
    streams_in: int
    streams_out: int
    streams_failed: int
    streams_refused: int
    refused: Mapping[str, int]


@dataclass(slots=True)
class _Traffic:
    """Datagrams, streams and bytes counted since the start."""

    datagrams_in: int = 0
    datagrams_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    streams_in: int = 0
    streams_out: int = 0
    streams_failed: int = 0


class Agent:
    """Gossip of this process: connects the SWIM machine with the network.

    Other members reach this process at `address`."""

    def __init__(
        self,
        sender_identity: SenderIdentity,
        address: tuple[str, int],
        description: bytes,
        keys: GossipKeys,
        wire: Wire,
        random: Random,
        config: SwimConfig | None = None,
    ) -> None:
        """Create a stopped agent of this process, which other members reach at `address`.

        `description` is spread to all members, `keys` sign and verify datagrams, and `wire` sends them."""
        self.on_change: Callable[[MemberChange], None] = lambda change: None
        self.on_conflict: Callable[[Conflict], None] = lambda conflict: None
        self._loop = asyncio.get_running_loop()
        config = config or SwimConfig()
        self._config = replace(config, datagram_bytes_max=DATAGRAM_BYTES_MAX, envelope_bytes=OVERHEAD_BYTES)
        me = GossipIdentity(
            sender_identity.node_id, sender_identity.disk_uuid.bytes, Address(*address), sender_identity.boot_epoch
        )
        self._swim = Swim(me, description, self._config, random)
        self._seal = Seal(sender_identity, keys)
        self._cluster = fingerprint(str(sender_identity.cluster_id))
        self._wire = wire
        self._refusals, self._traffic = Refusals(), _Traffic()
        self._timer: asyncio.TimerHandle | None = None
        self._outgoing_streams: dict[asyncio.Task[None], None] = {}
        self._second, self._in_second = 0, 0
        """Present second of the loop's clock, and the number of datagrams received in it."""
        self._is_running = False

    # start and stop

    def start(self, addresses: Iterable[tuple[str, int]]) -> None:
        """Join the gossip through the members at these addresses."""
        assert not self._is_running, "started twice"
        self._is_running = True
        self._wire.on_datagram, self._wire.serve = self._receive_datagram, self._serve
        now = self._loop.time()
        self._swim.start(now)
        self._swim.join([Address(*each) for each in addresses], now)
        self._pump()

    def leave(self) -> None:
        """Announce that this member leaves; gossip continues until `close`."""
        if self._is_running:
            self._swim.leave(self._loop.time())
            self._pump()

    async def close(self, leave_s: float = 0.0) -> None:
        """Stop and close the wire, after at most `leave_s` in which pending claims are sent."""
        for _ in range(int(min(leave_s, LEAVE_S_MAX) / _LEAVE_LOOK_S)):
            if not self._is_running or not self._swim.counters().broadcasts_waiting:
                break
            await asyncio.sleep(_LEAVE_LOOK_S)
        self._is_running = False
        if self._timer is not None:
            self._timer.cancel()
        for task in self._outgoing_streams:
            task.cancel()
        if self._outgoing_streams:
            await asyncio.wait(list(self._outgoing_streams))
        await self._wire.close()

    # members

    def members(self) -> list[GossipMember]:
        """Return all known members, this one included, by node id."""
        return self._swim.members()

    def member(self, node: NodeId) -> GossipMember | None:
        """Return the member with this node id; None if it is unknown."""
        return self._swim.member(node)

    def set_description(self, description: bytes) -> None:
        """Announce a new description of this member to all; do nothing if it is the same."""
        self._swim.set_description(description, self._loop.time())
        self._pump()

    def set_join_addresses(self, addresses: Iterable[tuple[str, int]]) -> None:
        """Replace the addresses at which this member looks for other members."""
        self._swim.join([Address(*each) for each in addresses], self._loop.time())
        self._pump()

    def probe_now(self, node: NodeId) -> None:
        """Probe the member `node` at once, for example after a connection to it broke."""
        self._swim.probe_now(node, self._loop.time())
        self._pump()

    def counters(self) -> AgentCounters:
        """Return the counters of the machine, the traffic and the refusals."""
        refused, counts = self._wire.streams_refused, self._refusals.counts()
        return AgentCounters._make((self._swim.counters(), *astuple(self._traffic), refused, counts))

    # the machine

    def _pump(self) -> None:
        """Send the messages that the machine has produced, report its changes, and schedule its next tick."""
        for send in self._swim.take_sends():
            datagram = self._seal.seal(encode(self._cluster, send.messages))
            assert len(datagram) <= DATAGRAM_BYTES_MAX, f"a datagram of {len(datagram)} bytes"
            self._traffic.datagrams_out += 1
            self._traffic.bytes_out += len(datagram)
            self._wire.send(datagram, send.address)
        for wanted in self._swim.take_streams():
            self._begin_stream(wanted)
        for change in self._swim.take_changes():
            self.on_change(change)
        for conflict in self._swim.take_conflicts():
            self.on_conflict(conflict)
        self._plan_tick()

    def _plan_tick(self) -> None:
        """Schedule `_tick` for the time at which the machine is due next."""
        if self._timer is not None:
            self._timer.cancel()
        if self._is_running:
            self._timer = self._loop.call_at(self._swim.due(), self._tick)

    def _tick(self) -> None:
        """Run due work of the state machine, and carry out its requests."""
        self._swim.tick(self._loop.time())
        self._pump()

    # datagrams

    def _receive_datagram(self, data: bytes, source: tuple[str, int]) -> None:
        """Pass the messages of an authentic datagram to the machine; count any other one as refused."""
        if not self._is_running:
            return
        now = self._loop.time()
        self._traffic.datagrams_in += 1
        self._traffic.bytes_in += len(data)
        try:
            self._check_rate(now)
            sender, messages = self._authenticate(data, DATAGRAM_BYTES_MAX, source)
        except AuthenticationError as refusal:
            self._refusals.count_refusal(refusal.reason, source[0], now)
            return
        self._swim.receive(messages, sender, now)
        self._pump()

    def _check_rate(self, now: float) -> None:
        """Raise `AuthenticationError` above `DATAGRAMS_PER_S_MAX`."""
        if int(now) != self._second:
            self._second, self._in_second = int(now), 0
        self._in_second += 1
        if self._in_second > DATAGRAMS_PER_S_MAX:
            raise AuthenticationError(RefusedDatagram.OVERLOADED)

    def _authenticate(self, data: bytes, bytes_max: int, source: tuple[str, int]) -> tuple[Sender, list[Message]]:
        """Authenticate and decode a datagram. Raises `AuthenticationError`."""
        opened = self._seal.open(data, bytes_max)
        return Sender(opened.node_id, Address(*source)), self._decode(opened.body)

    def _decode(self, payload: bytes) -> list[Message]:
        """Decode messages. Raises `AuthenticationError` with `MALFORMED`."""
        try:
            return decode(payload, self._cluster)
        except FormatError:
            raise AuthenticationError(RefusedDatagram.MALFORMED) from None

    # streams

    def _begin_stream(self, wanted: swim.OutgoingStream) -> None:
        """Open a stream and exchange frames in a task; count it as failed at the limit `STREAMS_OUT_MAX`."""
        if len(self._outgoing_streams) >= STREAMS_OUT_MAX:
            self._traffic.streams_failed += 1
            return
        self._traffic.streams_out += 1
        task = self._loop.create_task(self._run_stream(wanted), name=f"gossip with {wanted.address}")
        self._outgoing_streams[task] = None
        task.add_done_callback(self._outgoing_streams.pop)

    async def _run_stream(self, wanted: swim.OutgoingStream) -> None:
        """Send the first messages on a new stream, and then answer frames; count failures."""
        try:
            async with asyncio.timeout(wanted.timeout_s):
                stream = await self._wire.open(wanted.address)
                try:
                    await self._send(stream, wanted.messages)
                    await self._answer(stream)
                finally:
                    stream.close()
        except (OSError, TimeoutError, StreamEnd) as error:
            self._traffic.streams_failed += 1
            _logger.debug("gossip: the stream to %s failed: %r", wanted.address, error)

    async def _serve(self, stream: GossipStream) -> None:
        """Count an incoming stream, and answer its frames."""
        self._traffic.streams_in += 1
        await self._answer(stream)

    async def _answer(self, stream: GossipStream) -> None:
        """Pass incoming frames to the machine and send its answers, until it has no answer or after `ROUNDS_MAX`."""
        for _ in range(ROUNDS_MAX):
            try:
                sender, messages = await self._receive(stream)
            except AuthenticationError as refusal:
                self._refusals.count_refusal(refusal.reason, stream.peer[0], self._loop.time())
                return
            if not self._is_running:
                return
            answer = self._swim.handle_frame(messages, sender, self._loop.time())
            self._pump()
            if not answer:
                return
            await self._send(stream, answer)

    async def _send(self, stream: GossipStream, messages: Sequence[Message]) -> None:
        """Send a list of messages on a stream, in as many frames as it needs."""
        for at in range(0, max(len(messages), 1), MESSAGES_PER_FRAME):
            is_last = at + MESSAGES_PER_FRAME >= len(messages)
            payload = encode(self._cluster, messages[at : at + MESSAGES_PER_FRAME])
            frame = self._seal.seal((_LAST if is_last else _MORE) + payload)
            self._traffic.bytes_out += len(frame)
            await stream.send(frame)

    async def _receive(self, stream: GossipStream) -> tuple[Sender, list[Message]]:
        """Receive a list of messages from a stream, in frames of one sender. Raises `AuthenticationError`."""
        messages: list[Message] = []
        sender: NodeId | None = None
        for _ in range(FRAMES_PER_TURN_MAX):
            frame = await stream.receive()
            self._traffic.bytes_in += len(frame)
            opened = self._seal.open(frame, FRAME_BYTES_MAX)
            sender = opened.node_id if sender is None else sender
            if opened.node_id != sender or opened.body[:1] not in (_MORE, _LAST):
                raise AuthenticationError(RefusedDatagram.MALFORMED)
            messages += self._decode(opened.body[1:])
            if opened.body[:1] == _LAST:
                return Sender(sender, Address(*stream.peer)), messages
        raise AuthenticationError(RefusedDatagram.OVERSIZE)
