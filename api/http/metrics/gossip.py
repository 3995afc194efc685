"""Metrics of gossip: how members are seen from here, and what it costs."""

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from raftlog.membership.agent import AgentCounters
from raftlog.membership.member import MemberState
from raftlog.partitions.broker import Broker
from raftlog.partitions.gossip.members import UNKNOWN

_STATES: Final = (*(state.name.lower() for state in MemberState), UNKNOWN)


def gossip_families(broker: Broker) -> Iterator[Metric]:
    """Labels are fixed words. Nothing while gossip is off."""
    counters = broker.measuring.gossip.counters()
    if counters is not None:
        yield _members(broker)
        yield from _traffic(counters)
        yield from _protocol(counters)


def _members(broker: Broker) -> Metric:
    counts = dict.fromkeys(_STATES, 0)
    for member in broker.measuring.gossip.members():
        counts[member.state] += 1
    family = GaugeMetricFamily("raftlog_gossip_members", "Brokers by the state that gossip has.", labels=["state"])
    for state, count in counts.items():
        family.add_metric([state], count)
    return family


def _traffic(counters: AgentCounters) -> Iterator[Metric]:
    datagrams = CounterMetricFamily("raftlog_gossip_datagrams", "Datagrams of gossip.", labels=["direction"])
    sizes = CounterMetricFamily("raftlog_gossip_bytes", "Bytes of datagrams and streams.", labels=["direction"])
    streams = CounterMetricFamily("raftlog_gossip_streams", "Streams of gossip.", labels=["direction"])
    for direction, datagram_count, size, stream_count in (
        ("in", counters.datagrams_in, counters.bytes_in, counters.streams_in),
        ("out", counters.datagrams_out, counters.bytes_out, counters.streams_out),
    ):
        datagrams.add_metric([direction], datagram_count)
        sizes.add_metric([direction], size)
        streams.add_metric([direction], stream_count)
    yield from (datagrams, sizes, streams)
    yield CounterMetricFamily(
        "raftlog_gossip_streams_failed", "Streams begun here that came to nothing.", value=counters.streams_failed
    )
    refused = CounterMetricFamily(
        "raftlog_gossip_refused", "What arrived and was thrown away, by the reason.", labels=["reason"]
    )
    for reason, count in counters.refused.items():
        refused.add_metric([reason], count)
    refused.add_metric(["streams"], counters.streams_refused)
    yield refused


def _protocol(counters: AgentCounters) -> Iterator[Metric]:
    told = counters.swim
    for name, text, value in (
        ("probes", "Members that were probed.", told.probes),
        ("probes_failed", "Probes that nobody answered in time.", told.probes_failed),
        ("suspicions", "Suspicions that began here.", told.suspicions),
        ("refutations", "Claims that this broker is gone, which it refuted.", told.refutations),
        ("syncs", "Exchanges of a digest.", told.syncs),
    ):
        yield CounterMetricFamily(f"raftlog_gossip_{name}", text, value=value)
    yield GaugeMetricFamily(
        "raftlog_gossip_awareness", "How ill this broker takes itself for; 0: well.", told.awareness
    )
    yield GaugeMetricFamily("raftlog_gossip_broadcasts", "Claims that wait to be sent on.", told.broadcasts_waiting)
