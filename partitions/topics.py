"""The topics of one broker: their names, settings and open partitions. The catalogue says which there are."""

import re
from collections.abc import Iterator, Mapping, Sequence

from raftlog.config import TopicConfig
from raftlog.errors import InvalidArgument, InvalidTopic, RaftlogError, UnknownPartition, UnknownTopic
from raftlog.partitions.catalogue_state import TopicEntry
from raftlog.partitions.partition import Partition
from raftlog.partitions.partitioner import HashKey, Partitioner
from raftlog.partitions.results import PartitionDescription, TopicDescription

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
INTERNAL_PREFIX = "__"
REPLICATION_FACTOR = 1
"""A single broker keeps one copy."""


def check_topic_name(name: str) -> None:
    """Raises `InvalidTopic` for a name that cannot be a topic's."""
    if not _NAME.fullmatch(name) or name.startswith("."):
        raise InvalidTopic(
            f"topic name {name!r} cannot be used: 1 to 249 of the characters a-z A-Z 0-9 . _ - and no dot at the start"
        )
    if name.startswith(INTERNAL_PREFIX):
        raise InvalidTopic(f"topic name {name!r} cannot be used: names that begin with {INTERNAL_PREFIX} are internal")


def topic_config(base: TopicConfig, overrides: Mapping[str, str]) -> TopicConfig:
    """The settings of a topic; raises `InvalidArgument`."""
    config = base.updated(overrides)
    if config.min_insync_replicas > REPLICATION_FACTOR:
        raise InvalidArgument(
            f"min.insync.replicas={config.min_insync_replicas} can never be met: "
            f"this broker is alone and keeps {REPLICATION_FACTOR} copy"
        )
    return config


class Topic:
    """One topic. A partition that could not be opened is kept as the error that says why."""

    __slots__ = ("_partitioner", "_partitions", "config", "entry")

    def __init__(
        self, entry: TopicEntry, config: TopicConfig, partitions: Sequence[Partition | RaftlogError], hash_key: HashKey
    ) -> None:
        self.entry = entry
        self.config = config
        self._partitions = tuple(partitions)
        self._partitioner = Partitioner(hash_key, len(partitions))

    def choose(self, key: bytes | None) -> int:
        """The partition for a record with this key."""
        return self._partitioner.choose(key)

    def partition(self, number: int) -> Partition:
        """Raises `UnknownPartition`, or the reason why the partition cannot be used."""
        self.check_number(number)
        partition = self._partitions[number]
        if isinstance(partition, RaftlogError):
            raise type(partition)(*partition.args)
        return partition

    def check_number(self, number: int) -> None:
        """Raises `UnknownPartition`."""
        count = len(self._partitions)
        if not 0 <= number < count:
            raise UnknownPartition(
                f"topic {self.entry.name} has no partition {number}; it has partitions 0 to {count - 1}"
            )

    def open_partitions(self) -> Iterator[Partition]:
        """Those that could be opened."""
        for partition in self._partitions:
            if isinstance(partition, Partition):
                yield partition

    def unavailable_count(self) -> int:
        """Partitions that take no records: not opened, damaged, or stopped."""
        return sum(_problem(partition) is not None for partition in self._partitions)

    def reconfigure(self, entry: TopicEntry, config: TopicConfig) -> None:
        """Use other settings from now on."""
        self.entry, self.config = entry, config
        for partition in self.open_partitions():
            partition.reconfigure(config)

    def describe(self, node_id: int) -> TopicDescription:
        entry = self.entry
        partitions = [
            PartitionDescription(number, node_id, (node_id,), (node_id,), _problem(partition))
            for number, partition in enumerate(self._partitions or (None,) * entry.partition_count)
        ]
        return TopicDescription(
            entry.name,
            entry.topic_id,
            REPLICATION_FACTOR,
            self.config.as_strings(),
            entry.overrides,
            entry.created_ms,
            entry.name.startswith(INTERNAL_PREFIX),
            partitions,
        )


def _problem(partition: Partition | RaftlogError | None) -> str | None:
    if partition is None:
        return None
    if isinstance(partition, RaftlogError):
        return str(partition)
    trouble = partition.log.damage or partition.log.failure
    return None if trouble is None else str(trouble)


class Topics:
    """Topics by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, Topic] = {}

    def find(self, name: str) -> Topic:
        """Raises `UnknownTopic`."""
        try:
            return self._by_name[name]
        except KeyError:
            raise UnknownTopic(f"there is no topic {name!r}; create it first") from None

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[Topic]:
        return iter(list(self._by_name.values()))

    def __len__(self) -> int:
        return len(self._by_name)

    def names(self) -> list[str]:
        """Sorted."""
        return sorted(self._by_name)

    def add(self, topic: Topic) -> None:
        assert topic.entry.name not in self._by_name, f"topic {topic.entry.name} is there already"
        self._by_name[topic.entry.name] = topic

    def remove(self, name: str) -> Topic:
        return self._by_name.pop(name)


def check_replication_factor(factor: int | None) -> None:
    """Raises `InvalidArgument` for more copies than a single broker can keep."""
    if factor is not None and factor != REPLICATION_FACTOR:
        raise InvalidArgument(
            f"replication factor {factor} is not possible: this broker is alone, so it is {REPLICATION_FACTOR}"
        )
