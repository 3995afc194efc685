"""Metrics of gossip: states of members in this broker's view, and the cost of the protocol."""

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import Metric

from raftlog.api.http.metrics.families import by_labels, single
from raftlog.membership.agent import AgentCounters
from raftlog.membership.member import MemberState
from raftlog.partitions.broker import Broker
from raftlog.partitions.gossip.members import UNKNOWN

_STATES: Final = (*(state.name.lower() for state in MemberState), UNKNOWN)


def gossip_families(broker: Broker) -> Iterator[Metric]:
    """Yield the metric families of gossip; none while gossip is off. No label has a node or topic."""
    counted = broker.measuring.gossip.counters()
    if counted is not None:
        yield _member_families(broker)
        yield from _traffic_families(counted)
        yield from _protocol_families(counted)


def _member_families(broker: Broker) -> Metric:
    """Return the metric of members by state."""
    counts = dict.fromkeys(_STATES, 0)
    for member in broker.measuring.gossip.members():
        counts[member.state] += 1
    return by_labels("gossip_members", [([state], count) for state, count in counts.items()])


def _traffic_families(agent: AgentCounters) -> Iterator[Metric]:
    """Yield the metrics of datagrams and streams."""
    for name, received, sent in (
        ("datagrams", agent.datagrams_in, agent.datagrams_out),
        ("bytes", agent.bytes_in, agent.bytes_out),
        ("streams", agent.streams_in, agent.streams_out),
    ):
        yield by_labels(f"gossip_{name}_total", [(["in"], received), (["out"], sent)])
    yield single("gossip_streams_failed_total", agent.streams_failed)
    refused = [([reason], count) for reason, count in agent.refused.items()]
    yield by_labels("gossip_refused_total", [*refused, (["streams"], agent.streams_refused)])


def _protocol_families(counted: AgentCounters) -> Iterator[Metric]:
    """Yield the metrics of the SWIM protocol."""
    agent = counted.swim
    for field in ("probes", "probes_failed", "suspicions", "refutations", "syncs"):
        yield single(f"gossip_{field}_total", getattr(agent, field))
    yield single("gossip_awareness", agent.awareness)
    yield single("gossip_broadcasts_waiting", agent.broadcasts_waiting)
