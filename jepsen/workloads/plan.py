"""Requirements of a workload on the system before its clients begin."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from raftlog.types import TopicPartition

SMALL_SEGMENTS: Final = {"segment.bytes": "65536"}


class Plan(NamedTuple):
    """Requirements of a workload: the topics to create, and flags of the brokers."""

    partitions: dict[str, int]
    """Number of partitions by topic."""
    configs: Mapping[str, dict[str, str]] = MappingProxyType({})
    is_keyed: bool = False
    """Whether every record has a key, so that replaced records may be missing."""
    is_transactional: bool = False
    """Whether records are written in transactions, so that offsets have gaps."""
    serve_flags: tuple[str, ...] = ()
    topics_per_client: int = 0
    """Number of further topics that each client creates and deletes itself."""

    def places(self) -> tuple[TopicPartition, ...]:
        """Return all partitions of all topics."""
        return tuple(
            TopicPartition(topic, number) for topic, count in self.partitions.items() for number in range(count)
        )

    def recreated_names_of(self, client: int) -> tuple[str, ...]:
        """Return names of the topics that a client creates and deletes."""
        return tuple(f"coming-{client}-{number}" for number in range(self.topics_per_client))

    def all_recreated_names(self, clients: int) -> tuple[str, ...]:
        """Return the names of topics that all clients create and delete."""
        return tuple(name for client in range(1, clients + 1) for name in self.recreated_names_of(client))
