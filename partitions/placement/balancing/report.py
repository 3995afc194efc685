"""What the balancer says of itself: in words for operators, and as values that travel between brokers.

Made where the controller is led, asked for anywhere. Called by the balancer.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from raftlog.errors import Unavailable
from raftlog.partitions.placement.balancing.layout import BrokerMode
from raftlog.runtime.rpc.calls import row_of
from raftlog.types import NodeId

NAMES_MAX: Final = 5
"""Partitions named in one reason."""


class BalancerSettings(NamedTuple):
    """The operators' settings. `repair_after_s`: None where replicas of lost brokers stay where they are."""

    mode: BrokerMode = BrokerMode.CONTINUOUS
    moves_max: int = 16
    """Partitions on their way at the same time."""
    repair_after_s: float | None = 900.0
    balances_leaders: bool = True


class Misplaced(NamedTuple):
    """A replica that cannot stay where it is, and for which there is no place."""

    topic: str
    partition: int
    node_id: int
    reason: str


class BalancerReport(NamedTuple):
    """`status`: off, starting, ready, in_progress or stalled; `reasons` are sentences."""

    status: str
    mode: str
    unavailable_nodes: Sequence[int]
    full_nodes: Sequence[int]
    looked_s_ago: float | None
    moving: int
    """Partitions on their way."""
    planned: int
    """Partitions that are to move next, as far as it has planned."""
    reasons: Sequence[str]
    misplaced: Sequence[Misplaced]

    def packed(self) -> list[Any]:
        """For a request's answer."""
        *rest, misplaced = self
        return [*rest, [list(each) for each in misplaced]]


def report_of(value: Any) -> BalancerReport:
    """Out of an answer; raises `Unavailable` for what cannot be read."""
    try:
        report = row_of(BalancerReport, value)
        return report._replace(misplaced=[row_of(Misplaced, each) for each in report.misplaced])
    except (TypeError, ValueError):
        raise Unavailable("a report of the balancer that cannot be read; brokers may run other releases") from None


def grouped(names: Mapping[str, Sequence[str]]) -> list[str]:
    """One sentence for each reason, with the partitions that it holds for."""
    return [f"{_some(partitions)}: {reason}" for reason, partitions in names.items()]


def _some(names: Sequence[str]) -> str:
    named = ", ".join(names[:NAMES_MAX])
    return named if len(names) <= NAMES_MAX else f"{named} and {len(names) - NAMES_MAX} more partitions"


def nodes_in_words(nodes: Sequence[NodeId] | Sequence[int]) -> str:
    return f"node {nodes[0]}" if len(nodes) == 1 else f"nodes {', '.join(map(str, nodes))}"
