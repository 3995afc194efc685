"""Placement decisions for replicas and leaders when brokers are added, removed or lost.

Entry points: the broker, and the operations, which report to operators. `plan` is pure and decides the changes;
`balancer` runs at the controller's leader and submits them to the controller; `moves` then moves the replicas, group
by group."""

from raftlog.partitions.placement.balancing.balancer import Balancer
from raftlog.partitions.placement.balancing.layout import BrokerMode
from raftlog.partitions.placement.balancing.report import BalancerReport, BalancerSettings, MisplacedReplica

assert __name__.startswith("raftlog."), "import this room as raftlog.partitions.placement.balancing"

__all__ = ["Balancer", "BalancerReport", "BalancerSettings", "BrokerMode", "MisplacedReplica"]
