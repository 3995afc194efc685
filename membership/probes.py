"""Probes under way, and pings that this member makes for others (SWIM 3.1; nacks: Lifeguard). Called by the machine.

    0          the target is pinged
    silent_at  no answer: helpers are asked to ping it, and it is pinged on a stream
    failed_at  no answer by any way: it is suspected

All of it later by as much as local health asks, and by as long as this process was stopped.
"""

import math
from dataclasses import dataclass
from typing import Final

from raftlog.membership.config import SwimConfig
from raftlog.membership.member import Address, GossipMember
from raftlog.membership.messages import PingRequest
from raftlog.types import NodeId

PROBES_MAX: Final = 64
RELAYS_MAX: Final = 256
"""Pings for others at a time; further requests get no answer, as if the datagram had been lost."""


@dataclass(slots=True)
class Probe:
    """`nacks ≤ asked`. `silent_at` is infinite once helpers were asked."""

    sequence: int
    target: NodeId
    incarnation: int
    """Incarnation of the target that is probed."""
    silent_at: float
    failed_at: float
    asked: int = 0
    nacks: int = 0

    @property
    def missed(self) -> int:
        """Signs that it is this process that does not do well: helpers without an answer, or a failure without any."""
        return self.asked - self.nacks if self.asked else 1


class Probes:
    """By the sequence number of their ping."""

    def __init__(self, config: SwimConfig) -> None:
        self._config = config
        self._probes: dict[int, Probe] = {}
        self.due = math.inf
        """Time of the first due probe."""

    def begin(self, sequence: int, target: GossipMember, now: float, factor: int) -> None:
        if len(self._probes) < PROBES_MAX:
            config = self._config
            silent_at, failed_at = now + config.probe_timeout_s * factor, now + config.probe_deadline_s * factor
            self._probes[sequence] = Probe(sequence, target.node_id, target.incarnation, silent_at, failed_at)
            self.due = min(self.due, silent_at)

    def answered(self, sequence: int) -> Probe | None:
        """Remove and return the probe that this answers."""
        probe = self._probes.pop(sequence, None)
        if probe is not None:
            self._set_due()
        return probe

    def nacked(self, sequence: int) -> None:
        probe = self._probes.get(sequence)
        if probe is not None and probe.nacks < probe.asked:
            probe.nacks += 1

    def has(self, target: NodeId) -> bool:
        return any(probe.target == target for probe in self._probes.values())

    def _set_due(self) -> None:
        self.due = min((min(probe.silent_at, probe.failed_at) for probe in self._probes.values()), default=math.inf)

    def take_silent(self, now: float) -> list[Probe]:
        """Return each probe for which helpers have to be asked now, once."""
        silent = [probe for probe in self._probes.values() if probe.silent_at <= now]
        for probe in silent:
            probe.silent_at = math.inf
        self._set_due()
        return silent

    def take_failed(self, now: float) -> list[Probe]:
        failed = [probe for probe in self._probes.values() if probe.failed_at <= now]
        for probe in failed:
            del self._probes[probe.sequence]
        self._set_due()
        return failed

    def shift(self, by: float) -> None:
        for probe in self._probes.values():
            probe.silent_at += by
            probe.failed_at += by
        self._set_due()


@dataclass(slots=True)
class Relay:
    """Ping on behalf of another member. `nack_at` is infinite once the nack was sent."""

    origin: Address
    origin_sequence: int
    nack_at: float
    over_at: float


class Relays:
    """By the sequence number of our own ping."""

    def __init__(self, config: SwimConfig) -> None:
        self._config = config
        self._relays: dict[int, Relay] = {}
        self.due = math.inf

    def maybe_begin(self, sequence: int, request: PingRequest, origin: Address, now: float) -> bool:
        """Begin a relay; return False when there is no room for one more."""
        if len(self._relays) >= RELAYS_MAX:
            return False
        left_s = self._config.probe_deadline_s - self._config.probe_timeout_s
        nack_at, over_at = now + left_s * self._config.nack_share, now + self._config.period_s
        self._relays[sequence] = Relay(origin, request.sequence, nack_at, over_at)
        self.due = min(self.due, nack_at)
        return True

    def answered(self, sequence: int) -> Relay | None:
        relay = self._relays.pop(sequence, None)
        if relay is not None:
            self._set_due()
        return relay

    def _set_due(self) -> None:
        self.due = min((min(relay.nack_at, relay.over_at) for relay in self._relays.values()), default=math.inf)

    def take_unanswered(self, now: float) -> list[Relay]:
        """Return the relays whose origin gets a nack now; expired ones are dropped."""
        unanswered = [relay for relay in self._relays.values() if relay.nack_at <= now]
        for relay in unanswered:
            relay.nack_at = math.inf
        self._relays = {sequence: relay for sequence, relay in self._relays.items() if relay.over_at > now}
        self._set_due()
        return unanswered

    def shift(self, by: float) -> None:
        for relay in self._relays.values():
            relay.nack_at += by
            relay.over_at += by
        self._set_due()
