"""Result of a run, as JSON and as rows of a table."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from raftlog.loadgen.broker_traffic import BrokerTraffic
from raftlog.loadgen.plan import LoadMode, LoadPlan
from raftlog.loadgen.tally import CURVE, Latencies, Tally


class Second(NamedTuple):
    """Successful operations of one second of a run, by the time of their answers."""

    succeeded: int
    slowest_ms: float


@dataclass(slots=True)
class Result:
    """Result of one run.

    `seconds`: its duration up to the last answer. `between`: the traffic between brokers; None if it is unknown."""

    plan: LoadPlan
    seconds: float
    tallies: Mapping[str, Tally]
    reasons: Mapping[str, int]
    """Number of unsuccessful operations, by reason."""
    longest_gap_s: float
    timeline: list[Second]
    unsent: int = 0
    """Number of operations that never began, because the cluster was too slow."""
    between: BrokerTraffic | None = None
    client_cores: float = 0.0
    """CPU cores that the load generator itself used; near 1 it was the bottleneck."""

    @property
    def offered(self) -> int:
        """Number of operations that were to be started, including those that never began."""
        return sum(tally.offered for tally in self.tallies.values()) + self.unsent

    @property
    def succeeded(self) -> int:
        return sum(tally.succeeded for tally in self.tallies.values())

    @property
    def availability_percent(self) -> float:
        """Percentage of the operations to be started that succeeded."""
        return 100.0 * self.succeeded / self.offered if self.offered else 0.0

    @property
    def operations_per_s(self) -> float:
        """Successful operations divided by the duration."""
        return self.succeeded / self.seconds

    @property
    def messages_per_operation(self) -> float | None:
        """Logical messages between brokers for each operation that ended; None if they were not counted."""
        return None if self.between is None else self.between.messages / max(1, self.ended)

    @property
    def ended(self) -> int:
        """Number of operations that ended, with or without an answer."""
        return sum(tally.succeeded + tally.failed + tally.unknown for tally in self.tallies.values())

    def latencies(self) -> Latencies:
        """Return the latencies of all kinds together."""
        together = Latencies()
        for tally in self.tallies.values():
            together.merge(tally.latencies)
        return together

    def as_json(self) -> dict[str, Any]:
        """Return the whole result for JSON; latencies in milliseconds."""
        plan = self.plan
        return {
            "mode": plan.mode.value,
            "targeting": plan.targeting.value,
            "mix": str(plan.mix),
            "rate": plan.rate if plan.mode is LoadMode.OPEN else None,
            "clients": plan.clients,
            "in_flight": plan.in_flight,
            "value_bytes": plan.value_bytes,
            "records": plan.records,
            "seconds": round(self.seconds, 3),
            "offered": self.offered,
            "succeeded": self.succeeded,
            "failed": sum(tally.failed for tally in self.tallies.values()),
            "unsent": self.unsent,
            "unknown": sum(tally.unknown for tally in self.tallies.values()),
            "availability_percent": round(self.availability_percent, 4),
            "longest_gap_ms": round(self.longest_gap_s * 1000, 3),
            "operations_per_s": round(self.operations_per_s, 1),
            "client_cores": round(self.client_cores, 3),
            "latency_ms": self.latencies().as_json(),
            "operations": {kind: tally.as_json() for kind, tally in self.tallies.items()},
            "reasons": dict(self.reasons),
            "between_brokers": None if self.between is None else self.between.as_json(self.ended),
            "percentiles": [[percent, round(self.latencies().percentile_ms(percent), 3)] for percent in CURVE],
            "timeline": [list(second) for second in self.timeline],
        }
