"""Settings of gossip, each with its formula and its trade-off.

Times in seconds. `n` is the number of members that are up, this one included."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SwimConfig:
    """Settings of gossip. By default a killed process of a small cluster is suspected in 2 s and dead in 6 s."""

    period_s: float = 1.0
    """Protocol period, in which each member probes one other.

    It probes the next member of its round and its neighbour on the ring in turn. A shorter period finds dead members
    sooner, at proportionally higher cost."""
    small_cluster: int = 16
    """Number of members up to which each one probes twice a period, since there are few probers."""
    probe_timeout_s: float = 0.3
    """Time without an answer after which helpers are asked to probe, and the member is pinged on a stream.

    Should be above the 99th percentile of round trips; a lower value asks more helpers without need."""
    probe_deadline_s: float = 0.7
    """Time without any answer after which the member is suspected. Between the timeout and the period."""
    helpers: int = 3
    """Number of members that are asked to probe for this one (SWIM's k).

    At a loss of p each way all ways fail with the probability (1-(1-p)²) · (1-(1-p)⁴)^k; each helper costs four
    datagrams whenever a direct probe fails."""
    nack_share: float = 0.8
    """Share of its remaining time after which a helper without an answer sends a nack (Lifeguard)."""
    awareness_max: int = 8
    """Highest score of local health, which multiplies probe timeouts and periods by 1 + score (Lifeguard's S).

    A higher value makes a member in trouble suspect others less, and detect failures later."""
    suspicion_base: float = 2.5
    suspicion_per_decade: float = 1.0
    """A suspicion with enough confirmations lasts `(base + per_decade · log₁₀ n) · period_s`.

    That is 3 s for 3 members, 4.5 s for 100. In that time the claim must reach the suspect, and its refutation all
    members, which takes rounds in proportion to log n. A shorter time finds dead members sooner, but also declares slow
    members dead."""
    suspicion_factor_max: float = 6.0
    """Factor by which a suspicion without confirmations lasts longer (Lifeguard's β).

    It gives a healthy member time to refute the claim of an unhealthy accuser."""
    confirmations: int = 3
    """Independent suspicions that shorten a suspicion to its minimum (Lifeguard's K); fewer if fewer others are up."""
    retransmit_factor: float = 8.0
    """Each receiver gossips a claim `⌈factor · log₁₀(n + 1)⌉` times (SWIM's λ·log n).

    That is 5 times with 3 members, 17 times with 100. With a loss rate of p, the probability that gossip misses some
    member is about `n · e^-((1 - p) · times)`: 10⁻⁵ for 100 members at 5 %. An exchange of digests then delivers the
    claim. A higher factor tolerates more loss, at proportionally higher cost."""
    gossip_interval_s: float = 0.2
    gossip_fanout: int = 3
    """Random members to which pending claims are sent at each `gossip_interval_s`.

    So claims spread to all in about `log(n) / log(fanout + 1)` intervals, without waiting for probes."""
    gossip_to_the_dead_s: float = 30.0
    """Time for which claims are also sent to members that were declared dead, so that a live one can refute that."""
    sync_interval_s: float = 30.0
    """Mean time between exchanges of a digest with a random member, for claims that gossip did not deliver.

    When both have the same state, this costs two small frames."""
    join_interval_s: float = 2.0
    """Interval at which addresses without a known member are tried, one after the other."""
    stream_timeout_s: float = 5.0
    """Timeout of an exchange of digests."""
    reap_s: float = 86_400.0
    """Time after which dead and left members are removed; until then they are shown, and dead ones are pinged."""
    late_s: float = 0.25
    """Delay of a tick from which on this process counts as paused (stopped, stalled loop, jump of the clock).

    Missing messages then prove nothing about other members. So all deadlines are extended by the delay, and the
    awareness score rises."""
    datagram_bytes_max: int = 1_200
    """Maximum size on the wire without IP and UDP headers: below the least MTU of IPv6 less the overhead of tunnels."""
    envelope_bytes: int = 64
    """Part of the datagram that the wire adds to the messages: header and authentication."""
    broadcasts_max: int = 4_096
    """Claims that wait to be sent, one for each member at most; above this the most often sent are dropped first."""
    strangers_interval_s: float = 2.0
    """Minimum time between exchanges begun with unknown processes that ping this member."""
    members_max: int = 4_096
    """Members that are stored, dead ones included; further ones are not accepted."""

    def __post_init__(self) -> None:
        assert 0 < self.probe_timeout_s < self.probe_deadline_s < self.period_s, self
        assert self.datagram_bytes_max - self.envelope_bytes >= 600, self

    @property
    def payload_bytes_max(self) -> int:
        """Maximum size in bytes of the messages in a datagram."""
        return self.datagram_bytes_max - self.envelope_bytes

    def turn_s(self, up_count: int) -> float:
        """Return the seconds from one probe to the next; `up_count`: number of members that are up."""
        return self.period_s / 2 if up_count <= self.small_cluster else self.period_s

    def suspicion_min_s(self, up_count: int) -> float:
        """Return the minimum duration of a suspicion in seconds; `up_count`: number of members that are up."""
        return (self.suspicion_base + self.suspicion_per_decade * math.log10(max(up_count, 1))) * self.period_s

    def suspicion_max_s(self, up_count: int) -> float:
        """Return the maximum duration of a suspicion in seconds; `up_count`: number of members that are up."""
        return self.suspicion_factor_max * self.suspicion_min_s(up_count)

    def retransmits_max(self, up_count: int) -> int:
        """Return how often each member sends a claim; `up_count`: number of members that are up."""
        return math.ceil(self.retransmit_factor * math.log10(up_count + 1))
