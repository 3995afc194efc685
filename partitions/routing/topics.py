"""Topics from the local copy of the controller's state: names, settings and partitions.

    a topic is identified by its uuid: another topic of the same name has another uuid

`refresh` follows the controller's state; nothing is decided here. Called by the broker."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final
from uuid import UUID

from raftlog.errors import LogClosed, UnknownPartition, UnknownTopic
from raftlog.partitions.controller import machine as control
from raftlog.partitions.controller.machine import ControllerState, GroupName
from raftlog.partitions.routing.partition import Partition, Shared
from raftlog.records.partitioner import Partitioner, find_hash
from raftlog.topic_config import DELETE, TopicConfig

_logger = logging.getLogger(__name__)
_NAMES: Final = frozenset(TopicConfig().as_strings())
"""Names of the topic settings in this release."""


class Topic:
    """Topic and its partitions; partitions are added, and never removed."""

    __slots__ = ("choose", "config", "is_deleted", "is_internal", "partitions", "row")

    def __init__(
        self, row: control.TopicRow, config: TopicConfig, partitions: list[Partition], partitioner: Partitioner
    ) -> None:
        """Describe a topic by its row in the controller's state, with its partitions."""
        self.row, self.config, self.partitions = row, config, partitions
        self.is_internal = row.creation.is_internal
        """Whether only brokers may write to the topic."""
        self.is_deleted = False
        self.choose = partitioner.choose
        """Function that returns the partition number for a key; for None, that of the next partition in turn."""

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def overrides(self) -> Mapping[str, str]:
        """Settings of the topic that override the broker's defaults."""
        return dict(self.row.configs)

    @property
    def known_overrides(self) -> Mapping[str, str]:
        """Settings of `overrides` that this release knows."""
        return {name: value for name, value in self.row.configs if name in _NAMES}

    def partition(self, number: int) -> Partition:
        """Return the partition. Raises `UnknownPartition` if the topic does not have it."""
        partitions = self.partitions
        if 0 <= number < len(partitions):
            return partitions[number]
        raise UnknownPartition(
            f"topic {self.name} has no partition {number}; it has partitions 0 to {len(partitions) - 1}"
        )


class Topics:
    """Topics by name and by uuid."""

    def __init__(self, shared: Shared) -> None:
        """Begin without topics."""
        self._shared = shared
        self._by_id: dict[UUID, Topic] = {}
        self._by_name: dict[str, Topic] = {}
        self._hash_key = find_hash(shared.settings.partitioner)
        self._moved = b""
        """Digest of the assignments that differ from those at creation."""

    def refresh(self, state: ControllerState) -> None:
        """Update the topics to the controller's state."""
        for topic_id, topic in list(self._by_id.items()):
            if topic_id not in state.topics:
                self._forget(topic)
        for row in state.topics:
            known = self._by_id.get(row.topic_id)
            if known is None:
                self._add(row, state)
            elif known.row.version != row.version:
                known.row, known.config = row, self._config(row)
                for partition in known.partitions:
                    partition.reconfigure(known.config)
                self._grow(known, state)
        if self._moved != state.moved.digest:
            self._moved = state.moved.digest
            for topic in self:
                for partition, assigned in zip(topic.partitions, state.replicas_of(topic.row), strict=True):
                    partition.assigned = assigned

    def _config(self, row: control.TopicRow) -> TopicConfig:
        """Return the effective configuration: the topic's own over this broker's default.

        A setting that only later releases know has no effect at this broker, which serves the topic nevertheless."""
        for name, value in row.configs:
            if name not in _NAMES:
                _logger.warning("topic %s: this release does not know the setting %s=%s", row.name, name, value)
        settings, is_internal = self._shared.settings, row.creation.is_internal
        defaults = settings.internal_topic_config() if is_internal else settings.topic_config
        config = defaults.override({name: value for name, value in row.configs if name in _NAMES})
        return replace(config, cleanup_policy=DELETE) if is_internal else config  # shortened by their coordinators

    def _add(self, row: control.TopicRow, state: ControllerState) -> None:
        """Add a topic with its partitions."""
        topic = Topic(row, self._config(row), [], Partitioner(self._hash_key, row.partition_count))
        topic.partitions = self._new_partitions(topic, state)
        self._by_id[row.topic_id] = self._by_name[row.name] = topic

    def _grow(self, topic: Topic, state: ControllerState) -> None:
        """Add new partitions to the topic; from now on keys are spread over all partitions.

        The list is replaced, so that a loop over it with pauses stays valid."""
        if topic.row.partition_count > len(topic.partitions):
            topic.partitions = [*topic.partitions, *self._new_partitions(topic, state)]
            topic.choose = Partitioner(self._hash_key, len(topic.partitions)).choose

    def _new_partitions(self, topic: Topic, state: ControllerState) -> list[Partition]:
        """Return the partitions in the row that the topic lacks."""
        row, first = topic.row, len(topic.partitions)
        return [
            Partition(
                self._shared,
                row.name,
                row.topic_id,
                number,
                GroupName(row.topic_id, number).group_id,
                assigned,
                topic.config,
            )
            for number, assigned in enumerate(state.replicas_of(row)[first:], first)
        ]

    def _forget(self, topic: Topic) -> None:
        """Remove a deleted topic, and close its partitions."""
        del self._by_id[topic.row.topic_id]
        topic.is_deleted = True
        if self._by_name.get(topic.name) is topic:
            del self._by_name[topic.name]
        for partition in topic.partitions:
            partition.close(UnknownTopic(f"topic {topic.name!r} was deleted"))

    def close(self) -> None:
        """Fail queued calls of all partitions because the broker stops; none of them happened."""
        for topic in self:
            for partition in topic.partitions:
                partition.close(LogClosed(f"{partition.name}: the broker stops"))

    # lookup

    def find(self, name: str) -> Topic:
        """Return the topic of this name. Raises `UnknownTopic` if it is unknown here."""
        try:
            return self._by_name[name]
        except KeyError:
            raise UnknownTopic(f"topic {name!r} does not exist; create it first") from None

    def get(self, name: str) -> Topic | None:
        """Return the topic with this name; None if there is none."""
        return self._by_name.get(name)

    def by_id(self, topic_id: UUID) -> Topic | None:
        """Return the topic with this id; None if there is none."""
        return self._by_id.get(topic_id)

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[Topic]:
        return iter(list(self._by_id.values()))

    def __len__(self) -> int:
        return len(self._by_id)
