"""Metrics of gossip: states of members in this broker's view, and the cost of the protocol."""

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import Metric

from raftlog.api.http.metrics.families import counter, counters, gauge, gauges
from raftlog.membership.agent import AgentCounters
from raftlog.membership.member import MemberState
from raftlog.partitions.broker import Broker
from raftlog.partitions.gossip.members import UNKNOWN

_STATES: Final = (*(state.name.lower() for state in MemberState), UNKNOWN)


def gossip_families(broker: Broker) -> Iterator[Metric]:
    """Yield the metric families of gossip, whose labels are fixed words; none while gossip is off."""
    counted = broker.measuring.gossip.counters()
    if counted is not None:
        yield _member_families(broker)
        yield from _traffic_families(counted)
        yield from _protocol_families(counted)


def _member_families(broker: Broker) -> Metric:
    counts = dict.fromkeys(_STATES, 0)
    for member in broker.measuring.gossip.members():
        counts[member.state] += 1
    by_state = [([state], count) for state, count in counts.items()]
    return gauges("gossip_members", "Brokers by their state in gossip.", ["state"], by_state)


def _traffic_families(agent: AgentCounters) -> Iterator[Metric]:
    for name, text, received, sent in (
        ("datagrams", "Datagrams of gossip.", agent.datagrams_in, agent.datagrams_out),
        ("bytes", "Bytes of datagrams and streams.", agent.bytes_in, agent.bytes_out),
        ("streams", "Streams of gossip.", agent.streams_in, agent.streams_out),
    ):
        yield counters(f"gossip_{name}", text, ["direction"], [(["in"], received), (["out"], sent)])
    yield counter("gossip_streams_failed", "Streams started here that failed.", agent.streams_failed)
    refused = [([reason], count) for reason, count in agent.refused.items()]
    yield counters(
        "gossip_refused",
        "Discarded input, by reason.",
        ["reason"],
        [*refused, (["streams"], agent.streams_refused)],
    )


def _protocol_families(counted: AgentCounters) -> Iterator[Metric]:
    agent = counted.swim
    for name, text, value in (
        ("probes", "Members that were probed.", agent.probes),
        ("probes_failed", "Probes without an answer in time.", agent.probes_failed),
        ("suspicions", "Suspicions that this broker started.", agent.suspicions),
        ("refutations", "Refuted claims that this broker is suspect or dead.", agent.refutations),
        ("syncs", "Exchanges of a digest.", agent.syncs),
    ):
        yield counter(f"gossip_{name}", text, value)
    yield gauge("gossip_awareness", "Local health multiplier of Lifeguard; 0: healthy.", agent.awareness)
    yield gauge("gossip_broadcasts", "Claims that wait to be sent.", agent.broadcasts_waiting)
