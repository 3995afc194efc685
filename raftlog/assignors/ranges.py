"""Assignor `range`: each topic split into ranges of partitions; the first members get one more when uneven.

Topics with the same subscribers and the same number of partitions are split alike, so a join over co-partitioned
topics finds both sides at one member (Kafka's RangeAssignor). Pure."""

from collections.abc import Mapping

from raftlog.assignors.consumer_protocol import Subscription
from raftlog.assignors.subscribers import subscribers_by_topic
from raftlog.types import TopicPartition


def assign_ranges(
    members: Mapping[str, Subscription], partitions: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """See `strategies.Assignor`."""
    assigned: dict[str, list[TopicPartition]] = {member: [] for member in members}
    for topic, subscribers in subscribers_by_topic(members, partitions).items():
        count, more = divmod(partitions[topic], len(subscribers))
        begin = 0
        for place, member in enumerate(subscribers):
            end = begin + count + (place < more)
            assigned[member] += [TopicPartition(topic, number) for number in range(begin, end)]
            begin = end
    return assigned
