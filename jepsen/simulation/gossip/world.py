"""Clock and network between the members: an event heap, and random numbers from one seed.

Each datagram is lost, duplicated and delayed independently; cuts are one-way, by pairs of members. After every call to
a machine the world performs its actions, as the agent does."""

from collections.abc import Callable, Collection, Iterable
from heapq import heappop, heappush
from math import inf
from typing import Final, TypeAlias

from jepsen.simulation.gossip.options import GossipOptions
from jepsen.simulation.gossip.process import INBOX_MAX, Datagram, Process
from jepsen.simulation.options import generator
from jepsen.simulation.trace import Trace
from jepsen.simulation.verdicts import PropertyBroken
from raftlog.membership.config import SwimConfig
from raftlog.membership.encoding import decode, encode, fingerprint, payload_bytes_max
from raftlog.membership.member import Address
from raftlog.membership.messages import Ack, Message, Nack, Ping
from raftlog.membership.swim import MemberChange, OutgoingDatagram, OutgoingStream
from raftlog.types import NodeId

HEADERS_BYTES: Final = 28
"""Size of the IP and UDP headers."""
ENCODED_ONE_IN: Final = 64
SEGMENTS_PER_FRAME: Final = 2
"""A segment and its acknowledgement."""
DELAY_MIN_S: Final = 0.0001

Event: TypeAlias = tuple[float, int, "Process | None", "Datagram | Callable[[], None] | None"]
"""Time, order of scheduling, recipient (None: the harness), and content (None: a tick is due)."""


class World:
    """Simulated gossip members and the network between them. `watcher` is called with every reported change."""

    def __init__(self, options: GossipOptions, watcher: Callable[[Process, MemberChange], None]) -> None:
        self.options = options
        self.now = 0.0
        self.config = SwimConfig()
        self.trace = Trace()
        self.processes = [Process(NodeId(number)) for number in range(1, options.members + 1)]
        self.loss = options.loss
        self.blocked: set[tuple[NodeId, NodeId]] = set()
        self.datagrams = self.bytes = self.streams = 0
        """Datagrams, bytes and streams that all members have sent; bytes include headers and seal."""
        self._watcher = watcher
        self._by_address: dict[Address, Process] = {process.address: process for process in self.processes}
        self._random = generator(options.seed, "gossip network")
        self._heap: list[Event] = []
        self._order = 0
        self._payload_bytes_max = self.config.payload_bytes_max
        self._overhead_bytes = self.config.envelope_bytes + HEADERS_BYTES
        frequent: tuple[Message, ...] = (Ping(0, NodeId(0), b""), Ack(0), Nack(0))
        self._small: dict[type[Message], int] = {type(each): payload_bytes_max([each]) for each in frequent}
        """Size of datagrams with one of the most frequent messages, by type."""
        self._cluster = fingerprint(f"cluster of seed {options.seed}")

    # time

    def call_at(self, when: float, call: Callable[[], None]) -> None:
        """Schedule a call of the harness at this virtual time."""
        self._push(when, None, call)

    def run_until(self, end: float) -> None:
        """Run all events up to the virtual time `end`, in seconds."""
        heap = self._heap
        while heap and heap[0][0] <= end:
            self.now, _, process, content = heappop(heap)
            if process is None:
                assert callable(content), content
                content()
            elif content is None:
                self._tick_if_due(process)
            elif process.is_up:
                assert isinstance(content, Datagram), content
                self._deliver(process, content)
        self.now = end

    def _push(self, when: float, process: Process | None, content: Datagram | Callable[[], None] | None) -> None:
        """Add an event to the heap: a datagram or, with None, a tick for the process, or a call for the harness."""
        self._order += 1
        heappush(self._heap, (when, self._order, process, content))

    def _tick_if_due(self, process: Process) -> None:
        """Call the process's timer if it is due now; schedule it again if it is due later."""
        if process.wake_at != self.now or not process.is_running:
            return  # it was called meanwhile, or there is no process to call
        due = process.swim.due()
        if due > self.now:  # what it waited for has come
            process.wake_at = due
            self._push(due, process, None)
            return
        process.wake_at = inf
        process.swim.tick(self.now)
        self.perform_actions(process)

    def perform_actions(self, process: Process) -> None:
        """Perform the actions that the process's SWIM machine requests."""
        swim = process.swim
        for send in swim.take_sends():
            self._send(process, send)
        for stream in swim.take_streams():
            self._open_stream(process, stream)
        for change in swim.take_changes():
            self._watcher(process, change)
        due = swim.due()
        if due < process.wake_at:
            process.wake_at = due if due > self.now else self.now
            self._push(process.wake_at, process, None)

    # processes

    def begin(self, process: Process, seeds: Iterable[Process]) -> None:
        """Start a process with the addresses of `seeds`."""
        random = generator(self.options.seed, "gossip member", process.node_id, process.starts)
        process.begin(bytes(self.options.description_bytes), self.config, random)
        self.note(process, f"begins start {process.starts} on disk {process.disk}")
        process.swim.start(self.now)
        process.swim.join([seed.address for seed in seeds if seed is not process], self.now)
        self.perform_actions(process)

    def pause(self, process: Process) -> None:
        """Pause the process: its timers wait, and datagrams wait in its inbox."""
        self.note(process, "is stopped")
        process.is_paused = True

    def resume(self, process: Process) -> None:
        """Resume a paused process; its overdue timer runs before it reads its socket."""
        if not process.is_paused:
            return
        self.note(process, "goes on")
        process.is_paused = False
        process.resumed_at = self.now
        process.swim.tick(self.now)
        process.wake_at = inf
        self.perform_actions(process)
        inbox, process.inbox = process.inbox, []
        for datagram in inbox:
            self._deliver(process, datagram)

    def note(self, process: Process | None, text: str) -> None:
        """Add an event of a process, or of the harness for None, to the timeline."""
        self.trace.note(int(self.now * 1e9), "" if process is None else process.name, text)

    # network

    def can_reach(self, sender: NodeId, receiver: NodeId) -> bool:
        """Return whether the link from the sender to the receiver is open."""
        return (sender, receiver) not in self.blocked

    def cut(self, senders: Collection[Process], receivers: Collection[Process]) -> None:
        """Cut the links from the senders to the receivers, in this direction only."""
        self.blocked |= {(one.node_id, other.node_id) for one in senders for other in receivers}

    def _send(self, process: Process, send: OutgoingDatagram) -> None:
        """Send a datagram: it arrives once, twice, late or never. Its bytes are counted."""
        messages = send.messages
        self.datagrams += 1
        size = self._small.get(type(messages[0])) if len(messages) == 1 else None
        size = size or payload_bytes_max(messages)
        self.bytes += size + self._overhead_bytes
        if size > self._payload_bytes_max or self.datagrams % ENCODED_ONE_IN == 0:
            self._check_encoding(messages, size)
        random, options = self._random.random, self.options
        receiver = self._by_address[send.address]
        if self.blocked and (process.node_id, receiver.node_id) in self.blocked:
            return
        if self.loss and random() < self.loss:
            return
        datagram = Datagram(messages, process.sender)
        self._push(self.now + DELAY_MIN_S + random() * options.delay_max_s, receiver, datagram)
        if options.duplicate and random() < options.duplicate:
            self._push(self.now + DELAY_MIN_S + random() * options.delay_max_s, receiver, datagram)

    def _check_encoding(self, messages: tuple[Message, ...], size: int) -> None:
        """Check the size of a datagram, and that its encoding has at most `size` bytes and decodes to the same."""
        if size > self._payload_bytes_max:
            raise PropertyBroken("datagram-too-large", {"bytes": size, "messages": messages})
        encoded = encode(self._cluster, messages)
        if len(encoded) > size or tuple(decode(encoded, self._cluster)) != messages:
            raise PropertyBroken("encoding", {"bytes": len(encoded), "counted": size, "messages": messages})

    def _deliver(self, process: Process, datagram: Datagram) -> None:
        """Pass a datagram to the process; if it is paused, to its inbox."""
        if process.is_paused:
            if len(process.inbox) < INBOX_MAX:
                process.inbox.append(datagram)
            return
        process.swim.receive(datagram.messages, datagram.sender, self.now)
        self.perform_actions(process)

    # streams

    def _open_stream(self, process: Process, stream: OutgoingStream) -> None:
        """Open a stream and send its first frame."""
        self.streams += 1
        other = self._by_address[stream.address]
        expires_at = self.now + stream.timeout_s
        self._send_frame(process, process.starts, other, other.starts, stream.messages, expires_at)

    def _send_frame(
        self,
        sender: Process,
        sender_starts: int,
        to: Process,
        to_starts: int,
        messages: tuple[Message, ...],
        expires_at: float,
    ) -> None:
        """Send one frame of a stream.

        It arrives if neither process restarts, both directions are open, and the time limit has not passed."""
        size = len(encode(self._cluster, messages)) + self.config.envelope_bytes
        self.bytes += size + SEGMENTS_PER_FRAME * 40
        kept = (1 - self.loss) ** SEGMENTS_PER_FRAME
        pair = (sender.node_id, to.node_id)
        if not self.can_reach(*pair) or not self.can_reach(*pair[::-1]) or self._random.random() >= kept:
            return
        arrival = self.now + DELAY_MIN_S + self._random.random() * self.options.delay_max_s

        def deliver() -> None:
            """Pass the frame to the receiver, and send its answer back as a frame of the same stream."""
            if not to.is_running or to.starts != to_starts or sender.starts != sender_starts or self.now > expires_at:
                return
            answer = to.swim.handle_frame(messages, sender.sender, self.now)
            self.perform_actions(to)
            if answer and sender.is_up:
                self._send_frame(to, to_starts, sender, sender_starts, tuple(answer), expires_at)

        self.call_at(arrival, deliver)
