"""Where replicas and leaders shall be when brokers come, go and stay away.

Who may come in: the broker, and the operations, which tell operators of it. `plan` is pure and says what to change;
`balancer` looks on whoever leads the controller and has the controller decide it; `moves` then moves the replicas,
group by group.
"""

from raftlog.partitions.placement.balancing.balancer import Balancer
from raftlog.partitions.placement.balancing.layout import BrokerMode
from raftlog.partitions.placement.balancing.report import BalancerReport, BalancerSettings, Misplaced

assert __name__.startswith("raftlog."), "import this room as raftlog.partitions.placement.balancing"

__all__ = ["Balancer", "BalancerReport", "BalancerSettings", "BrokerMode", "Misplaced"]
