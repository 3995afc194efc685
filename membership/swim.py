"""SWIM with the Lifeguard refinements as a machine without I/O: members and their states, by gossip.

The agent (`membership.agent`) and the simulator drive it: they hand in arriving messages and the time, call `tick` at
`due()`, and after every call carry out the results of `take_sends`, `take_streams`, `take_changes` and
`take_conflicts`. `now` is a monotonic clock in seconds. Its output is a hint about addresses and liveness, and never
more: no voter set follows from it.

This file has the timing: probes, helpers, rounds of gossip, exchanges of digests. The states of members are in
`membership.view`, by the table in `membership.states`."""

import math
from collections.abc import Iterable, Sequence
from random import Random
from typing import Final, NamedTuple

from raftlog.membership import exchange
from raftlog.membership.changes import Conflict, MemberChange
from raftlog.membership.config import SwimConfig
from raftlog.membership.encoding import SEQUENCE_MAX
from raftlog.membership.member import DESCRIPTION_BYTES_MAX, Address, Claim, GossipIdentity, GossipMember, MemberState
from raftlog.membership.messages import Ack, Message, Nack, Ping, PingRequest
from raftlog.membership.outbox import GossipOutbox, OutgoingDatagram, OutgoingStream
from raftlog.membership.probes import Probe, Probes, Relays
from raftlog.membership.syncs import Syncs
from raftlog.membership.view import MembershipView
from raftlog.types import NodeId

__all__ = ["Conflict", "MemberChange", "OutgoingDatagram", "OutgoingStream", "Sender", "Swim", "SwimCounters"]

LEAVE_FANOUT: Final = 16
"""Members that are notified directly when this member leaves."""
SUSPECT_PROBES: Final = 4
"""Members that probe a new suspect, as a multiple of the needed confirmations (on average)."""


class Sender(NamedTuple):
    """Sender of a message, as authenticated by the wire."""

    node_id: NodeId
    address: Address
    """Address to which an answer is sent; it can differ from the address that the member announced."""


class SwimCounters(NamedTuple):
    """Counters since the start, and present sizes."""

    probes: int
    probes_failed: int
    suspicions: int
    """Suspicions that began in this view, by any accuser."""
    refutations: int
    """Refuted claims about this member."""
    syncs: int
    awareness: int
    broadcasts_waiting: int


class Swim:
    """SWIM state machine of this member, without I/O: its view of all members, and the messages to send."""

    def __init__(self, me: GossipIdentity, description: bytes, config: SwimConfig, random: Random) -> None:
        """Create the state machine of this process, which knows no other member yet."""
        assert len(description) <= DESCRIPTION_BYTES_MAX, len(description)
        self._me = me
        self._config = config
        self._random = random
        self._view = MembershipView(me, description, config, random)
        self._roster = self._view.roster
        self._broadcasts = self._view.broadcasts
        self._probes = Probes(config)
        self._relays = Relays(config)
        self._outbox = GossipOutbox(self._view, config, random)
        self._syncs = Syncs(self._view, self._outbox, config, random)
        self._sequence = random.randint(0, SEQUENCE_MAX)
        self._turns = 0
        self._turn_at = self._gossip_at = self._reap_at = math.inf
        self._probe_count = self._failed_count = 0

    # calls of the driver

    def start(self, now: float) -> None:
        """Begin to gossip: this member is alive at the first incarnation of its boot epoch."""
        self._view.announce_start(now)
        self._turn_at = now + self._random.random() * self._config.period_s / 2
        self._gossip_at = now
        self._reap_at = now + self._config.reap_s / 10
        self._syncs.start(now)

    def join(self, addresses: Iterable[Address], now: float) -> None:
        """Set the addresses that are tried to find members, at most 4,096.

        Addresses of known members are skipped; the others are tried, one after the other, repeatedly, until each has a
        known member. A new call replaces the list."""
        self._syncs.join(addresses, now)

    def set_description(self, description: bytes, now: float) -> None:
        """Announce a new description (at most 400 bytes) under a new incarnation; do nothing if it is the same."""
        assert len(description) <= DESCRIPTION_BYTES_MAX, len(description)
        self._view.set_description(description)
        self._schedule_gossip(now)

    def probe_now(self, node_id: NodeId, now: float) -> None:
        """Probe a member at once, unless a probe of it runs: for example after a connection to it broke."""
        if self._is_up(node_id) and not self._probes.has(node_id):
            self._probe(node_id, now)

    def leave(self, now: float) -> None:
        """Announce that this member leaves; run the machine for a few more `gossip_interval_s` to spread it."""
        self._view.leave(now)
        self._turn_at = self._reap_at = math.inf
        self._syncs.stop()
        self._probes = Probes(self._config)
        self._outbox.gossip(now, LEAVE_FANOUT)
        self._gossip_at = now + self._config.gossip_interval_s

    def receive(self, messages: Sequence[Message], sender: Sender, now: float) -> None:
        """Handle the messages of a datagram."""
        if now > self._turn_at + self._config.late_s:
            self._postpone_deadlines(now)
        for message in messages:
            self._handle(message, sender, now)
        if self._broadcasts or self._view.contested:
            self._follow_up(now)

    def handle_frame(self, messages: Sequence[Message], sender: Sender, now: float) -> list[Message]:
        """Handle the messages of one frame of a stream, at either end; return the answer, empty to close the stream."""
        if now > self._turn_at + self._config.late_s:
            self._postpone_deadlines(now)
        before = len(self._view.changes)
        for message in messages:
            if isinstance(message, Claim):
                self._view.handle_claim(message, now, is_exchanged=True)
            elif isinstance(message, Ack):
                self._handle_ack(message, now)
        if len(self._view.changes) > before:
            self._syncs.move_forward(now)
        self._follow_up(now)
        answers: list[Message] = []
        for message in messages:
            if isinstance(message, Ping) and self._is_for_me(message):
                answers.append(Ack(message.sequence))
            answers += exchange.answer(message, self._view, now)
        return answers

    def tick(self, now: float) -> None:
        """Run all due work; harmless when nothing is due."""
        if now > self.due() + self._config.late_s:
            self._postpone_deadlines(now)
        if now >= self._relays.due:
            for relay in self._relays.take_unanswered(now):
                self._outbox.send(relay.origin, Nack(relay.origin_sequence))
        if now >= self._probes.due:
            self._tick_probes(now)
        if now >= self._view.suspicion_due:
            self._view.declare_dead(now)
        if now >= self._turn_at:
            self._take_turn(now)
        if now >= self._syncs.due:
            self._syncs.tick(now)
        if now >= self._reap_at:
            self._view.reap(now)
            self._reap_at = now + self._config.reap_s / 10
        if self._broadcasts:
            self._follow_up(now)
        if now >= self._gossip_at:
            self._outbox.gossip(now, self._config.gossip_fanout)
            has_more = self._broadcasts and self._roster.up_count > 1
            self._gossip_at = now + self._config.gossip_interval_s if has_more else math.inf

    def due(self) -> float:
        """Return the time of the next `tick`; every other call may change it."""
        view_at, probes_at, relays_at = self._view.suspicion_due, self._probes.due, self._relays.due
        return min(self._turn_at, self._gossip_at, self._syncs.due, self._reap_at, view_at, probes_at, relays_at)

    # output for the caller

    def members(self) -> list[GossipMember]:
        """Return all known members, this one included, by node id."""
        return sorted(self._roster)

    def member(self, node_id: NodeId) -> GossipMember | None:
        """Return a member; None if it is unknown."""
        return self._roster.get(node_id)

    def counters(self) -> SwimCounters:
        """Return the counters and present sizes."""
        view = self._view
        return SwimCounters(
            probes=self._probe_count,
            probes_failed=self._failed_count,
            suspicions=view.suspected_count,
            refutations=view.refuted_count,
            syncs=self._syncs.count,
            awareness=view.awareness.score,
            broadcasts_waiting=len(self._broadcasts),
        )

    def take_sends(self) -> list[OutgoingDatagram]:
        """Remove and return the datagrams to send now."""
        return self._outbox.take_sends()

    def take_streams(self) -> list[OutgoingStream]:
        """Remove and return the streams to open now."""
        return self._outbox.take_streams()

    def take_changes(self) -> list[MemberChange]:
        """Remove and return the changes of other members since the last call, in order."""
        changes, self._view.changes = self._view.changes, []
        return changes

    def take_conflicts(self) -> list[Conflict]:
        """Remove and return the conflicts over node ids; each pair of disks is reported at most once a minute."""
        return self._view.conflicts.take()

    # messages

    def _handle(self, message: Message, sender: Sender, now: float) -> None:
        """Handle one message of a datagram; ignore those that only streams carry."""
        if isinstance(message, Ping):
            self._handle_ping(message, sender, now)
        elif isinstance(message, Ack):
            self._handle_ack(message, now)
        elif isinstance(message, Claim):
            self._handle_claim(message, sender, now)
        elif isinstance(message, Nack):
            self._probes.count_nack(message.sequence)
        elif isinstance(message, PingRequest):
            self._handle_ping_request(message, sender, now)

    def _handle_ping(self, ping: Ping, sender: Sender, now: float) -> None:
        """Answer a ping, with a suspicion of its sender if there is one; exchange digests with an unknown sender."""
        if not self._is_for_me(ping):
            return  # for the former process at this address
        known = self._roster.get(sender.node_id)
        if known is None:
            self._syncs.sync_with_unknown(sender.address, now)
        self._outbox.send(sender.address, Ack(ping.sequence), about=known, now=now)

    def _is_for_me(self, ping: Ping) -> bool:
        """Return whether a ping names this member on this disk."""
        me = self._me
        return ping.target == me.node_id and ping.disk_uuid == me.disk_uuid

    def _handle_ack(self, ack: Ack, now: float) -> None:
        """Relay an answer to the member that asked for the ping, or complete the probe of this member."""
        relay = self._relays.take_answered(ack.sequence)
        if relay is not None:
            self._outbox.send(relay.origin, Ack(relay.origin_sequence))
        elif self._probes.take_answered(ack.sequence) is not None:
            self._view.awareness.improve()

    def _handle_claim(self, claim: Claim, sender: Sender, now: float) -> None:
        """Process a claim; refute a false one about this member to its sender."""
        self._view.handle_claim(claim, now)
        if claim.node_id == self._me.node_id and claim.state is not MemberState.ALIVE and self._view.supersedes(claim):
            mine = self._view.claim_about(self._roster.myself, now, with_about=True)
            self._outbox.send(sender.address, mine)  # only the sender may have that claim

    def _handle_ping_request(self, request: PingRequest, sender: Sender, now: float) -> None:
        """Ping a member for another one, unless `RELAYS_MAX` such pings are running."""
        sequence = self._next_sequence()
        if self._relays.try_begin(sequence, request, sender.address, now):
            ping = Ping(sequence, request.target, request.disk_uuid)
            target = self._roster.get(request.target)
            self._outbox.send(Address(request.host, request.port), ping, about=target, now=now)

    # probes

    def _take_turn(self, now: float) -> None:
        """Probe one member: the next one of the round or the neighbour on the ring, in turn.

        At bad local health probes are rarer. With rounds alone, a dead member would stay without a probe for t periods
        with a probability of e^-t; its neighbour on the ring certainly probes it within two turns."""
        self._turns += 1
        target = self._roster.neighbour() if self._turns % 2 else self._view.rounds.next_target()
        if target is not None:
            self._probe(target, now)
        if self._roster.dead:
            self._maybe_ping_dead(now)
        self._turn_at = now + self._config.turn_s(self._roster.up_count) * self._view.awareness.factor

    def _probe(self, node_id: NodeId, now: float) -> None:
        """Send a ping to a member and wait for its answer."""
        member, sequence = self._roster.member(node_id), self._next_sequence()
        self._probes.begin(sequence, member, now, self._view.awareness.factor)
        self._probe_count += 1
        self._ping(sequence, member, now)

    def _ping(self, sequence: int, member: GossipMember, now: float) -> None:
        """Send a ping to a member, with pending claims."""
        self._outbox.send(member.address, Ping(sequence, member.node_id, member.disk_uuid), about=member, now=now)

    def _ask_helpers(self, probe: Probe) -> None:
        """Ask helpers to ping the target of a silent probe, and ping it on a stream as well."""
        member = self._roster.get(probe.target)
        if member is None or member.incarnation != probe.incarnation:
            return
        host, port = member.address
        request = PingRequest(probe.sequence, probe.target, member.disk_uuid, host, port)
        for helper in self._roster.draw(self._random, self._config.helpers, excluded=probe.target):
            probe.asked += 1
            self._outbox.send(self._roster.member(helper).address, request)
        left_s = (self._config.probe_deadline_s - self._config.probe_timeout_s) * self._view.awareness.factor
        ping = Ping(probe.sequence, probe.target, member.disk_uuid)
        self._outbox.open_stream(member.address, [ping], left_s)

    def _tick_probes(self, now: float) -> None:
        """Ask helpers to ping the targets of unanswered probes, and suspect the targets of expired probes."""
        for probe in self._probes.take_silent(now):
            self._ask_helpers(probe)
        for probe in self._probes.take_expired(now):
            self._fail_probe(probe, now)

    def _fail_probe(self, probe: Probe, now: float) -> None:
        """Suspect the target of an expired probe, and worsen the local health."""
        self._failed_count += 1
        self._view.awareness.worsen(probe.missed)
        self._view.suspect(probe.target, probe.incarnation, now)

    def _maybe_ping_dead(self, now: float) -> None:
        """Ping a random dead member with the probability (dead members) / (members up); it may be reachable again.

        So all members together ping each dead member about once per period. The ping has the claim that the member is
        dead, so that it can refute it."""
        dead, up = list(self._roster.dead), self._roster.up_count
        if self._random.random() * up < len(dead):
            self._ping(self._next_sequence(), self._roster.member(self._random.choice(dead)), now)

    def _probe_suspects(self, now: float) -> None:
        """Probe newly suspected members at once, to confirm or refute the suspicion soon.

        Each member does so with a probability, so that only a few members probe a suspect."""
        suspected, self._view.newly_suspected = self._view.newly_suspected, []
        wanted = SUSPECT_PROBES * self._config.confirmations
        for node_id in suspected:
            if self._random.random() * self._roster.up_count < wanted:
                self.probe_now(node_id, now)

    def _is_up(self, node_id: NodeId) -> bool:
        """Return whether another member is known and alive or suspected."""
        member = self._roster.get(node_id)
        return node_id != self._me.node_id and member is not None and member.state.is_up

    def _next_sequence(self) -> int:
        """Return the sequence number of the next ping."""
        self._sequence = (self._sequence + 1) & SEQUENCE_MAX
        return self._sequence

    def _postpone_deadlines(self, now: float) -> None:
        """Postpone all deadlines after a pause of this process, since messages could not arrive meanwhile."""
        late_s = now - min(self.due(), now)
        self._probes.postpone(late_s)
        self._relays.postpone(late_s)
        self._view.extend_suspicions(late_s)
        self._view.awareness.worsen(1)
        if self._turn_at < now:
            self._turn_at = now

    # gossip

    def _follow_up(self, now: float) -> None:
        """Probe suspects and contested node ids, and schedule gossip, after claims were processed."""
        if self._view.newly_suspected:
            self._probe_suspects(now)
        if self._view.contested:
            contested, self._view.contested = self._view.contested, []
            for node_id in contested:
                self.probe_now(node_id, now)
        self._schedule_gossip(now)

    def _schedule_gossip(self, now: float) -> None:
        """Schedule the next gossip if claims are pending and it is not scheduled."""
        if self._broadcasts and self._roster.up_count > 1 and self._gossip_at == math.inf:
            self._gossip_at = now + self._random.random() * self._config.gossip_interval_s
