"""Assignor `roundrobin`: all partitions in order, one to each subscriber in turn.

With equal subscriptions members are at most one apart; with others not (Kafka's RoundRobinAssignor). Pure."""

from collections.abc import Mapping

from raftlog.assignors.consumer_protocol import Subscription
from raftlog.assignors.subscribers import subscribers_by_topic
from raftlog.types import TopicPartition


def assign_round_robin(
    members: Mapping[str, Subscription], partitions: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """See `strategies.Assignor`."""
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
