"""Assignors by their names in the protocol: `range` and `roundrobin` here, `sticky` beside it. Pure."""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from raftlog.assignors.consumer_protocol import Subscription
from raftlog.assignors.sticky import assign_sticky
from raftlog.assignors.subscribers import subscribers_by_topic
from raftlog.types import TopicPartition

Assignor: TypeAlias = Callable[[Mapping[str, Subscription], Mapping[str, int]], dict[str, list[TopicPartition]]]
"""Function from subscriptions by member id and partition counts by existing topic to each member's partitions.

Partitions are in ascending order; each partition of a subscribed topic has one owner among the topic's subscribers.
Members are ordered by their ids: ids of static members begin with their instance id, so static members get the same
partitions after a restart."""


def assign_ranges(
    members: Mapping[str, Subscription], partitions: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Split each topic into a range of partitions per subscriber; if uneven, the first ranges are longer by one.

    Topics with the same subscribers and number of partitions are split in the same way. So one member has both sides of
    a join over co-partitioned topics (Kafka's RangeAssignor)."""
    assigned: dict[str, list[TopicPartition]] = {member: [] for member in members}
    for topic, subscribers in subscribers_by_topic(members, partitions).items():
        count, more = divmod(partitions[topic], len(subscribers))
        begin = 0
        for place, member in enumerate(subscribers):
            end = begin + count + (place < more)
            assigned[member] += [TopicPartition(topic, number) for number in range(begin, end)]
            begin = end
    return assigned


def assign_round_robin(
    members: Mapping[str, Subscription], partitions: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Assign all partitions in order, each to the next subscriber in turn (Kafka's RoundRobinAssignor).

    With equal subscriptions the loads of members differ by at most one; with different ones they may differ more."""
    assigned: dict[str, list[TopicPartition]] = {member: [] for member in sorted(members)}
    ring = list(assigned)
    at = 0
    for topic, subscribers in subscribers_by_topic(members, partitions).items():
        wanted = set(subscribers)
        for number in range(partitions[topic]):
            while ring[at % len(ring)] not in wanted:
                at += 1
            assigned[ring[at % len(ring)]].append(TopicPartition(topic, number))
            at += 1
    return assigned


ASSIGNORS: Final[Mapping[str, Assignor]] = {
    "range": assign_ranges,
    "roundrobin": assign_round_robin,
    "sticky": assign_sticky,
}
