"""The coordinator assigns by itself, in groups whose members leave it to it. Pure; called by `rebalancing`."""

from collections.abc import Callable

from raftlog.assignors import ASSIGNORS, Subscription, decode_assignment, decode_subscription, encode_assignment
from raftlog.errors import InvalidArgument
from raftlog.partitions.groups.membership import ConsumerGroup
from raftlog.types import TopicPartition

PartitionsOf = Callable[[str], int | None]


def subscription_of(metadata: bytes) -> Subscription:
    """What cannot be read subscribes to nothing: only members that lead may say it, and theirs is not ours to judge."""
    try:
        return decode_subscription(metadata)
    except InvalidArgument:
        return Subscription(())


def partitions_in(assignment: bytes) -> tuple[TopicPartition, ...]:
    """The same of what a leader gave."""
    try:
        return decode_assignment(assignment).partitions
    except InvalidArgument:
        return ()


def subscriptions(group: ConsumerGroup) -> dict[str, Subscription]:
    """By member id, for the chosen protocol."""
    return {each.member_id: subscription_of(each.metadata(group.protocol)) for each in group.members.values()}


def counts_of_topics(group: ConsumerGroup, partitions_of: PartitionsOf) -> dict[str, int]:
    """Partitions of the topics that somebody subscribes to and that exist."""
    topics = {topic for each in subscriptions(group).values() for topic in each.topics}
    counts = {topic: partitions_of(topic) for topic in topics}
    return {topic: count for topic, count in counts.items() if count is not None}


def assign_members(group: ConsumerGroup, partitions_of: PartitionsOf) -> dict[str, bytes]:
    """By member id: ConsumerProtocolAssignment, by the assignor that the chosen protocol names."""
    members = {member_id: _with_owned(group, each, member_id) for member_id, each in subscriptions(group).items()}
    assigned = ASSIGNORS[group.protocol](members, counts_of_topics(group, partitions_of))
    return {member_id: encode_assignment(partitions) for member_id, partitions in assigned.items()}


def _with_owned(group: ConsumerGroup, subscription: Subscription, member_id: str) -> Subscription:
    """A member that does not say what it owns has what it was assigned last."""
    if subscription.owned:
        return subscription
    last = partitions_in(group.members[member_id].assignment)
    return subscription._replace(owned=last, generation=group.generation - 1)


def assigned_counts(group: ConsumerGroup) -> dict[str, int]:
    """Partitions of each topic that are assigned to anybody: in a group that this coordinator loaded."""
    counts: dict[str, int] = {}
    for member in group.members.values():
        for partition in partitions_in(member.assignment):
            counts[partition.topic] = counts.get(partition.topic, 0) + 1
    return counts


def subscribes_alike(one: bytes, other: bytes) -> bool:
    """To the same topics: what else a subscription says (what is owned, generation) differs after every restart."""
    try:
        before, now = decode_subscription(one), decode_subscription(other)
    except InvalidArgument:
        return one == other
    return set(before.topics) == set(now.topics) and before.rack == now.rack
