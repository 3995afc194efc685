"""Assignment by the coordinator, for groups whose members cannot lead. Pure; called by `rebalance`."""

from collections.abc import Callable

from raftlog.assignors import ASSIGNORS, Subscription, decode_assignment, decode_subscription, encode_assignment
from raftlog.errors import InvalidArgument
from raftlog.partitions.groups.consumer_group import ConsumerGroup
from raftlog.types import TopicPartition

PartitionsOf = Callable[[str], int | None]
"""Function that returns the partition count of a topic; None if the topic does not exist."""


def subscription_of(metadata: bytes) -> Subscription:
    """Return the subscription in member metadata; an empty one if the metadata cannot be decoded.

    Only members that can lead may send other metadata, and their group leader reads it."""
    try:
        return decode_subscription(metadata)
    except InvalidArgument:
        return Subscription(())


def decode_partitions(assignment: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions in an assignment; none if it cannot be decoded."""
    try:
        return decode_assignment(assignment).partitions
    except InvalidArgument:
        return ()


def subscriptions(group: ConsumerGroup) -> dict[str, Subscription]:
    """Return the members' subscriptions under the group's protocol, by member id."""
    return {each.member_id: subscription_of(each.metadata(group.protocol)) for each in group.members.values()}


def count_partitions(group: ConsumerGroup, partitions_of: PartitionsOf) -> dict[str, int]:
    """Return the partition counts of the subscribed topics that exist."""
    topics = {topic for each in subscriptions(group).values() for topic in each.topics}
    counts = {topic: partitions_of(topic) for topic in topics}
    return {topic: count for topic, count in counts.items() if count is not None}


def assign_members(group: ConsumerGroup, partitions_of: PartitionsOf) -> dict[str, bytes]:
    """Return ConsumerProtocolAssignment bytes by member id, from the assignor of the chosen protocol."""
    members = {member_id: _add_owned(group, each, member_id) for member_id, each in subscriptions(group).items()}
    assigned = ASSIGNORS[group.protocol](members, count_partitions(group, partitions_of))
    return {member_id: encode_assignment(partitions) for member_id, partitions in assigned.items()}


def _add_owned(group: ConsumerGroup, subscription: Subscription, member_id: str) -> Subscription:
    """Return the subscription with owned partitions; if it names none, with those of the last assignment."""
    if subscription.owned:
        return subscription
    last = decode_partitions(group.members[member_id].assignment)
    return subscription._replace(owned=last, generation=group.generation - 1)


def assigned_counts(group: ConsumerGroup) -> dict[str, int]:
    """Return the number of assigned partitions of each topic, in a group that was loaded from the log."""
    counts: dict[str, int] = {}
    for member in group.members.values():
        for partition in decode_partitions(member.assignment):
            counts[partition.topic] = counts.get(partition.topic, 0) + 1
    return counts


def subscribes_alike(first: bytes, second: bytes) -> bool:
    """Return whether two subscriptions have the same topics and rack.

    The other fields (owned partitions, generation) differ after every restart."""
    try:
        before, now = decode_subscription(first), decode_subscription(second)
    except InvalidArgument:
        return first == second
    return set(before.topics) == set(now.topics) and before.rack == now.rack
