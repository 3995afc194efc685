"""Simulated network between the nodes of a virtual loop: datagrams, streams, and their faults.

Every direction between two nodes is a `Link` with its own conditions and cuts. All random numbers come from the
given generator; every message that does not arrive is in `drops` with the reason, and in the loop's digest. Messages
are delivered by reference as callbacks of the receiving process: bytes, or values that never change. Sizes matter for
bandwidth only.

A process is reached by a service name, as by a port. Streams are in `streams`. A node reaches itself without faults,
after a delay. Invariants: nothing is delivered that was not sent · a stream has no gaps and keeps its order · nothing
is delivered to a process that did not exist when it was sent to (datagrams: that did not bind the service).
"""

from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import Final, NamedTuple, TypeAlias

from jepsen.simulation.network.links import Link, LinkConditions, freeze, size_of
from jepsen.simulation.network.shapes import Cut
from jepsen.simulation.network.streams import Stream
from jepsen.simulation.network.switchboard import Accept, StreamTimes, Switchboard
from jepsen.simulation.node import Node, Process
from jepsen.simulation.virtual_time.loop import VirtualLoop

DROPS_KEPT_MAX: Final = 10_000

Receive: TypeAlias = Callable[[Node, object], object]
"""Called in the receiving process with the sending node and the message."""


class Drop(NamedTuple):
    """Dropped message, with the reason."""

    time_ns: int
    source: str
    destination: str
    service: str
    reason: str


class SimulatedNetwork:
    """Simulated network between nodes.

    `attach` connects nodes and `bind` services. `cut`, `impose` and `set_conditions` cause faults, which `heal`
    ends."""

    def __init__(
        self,
        loop: VirtualLoop,
        random: Random,
        conditions: LinkConditions | None = None,
        times: StreamTimes | None = None,
    ) -> None:
        self.loop, self.random = loop, random
        self.conditions = LinkConditions() if conditions is None else conditions
        self.drops: deque[Drop] = deque(maxlen=DROPS_KEPT_MAX)
        self.drop_counts: dict[str, int] = {}
        self._nodes: dict[int, Node] = {}
        self._links: dict[Cut, Link] = {}
        self._bindings: dict[tuple[int, str], tuple[Process, Receive]] = {}
        self._switchboard = Switchboard(self, loop, random, StreamTimes() if times is None else times)

    def attach(self, node: Node) -> None:
        """Connect the node to all others."""
        assert node.number not in self._nodes, f"{node.name} is attached"
        self._nodes[node.number] = node
        node.on_crash(self._switchboard.on_process_crash)

    def link(self, source: Node, destination: Node) -> Link:
        """Return the link in this direction, created at its first use; a node reaches itself without faults."""
        key = (source.number, destination.number)
        link = self._links.get(key)
        if link is None:
            inside = LinkConditions() if source is destination else self.conditions
            link = self._links[key] = Link(self.random, inside)
        return link

    # Datagrams

    def bind(self, process: Process, service: str, receive: Receive) -> None:
        """Deliver datagrams for the service on the process's node to `receive`, until the process ends."""
        self._bindings[process.node.number, service] = process, receive

    def send(
        self, source: Process, destination: Node, service: str, message: object, size_bytes: int | None = None
    ) -> None:
        """Send a datagram: it arrives once, twice, late or never, in any order."""
        if not source.is_alive:
            return
        sender = source.node
        link = self.link(sender, destination)
        size = size_of(message) if size_bytes is None else size_bytes
        now_ns = self.loop.now_ns
        is_lost, is_duplicated = link.is_lost(), link.is_duplicated()
        if link.is_cut:
            self.drop(sender, destination, service, "cut")
            return
        if link.queued_bytes(now_ns) + size > link.conditions.queue_bytes_max:
            self.drop(sender, destination, service, "queue full")
            return
        sent_ns = link.sent_ns(now_ns, size)
        if is_lost:
            self.drop(sender, destination, service, "lost")
        for _ in range((not is_lost) + is_duplicated):
            arrival_ns = sent_ns + link.delay_ns() + link.reorder_delay_ns()
            args = (sender, destination, service, freeze(message), link.ticket())
            self.loop.call_at_ns(arrival_ns, self._arrive, *args)

    def _arrive(self, source: Node, destination: Node, service: str, message: object, ticket: int) -> None:
        """Deliver a datagram to the process that has bound the service, or drop it with the reason."""
        process, receive = self._bindings.get((destination.number, service), (None, None))
        if not self.link(source, destination).passes(ticket):
            self.drop(source, destination, service, "cut under way")
        elif process is None or receive is None or not process.is_alive:
            self.drop(source, destination, service, "no process there")
        else:
            self.record_delivery(source, destination)
            process.call_soon(receive, source, message)

    # Streams

    def listen(self, process: Process, service: str, accept: Accept) -> None:
        """Pass streams to the service on the process's node to `accept`, until the process ends."""
        self._switchboard.listen(process, service, accept)

    async def connect(self, source: Process, destination: Node, service: str) -> Stream:
        """Open a stream. Raises `ConnectionRefusedError` when no process listens there, `TimeoutError` over a cut."""
        return await self._switchboard.connect(source, destination, service)

    def reset_streams(self, a: Node, b: Node) -> None:
        """Reset all streams between the two, as a middlebox does.

        Messages in flight are lost; each end notices at a time of its own."""
        self.loop.note(a.name, f"streams to {b.name} are reset")
        self._switchboard.reset(a, b)

    # Breaking and repairing

    def cut(self, source: Node, destination: Node) -> None:
        """Cut the link in this direction; messages in flight are lost."""
        self.loop.note(source.name, f"is cut off from {destination.name}")
        self.link(source, destination).cut()
        self._switchboard.on_cut(source, destination)

    def impose(self, cuts: Iterable[Cut]) -> None:
        """Cut links in this order, by the numbers of nodes (see `shapes`); earlier cuts stay."""
        for source, destination in cuts:
            self.cut(self._nodes[source], self._nodes[destination])

    def repair(self, source: Node, destination: Node) -> None:
        """End the cut of the link in this direction."""
        self.loop.note(source.name, f"reaches {destination.name} again")
        self.link(source, destination).is_cut = False

    def heal(self) -> None:
        """Restore all links: no cuts, and the network's own conditions. Broken streams stay broken."""
        self.loop.note("network", "heals")
        for (source, destination), link in self._links.items():
            link.is_cut = False
            if source != destination:
                link.conditions = self.conditions

    def set_conditions(self, source: Node, destination: Node, conditions: LinkConditions) -> None:
        """Set delay, loss and bandwidth of one direction, until `heal`."""
        self.loop.note(source.name, f"to {destination.name}: {changes(self.conditions, conditions)}")
        self.link(source, destination).conditions = conditions

    # For streams

    def record_delivery(self, source: Node, destination: Node) -> None:
        """Add a delivery to the digest of the run."""
        self.loop.trace.record_number(source.number << 32 | destination.number)

    def drop(self, source: Node, destination: Node, service: str, reason: str) -> None:
        """Count a dropped message.

        It is not in the timeline, because a cut drops thousands and has an entry of its own."""
        self.drops.append(Drop(self.loop.now_ns, source.name, destination.name, service, reason))
        self.drop_counts[reason] = self.drop_counts.get(reason, 0) + 1
        self.loop.trace.record_number(-1 - (source.number << 32 | destination.number))


def changes(usual: LinkConditions, conditions: LinkConditions) -> str:
    """Return the differences of the conditions from the usual ones, for the timeline."""
    named = zip(LinkConditions._fields, usual, conditions, strict=True)
    return ", ".join(f"{name}={new}" for name, old, new in named if new != old) or "as usual"
