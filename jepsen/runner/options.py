"""What a test is run with."""

from typing import Final, NamedTuple

from jepsen.nemeses.schedule import FaultKind
from raftlog.types import TopicPartition

TOPICS: Final[dict[str, int]] = {"narrow": 1, "wide": 3, "rolling": 2}
"""Partitions by topic. `rolling` has small segments, so it rolls all the time."""
TOPIC_CONFIGS: Final[dict[str, dict[str, str]]] = {"rolling": {"segment.bytes": "65536"}}
PARTITIONS: Final = tuple(TopicPartition(topic, number) for topic, count in TOPICS.items() for number in range(count))
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
    def command(self) -> str:
        """What runs the same test again."""
        faults = ",".join(self.faults) or "none"
        return (
            f"python -m jepsen test --workload {self.workload} --faults {faults} --time {self.seconds:g} "
            f"--nodes {self.nodes} --clients {self.clients} --rate {self.rate:g} --seed {self.seed}"
        )
