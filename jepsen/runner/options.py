"""What a test is run with."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from jepsen.nemeses.schedule import FaultKind
from raftlog.types import TopicPartition


class Plan(NamedTuple):
    """Topics of a workload, and which part its clients play."""

    partitions: dict[str, int]
    """By topic."""
    configs: Mapping[str, dict[str, str]] = MappingProxyType({})
    is_keyed: bool = False
    """Every record has a key, and what is replaced may be gone."""
    serve_flags: tuple[str, ...] = ()

    def places(self) -> tuple[TopicPartition, ...]:
        return tuple(
            TopicPartition(topic, number) for topic, count in self.partitions.items() for number in range(count)
        )


SMALL_SEGMENTS: Final = {"segment.bytes": "65536"}
TOPICS: Final = {"narrow": 1, "wide": 3, "rolling": 2}
"""`rolling` has small segments, so it rolls all the time."""
COMPACTED: Final = {
    "segment.bytes": "16384",
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "2000",
}
"""Segments hold less than a second's records, so that marks and tombstones come and go within a short test."""
WORKLOADS: Final[dict[str, Plan]] = {
    "log": Plan(TOPICS, {"rolling": SMALL_SEGMENTS}),
    "idempotent": Plan(TOPICS, {"rolling": SMALL_SEGMENTS}),
    "groups": Plan({"narrow": 1, "wide": 6}),
    "compaction": Plan(
        {"narrow": 1, "wide": 3},
        {"narrow": COMPACTED, "wide": COMPACTED},
        is_keyed=True,
        serve_flags=("--retention-interval-s", "0.5"),
    ),
}
REPLICATION_MAX: Final = 3


class RunOptions(NamedTuple):
    """`rate` is the number of operations a second that all clients together offer."""

    workload: str
    faults: tuple[FaultKind, ...]
    seconds: float
    nodes: int
    clients: int
    rate: float
    seed: int
    recovery_s: float = 60.0
    """How long the log may take to serve everything again, once all is healed, and again to hand everything out."""

    @property
    def plan(self) -> Plan:
        return WORKLOADS[self.workload]

    @property
    def command(self) -> str:
        """What runs the same test again."""
        faults = ",".join(self.faults) or "none"
        return (
            f"python -m jepsen test --workload {self.workload} --faults {faults} --time {self.seconds:g} "
            f"--nodes {self.nodes} --clients {self.clients} --rate {self.rate:g} --seed {self.seed}"
        )
