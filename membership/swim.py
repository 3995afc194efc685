"""SWIM with the Lifeguard refinements as one machine without I/O: who is there, told by gossip.

The agent (`membership.agent`) and the simulator drive it: they hand in what arrives and the time, call `tick` when
`due()` says so, and after every call carry out what `take_sends`, `take_streams`, `take_changes` and `take_conflicts`
give. `now` is a monotonic clock in seconds. What it says is a hint about addresses and liveness, and never more:
no voter set follows from it.
"""

from collections.abc import Iterable, Sequence
from random import Random
from typing import NamedTuple

from raftlog.membership.config import SwimConfig
from raftlog.membership.member import Address, Claim, Identity, Member, State
from raftlog.membership.messages import Message
from raftlog.types import NodeId


class Sender(NamedTuple):
    """Who sent something, as the wire has proved it."""

    node_id: NodeId
    address: Address
    """Where an answer goes; not necessarily the address by which the others know it."""


class Send(NamedTuple):
    """One datagram: its messages together are at most `config.payload_bytes_max` when encoded."""

    address: Address
    messages: tuple[Message, ...]


class Stream(NamedTuple):
    """Open a stream, send `messages` as one frame, and hand each frame that comes back to `converse`."""

    address: Address
    messages: tuple[Message, ...]
    timeout_s: float
    """For all of it; failures need not be reported."""


class MemberChange(NamedTuple):
    """A member's state changed, or it came (`before` is None), or was forgotten (`after` is None).

    Also given with `before == after` when its incarnation, address or description is new.
    """

    node_id: NodeId
    before: State | None
    after: State | None
    member: Member


class Conflict(NamedTuple):
    """Another process claims a node id whose holder is up. The holder keeps it until it is dead or left."""

    known: Member
    other: Claim


class Counters(NamedTuple):
    """Since the start, and sizes now."""

    probes: int
    probes_failed: int
    suspicions: int
    """That began here, by whomever."""
    refutations: int
    """Of claims about this member."""
    syncs: int
    awareness: int
    broadcasts_waiting: int


class Swim:
    """This member's view of all of them."""

    def __init__(self, me: Identity, description: bytes, config: SwimConfig, random: Random) -> None:
        raise NotImplementedError

    def start(self, now: float) -> None:
        """Begin to take part: alive at the first incarnation of this start."""

    def join(self, addresses: Iterable[Address], now: float) -> None:
        """Addresses where members may be. Those of members that are up are passed by; the others are tried, one after
        the other, again and again, until somebody known is there. A new call replaces the list; at most 4,096."""

    def receive(self, messages: Sequence[Message], sender: Sender, now: float) -> None:
        """A datagram arrived."""

    def converse(self, messages: Sequence[Message], sender: Sender, now: float) -> list[Message]:
        """A frame of a stream arrived, at either end; the answer goes back on it. Empty: close the stream."""
        raise NotImplementedError

    def tick(self, now: float) -> None:
        """Do what is due. Calling it too early is harmless."""

    def due(self) -> float:
        """When to call `tick` next; changes with every call of anything else."""
        raise NotImplementedError

    def describe(self, description: bytes, now: float) -> None:
        """Tell everybody a new description (at most 400 bytes) under a new incarnation; nothing if it is the same."""

    def doubt(self, node_id: NodeId, now: float) -> None:
        """Something else hints that this member is gone (a connection broke): probe it at once."""

    def leave(self, now: float) -> None:
        """Tell everybody that this member goes. Let the machine run for a few `gossip_interval_s` before closing."""

    def members(self) -> list[Member]:
        """All that are known, this one included, by node id."""
        raise NotImplementedError

    def member(self, node_id: NodeId) -> Member | None:
        """One of them."""
        raise NotImplementedError

    def counters(self) -> Counters:
        raise NotImplementedError

    def take_sends(self) -> list[Send]:
        """Datagrams to send now."""
        raise NotImplementedError

    def take_streams(self) -> list[Stream]:
        """Conversations to begin now; at most a few at a time."""
        raise NotImplementedError

    def take_changes(self) -> list[MemberChange]:
        """What is new about members, in order."""
        raise NotImplementedError

    def take_conflicts(self) -> list[Conflict]:
        """Names that two processes claim; each pair of disks at most once a minute."""
        raise NotImplementedError
