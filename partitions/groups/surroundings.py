"""What coordinators of groups are given of the broker around them."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Self
from uuid import UUID

from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.counters import Counters
from raftlog.partitions.groups.bounds import GroupSettings
from raftlog.partitions.groups.places import TopicPlaces
from raftlog.partitions.node.surroundings import Surroundings
from raftlog.partitions.routing.finding import Finder
from raftlog.partitions.routing.topics import Topics
from raftlog.partitions.settings import BrokerSettings


@dataclass(frozen=True, slots=True)
class GroupSurroundings:
    """`partitions_of` a topic: how many, None when there is none of that name."""

    settings: GroupSettings
    random: Random
    wall_ms: Callable[[], int]
    counters: Counters
    partitions_of: Callable[[str], int | None]
    places: TopicPlaces
    is_deleted: Callable[[UUID], bool]
    """Whether the topic of this uuid was deleted, as far as known here."""
    offsets_retention_ms: int
    feature_level: Callable[[], int]
    """Of the cluster, as far as known here."""

    @classmethod
    def of(
        cls,
        settings: BrokerSettings,
        metadata: ControllerHost,
        topics: Topics,
        finder: Finder,
        counters: Counters,
        surroundings: Surroundings,
    ) -> Self:
        """A broker's."""
        return cls(
            settings.group_settings(),
            surroundings.random,
            surroundings.wall_ms,
            counters,
            lambda name: len(topics.find(name).partitions) if name in topics else None,
            TopicPlaces(finder, topics),
            lambda topic_id: topic_id in metadata.state.deleted,
            settings.offsets_retention_ms,
            lambda: metadata.state.feature_level,
        )
