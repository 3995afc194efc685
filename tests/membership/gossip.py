"""SWIM state machines that tests connect by hand: a test delivers or drops each message, and sets the time."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from raftlog.membership.config import SwimConfig
from raftlog.membership.member import Address, Announcement, Claim, GossipIdentity, GossipMember, MemberState
from raftlog.membership.messages import Message
from raftlog.membership.swim import OutgoingDatagram, OutgoingStream, Sender, Swim
from raftlog.types import NodeId

CONFIG = SwimConfig()
STILL = replace(CONFIG, period_s=1_000.0, late_s=1e9)
"""Settings of machines that only answer messages."""
ALIVE, SUSPECT, DEAD, LEFT = MemberState


def address(node: int) -> Address:
    return Address("10.0.0.1", 7000 + node)


def disk(node: int, number: int = 0) -> bytes:
    return node.to_bytes(8) + number.to_bytes(8)


def make_about(incarnation: int, node: int, description: bytes = b"") -> Announcement:
    return Announcement(incarnation, address(node), description)


def claim(
    node: int,
    state: MemberState,
    incarnation: int,
    by: int = 9,
    *,
    told: bool = True,
    on: bytes | None = None,
    age_s: int = 0,
) -> Claim:
    """Return a claim about a node; `told` adds its own description, which claims of living nodes always have."""
    words = make_about(incarnation, node) if told or state is ALIVE else None
    return Claim(NodeId(node), on or disk(node), incarnation, state, NodeId(by), age_s, words)


def member(node: int, state: MemberState, incarnation: int) -> GossipMember:
    return GossipMember(NodeId(node), disk(node), incarnation, state, make_about(incarnation, node), 0.0)


def first_incarnation(node: int, boot: int = 1) -> int:
    return GossipIdentity(NodeId(node), disk(node), address(node), boot).first_incarnation


def swim(node: int, *, boot: int = 1, on: bytes | None = None, config: SwimConfig = CONFIG, seed: int = 0) -> Swim:
    """Return a SWIM state machine that started at time 0."""
    identity = GossipIdentity(NodeId(node), on or disk(node), address(node), boot)
    machine = Swim(identity, b"", config, Random(f"{seed} {node}"))
    machine.start(0.0)
    return machine


def swim_with_members(node: int, others: Sequence[int], *, config: SwimConfig = CONFIG, now: float = 0.0) -> Swim:
    """Return a SWIM state machine with other members in their first incarnations."""
    machine = swim(node, config=config)
    machine.handle_frame([claim(other, ALIVE, first_incarnation(other)) for other in others], sender(others[0]), now)
    discard_output(machine)
    return machine


def sender(node: int) -> Sender:
    return Sender(NodeId(node), address(node))


def discard_output(machine: Swim) -> None:
    """Discard everything that the machine wants to send or report."""
    machine.take_sends()
    machine.take_streams()
    machine.take_changes()
    machine.take_conflicts()


def state_of(machine: Swim, node: int) -> MemberState | None:
    known = machine.member(NodeId(node))
    return None if known is None else known.state


def take_sent(machine: Swim, kind: type[Message]) -> list[tuple[int, Message]]:
    """Take all messages to send; return those of a kind, each with its destination."""
    sends: list[OutgoingDatagram] = machine.take_sends()
    return [(send.address.port - 7000, each) for send in sends for each in send.messages if isinstance(each, kind)]


class GossipNet:
    """Machines that reach each other at once, except for datagrams and streams that `lost` selects.

    Time advances from one due call to the next."""

    def __init__(self, *nodes: int, config: SwimConfig = CONFIG, together: bool = True) -> None:
        self.now = 0.0
        self.config = config
        self.machines = {node: swim(node, config=config) for node in nodes}
        self.lost: Callable[[int, int], bool] = lambda _sender, _receiver: False
        self.stopped: set[int] = set()
        self.changes: list[tuple[float, int, int, MemberState | None]] = []
        if together:
            for machine in self.machines.values():
                machine.join([address(nodes[0])], self.now)
            self.run(5.0)
            self.changes.clear()

    def kill(self, *nodes: int) -> None:
        for node in nodes:
            del self.machines[node]

    def start(self, node: int, *, boot: int = 1, on: bytes | None = None) -> Swim:
        identity = GossipIdentity(NodeId(node), on or disk(node), address(node), boot)
        machine = self.machines[node] = Swim(identity, b"", self.config, Random(f"{boot} {node}"))
        machine.start(self.now)
        machine.join([address(other) for other in self.machines if other != node], self.now)
        return machine

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while True:
            self._deliver_all()
            running = [machine for node, machine in self.machines.items() if node not in self.stopped]
            due = min((machine.due() for machine in running), default=end)
            if due > end:
                break
            self.now = max(self.now, due)
            for machine in running:
                if machine.due() <= self.now:
                    machine.tick(self.now)
        self.now = end

    def _deliver_all(self) -> None:
        busy = True
        while busy:
            busy = False
            for node, machine in list(self.machines.items()):
                if node in self.stopped:
                    continue
                for send in machine.take_sends():
                    busy = True
                    self._deliver(node, send)
                for stream in machine.take_streams():
                    busy = True
                    self._exchange(node, machine, stream)
                for change in machine.take_changes():
                    self.changes.append((self.now, node, change.node_id, change.after))

    def _receiver(self, node: int, to: Address) -> Swim | None:
        other = to.port - 7000
        if other in self.stopped or self.lost(node, other):
            return None
        return self.machines.get(other)

    def _deliver(self, node: int, send: OutgoingDatagram) -> None:
        receiver = self._receiver(node, send.address)
        if receiver is not None:
            receiver.receive(send.messages, sender(node), self.now)

    def _exchange(self, node: int, machine: Swim, stream: OutgoingStream) -> None:
        other, messages = self._receiver(node, stream.address), list(stream.messages)
        here, there = sender(node), sender(stream.address.port - 7000)
        while other is not None and messages and not self.lost(there.node_id, node):
            messages = other.handle_frame(messages, here, self.now)
            if messages:
                messages = machine.handle_frame(messages, there, self.now)

    def states(self, of: int) -> dict[int, MemberState | None]:
        """Return the states of one node in the views of the others."""
        return {node: state_of(machine, of) for node, machine in self.machines.items() if node != of}
