"""Report of the balancer: in words for operators, and as values for the RPC.

Made at the controller's leader, available at any broker. Called by the balancer."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from raftlog.errors import Unavailable
from raftlog.partitions.placement.balancing.layout import BrokerMode
from raftlog.runtime.rpc.calls import row_of
from raftlog.types import NodeId

NAMES_MAX: Final = 5
"""Limit of partitions named in one reason."""


class BalancerSettings(NamedTuple):
    """Settings of the balancer. `repair_after_s` None leaves the replicas of lost brokers where they are."""

    mode: BrokerMode = BrokerMode.CONTINUOUS
    moves_max: int = 16
    """Limit of partitions that move at the same time."""
    repair_after_s: float | None = 900.0
    balances_leaders: bool = True


class MisplacedReplica(NamedTuple):
    """Replica that has to move, and for which no broker is suitable."""

    topic: str
    partition: int
    node_id: int
    reason: str


class BalancerReport(NamedTuple):
    """Report of the balancer. `status`: off, starting, ready, in_progress or stalled; `reasons` are sentences."""

    status: str
    mode: str
    unavailable_nodes: Sequence[int]
    full_nodes: Sequence[int]
    looked_s_ago: float | None
    """Seconds since the balancer ran last; None before its first run."""
    moving: int
    """Number of moving partitions."""
    planned: int
    """Number of partitions that are planned to move next."""
    reasons: Sequence[str]
    misplaced: Sequence[MisplacedReplica]

    def pack(self) -> list[Any]:
        """Return the values for the answer to a request."""
        *rest, misplaced = self
        return [*rest, [list(each) for each in misplaced]]


def decode_report(value: Any) -> BalancerReport:
    """Return the report in an answer. Raises `Unavailable` if it is malformed."""
    try:
        report = row_of(BalancerReport, value)
        return report._replace(misplaced=[row_of(MisplacedReplica, each) for each in report.misplaced])
    except (TypeError, ValueError):
        raise Unavailable("the balancer's report cannot be read; run the same release on all brokers") from None


def grouped(names: Mapping[str, Sequence[str]]) -> list[str]:
    """Return one sentence for each reason, with its partitions."""
    return [f"{_shorten_names(partitions)}: {reason}" for reason, partitions in names.items()]


def _shorten_names(names: Sequence[str]) -> str:
    """Return the names in words; after `NAMES_MAX` only the number of further ones."""
    named = ", ".join(names[:NAMES_MAX])
    return named if len(names) <= NAMES_MAX else f"{named} and {len(names) - NAMES_MAX} more partitions"


def nodes_in_words(nodes: Sequence[NodeId] | Sequence[int]) -> str:
    """Return nodes for a sentence: `node 1`, or `nodes 1, 2`."""
    return f"node {nodes[0]}" if len(nodes) == 1 else f"nodes {', '.join(map(str, nodes))}"
