"""What a run found, as JSON and as rows of a table."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from raftlog.loadgen.between import Between
from raftlog.loadgen.plan import LoadMode, LoadPlan
from raftlog.loadgen.tally import CURVE, Latencies, Tally


class Second(NamedTuple):
    """What succeeded in one second of a run, by when it was known."""

    succeeded: int
    slowest_ms: float


@dataclass(slots=True)
class Result:
    """Of one run. `seconds` is how long it took, to the last answer; `between` what it cost the brokers, if known."""

    plan: LoadPlan
    seconds: float
    tallies: Mapping[str, Tally]
    reasons: Mapping[str, int]
    """Why operations did not succeed, with their numbers."""
    longest_gap_s: float
    timeline: list[Second]
    unsent: int = 0
    """Operations that were offered, and never began: the cluster was too slow, and the time was over."""
    between: Between | None = None
    client_cores: float = 0.0
    """CPU that the load itself took: a share near 1 means that the client was the bound."""

    @property
    def offered(self) -> int:
        return sum(tally.offered for tally in self.tallies.values()) + self.unsent

    @property
    def succeeded(self) -> int:
        return sum(tally.succeeded for tally in self.tallies.values())

    @property
    def availability_percent(self) -> float:
        """The share of what was offered that succeeded."""
        return 100.0 * self.succeeded / self.offered if self.offered else 0.0

    @property
    def operations_per_s(self) -> float:
        """What succeeded, by the time that it took."""
        return self.succeeded / self.seconds

    @property
    def messages_per_operation(self) -> float | None:
        """Logical messages between brokers for each operation that ended; None when nobody counted."""
        return None if self.between is None else self.between.messages / max(1, self.ended)

    @property
    def ended(self) -> int:
        return sum(tally.succeeded + tally.failed + tally.unknown for tally in self.tallies.values())

    def latencies(self) -> Latencies:
        """Of all kinds together."""
        together = Latencies()
        for tally in self.tallies.values():
            together.merge(tally.latencies)
        return together

    def as_json(self) -> dict[str, Any]:
        """Everything, ready for JSON; latencies in milliseconds."""
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
            "percentiles": [[percent, round(self.latencies().at_ms(percent), 3)] for percent in CURVE],
            "timeline": [list(second) for second in self.timeline],
        }
