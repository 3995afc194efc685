"""What a workload asks of the system before its clients begin."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from raftlog.types import TopicPartition

SMALL_SEGMENTS: Final = {"segment.bytes": "65536"}


class Plan(NamedTuple):
    """Topics that are made for a workload, and flags of the brokers."""

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
