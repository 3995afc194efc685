"""Outgoing datagrams, filled up with pending claims, and streams. Filled by the machine, emptied by its caller.

Each datagram has at most `config.payload_bytes_max` bytes: first the message itself, then a suspicion of its receiver
if there is one, then pending claims, which count as sent."""

from random import Random
from typing import NamedTuple

from raftlog.membership.config import SwimConfig
from raftlog.membership.encoding import PAYLOAD_OVERHEAD_BYTES, payload_bytes_max
from raftlog.membership.member import Address, Claim, GossipMember, MemberState
from raftlog.membership.messages import Message
from raftlog.membership.view import MembershipView
from raftlog.types import NodeId


class OutgoingDatagram(NamedTuple):
    """One datagram: its encoded messages have at most `config.payload_bytes_max` bytes in total."""

    address: Address
    messages: tuple[Message, ...]


class OutgoingStream(NamedTuple):
    """Stream to open: `messages` are its first frame, and each received frame goes to `handle_frame`."""

    address: Address
    messages: tuple[Message, ...]
    timeout_s: float
    """Timeout of the whole exchange; failures need not be reported."""


class GossipOutbox:
    """Queue of datagrams and streams to send, in the order in which they were added."""

    def __init__(self, view: MembershipView, config: SwimConfig, random: Random) -> None:
        """Create an empty outbox, whose datagrams also carry claims of the view."""
        self._view = view
        self._roster = view.roster
        self._broadcasts = view.broadcasts
        self._config = config
        self._random = random
        self._sends: list[OutgoingDatagram] = []
        self._streams: list[OutgoingStream] = []

    def take_sends(self) -> list[OutgoingDatagram]:
        """Remove and return the datagrams to send."""
        sends, self._sends = self._sends, []
        return sends

    def take_streams(self) -> list[OutgoingStream]:
        """Remove and return the streams to open."""
        streams, self._streams = self._streams, []
        return streams

    def send(self, address: Address, message: Message, about: GossipMember | None = None, now: float = 0.0) -> None:
        """Queue a datagram with one message and as many pending claims as fit.

        `about` is the receiver; a suspicion of it goes first (Lifeguard: buddy system)."""
        messages = [message]
        excluded = None
        if about is not None and about.state is not MemberState.ALIVE:
            messages.append(self._view.claim_about(about, now, with_about=False))
            excluded = about.node_id
        if self._broadcasts:
            messages += self._piggyback(self._config.payload_bytes_max - payload_bytes_max(messages), excluded)
        self._sends.append(OutgoingDatagram(address, tuple(messages)))

    def gossip(self, now: float, fanout: int) -> None:
        """Queue datagrams with pending claims for `fanout` random members, and one recently declared dead.

        The dead member may be alive, and can then refute the claim."""
        chosen = self._roster.draw(self._random, fanout)
        since = now - self._config.gossip_to_the_dead_s
        died_lately = [node_id for node_id in self._roster.dead if self._roster.member(node_id).since > since]
        if died_lately:
            chosen.append(self._random.choice(died_lately))
        for node_id in chosen:
            claims = self._piggyback(self._config.payload_bytes_max - PAYLOAD_OVERHEAD_BYTES)
            if claims:
                self._sends.append(OutgoingDatagram(self._roster.member(node_id).address, tuple(claims)))

    def _piggyback(self, room: int, excluded: NodeId | None = None) -> list[Claim]:
        """Return claims that fit into `room` bytes, each counted as sent once more."""
        return self._broadcasts.take(room, self._view.retransmits_max, excluded)

    def open_stream(self, address: Address, messages: list[Message], timeout_s: float) -> None:
        """Queue a stream that begins with these messages."""
        self._streams.append(OutgoingStream(address, tuple(messages), timeout_s))
