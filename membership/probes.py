"""Running probes, and pings that this member sends for others (SWIM 3.1; nacks: Lifeguard). Called by the machine.

    at the begin   the target is pinged
    silent_at      no answer: helpers are asked to ping the target, and it is pinged on a stream
    expires_at     still no answer: the target is suspected

Bad local health and pauses of this process move all of these times back.
"""

import math
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from raftlog.membership.config import SwimConfig
from raftlog.membership.member import Address, GossipMember
from raftlog.membership.messages import PingRequest
from raftlog.types import NodeId

PROBES_MAX: Final = 64
RELAYS_MAX: Final = 256
"""Maximum number of pings for others at a time; further requests get no answer, like a lost datagram."""


@dataclass(slots=True)
class _Ping:
    """Ping that was sent and is not answered yet.

    `silent_at` becomes infinite once that time was handled."""

    silent_at: float
    expires_at: float


@dataclass(slots=True)
class Probe(_Ping):
    """Probe of a member: at `silent_at` helpers are asked, at `expires_at` it has failed. `nacks ≤ asked`."""

    sequence: int
    target: NodeId
    incarnation: int
    """Incarnation of the target that is probed."""
    asked: int = 0
    nacks: int = 0

    @property
    def missed(self) -> int:
        """Points by which the failed probe raises the awareness score: silent helpers, or 1 if none was asked."""
        return self.asked - self.nacks if self.asked else 1


@dataclass(slots=True)
class Relay(_Ping):
    """Ping that this member sends for another one, which gets a nack at `silent_at`."""

    origin: Address
    origin_sequence: int


_P = TypeVar("_P", bound=_Ping)


class _Pings(Generic[_P]):
    """Pings without an answer so far, by sequence number."""

    def __init__(self, config: SwimConfig) -> None:
        self._config = config
        self._waiting: dict[int, _P] = {}
        self.due = math.inf
        """Time of the first due ping."""

    def _add(self, sequence: int, ping: _P) -> None:
        """Store a ping that was sent, and update `due`."""
        self._waiting[sequence] = ping
        self.due = min(self.due, ping.silent_at)

    def take_answered(self, sequence: int) -> _P | None:
        """Remove and return the ping with this sequence number; None if it is unknown."""
        ping = self._waiting.pop(sequence, None)
        if ping is not None:
            self._set_due()
        return ping

    def take_silent(self, now: float) -> list[_P]:
        """Return the pings that are unanswered at `silent_at`; each is returned once."""
        silent = [ping for ping in self._waiting.values() if ping.silent_at <= now]
        for ping in silent:
            ping.silent_at = math.inf
        self._set_due()
        return silent

    def take_expired(self, now: float) -> list[_P]:
        """Remove and return the pings whose `expires_at` has passed."""
        over = [sequence for sequence, ping in self._waiting.items() if ping.expires_at <= now]
        taken = [self._waiting.pop(sequence) for sequence in over]
        self._set_due()
        return taken

    def postpone(self, by: float) -> None:
        """Move all deadlines later by `by` seconds, the duration of a pause of this process."""
        for ping in self._waiting.values():
            ping.silent_at += by
            ping.expires_at += by
        self._set_due()

    def _set_due(self) -> None:
        """Set `due` to the time of the first due ping."""
        self.due = min((min(ping.silent_at, ping.expires_at) for ping in self._waiting.values()), default=math.inf)


class Probes(_Pings[Probe]):
    """Running probes, by the sequence number of their ping."""

    def begin(self, sequence: int, target: GossipMember, now: float, factor: int) -> None:
        """Begin to wait for the answer to a ping; `factor` multiplies its timeouts. Do nothing above `PROBES_MAX`."""
        if len(self._waiting) < PROBES_MAX:
            config = self._config
            silent_at, expires_at = now + config.probe_timeout_s * factor, now + config.probe_deadline_s * factor
            self._add(sequence, Probe(silent_at, expires_at, sequence, target.node_id, target.incarnation))

    def count_nack(self, sequence: int) -> None:
        """Count a nack of a helper."""
        probe = self._waiting.get(sequence)
        if probe is not None and probe.nacks < probe.asked:
            probe.nacks += 1

    def has(self, target: NodeId) -> bool:
        """Return whether a probe of this member is running."""
        return any(probe.target == target for probe in self._waiting.values())


class Relays(_Pings[Relay]):
    """Running relays, by the sequence number of the ping that this member sent."""

    def try_begin(self, sequence: int, request: PingRequest, origin: Address, now: float) -> bool:
        """Begin a relay; return False if there are `RELAYS_MAX` already."""
        if len(self._waiting) >= RELAYS_MAX:
            return False
        left_s = self._config.probe_deadline_s - self._config.probe_timeout_s
        nack_at, expires_at = now + left_s * self._config.nack_share, now + self._config.period_s
        self._add(sequence, Relay(nack_at, expires_at, origin, request.sequence))
        return True

    def take_unanswered(self, now: float) -> list[Relay]:
        """Return the relays whose origin is due a nack; drop the expired ones."""
        unanswered = self.take_silent(now)
        self.take_expired(now)
        return unanswered
