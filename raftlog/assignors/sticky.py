"""Assignor `sticky`: an even assignment with as few moves as possible (KIP-54, KIP-341). Pure.

    1. members keep partitions that they own and still subscribe to; of two claims the newer one holds (KIP-792)
    2. with equal subscriptions, members above their share lose the partitions beyond it
    3. partitions without an owner go to the least loaded subscriber, topics with few subscribers first
    4. with different subscriptions partitions move as long as one of them makes two members more even

With equal subscriptions the loads of members differ by at most one, no assignment that is as even moves fewer
partitions, and the time is O(n log n)."""

from collections import defaultdict
from collections.abc import Mapping
from heapq import heapify, heapreplace

from raftlog.assignors.consumer_protocol import Subscription
from raftlog.assignors.subscribers import subscribers_by_topic
from raftlog.types import TopicPartition

_Owned = dict[str, dict[str, list[int]]]
"""Partitions, as their numbers, by member and topic."""


def assign_sticky(
    members: Mapping[str, Subscription], partitions: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Return an even assignment with as few moves as possible; see the module."""
    subscribers = subscribers_by_topic(members, partitions)
    owners = _find_owners(members, partitions)
    if all(len(some) == len(members) for some in subscribers.values()):
        _remove_excess(owners, members, sum(partitions[topic] for topic in subscribers))
    owned: _Owned = {member: defaultdict(list) for member in sorted(members)}
    for (topic, number), member in owners.items():
        owned[member][topic].append(number)
    loads = {member: sum(map(len, topics.values())) for member, topics in owned.items()}
    for topic in sorted(subscribers, key=lambda topic: len(subscribers[topic])):
        free = [number for number in range(partitions[topic]) if TopicPartition(topic, number) not in owners]
        _assign_free(owned, loads, topic, free, subscribers[topic])
    _even_out(owned, loads, subscribers)
    return {member: _list_partitions(owned[member]) for member in members}


def _find_owners(members: Mapping[str, Subscription], partitions: Mapping[str, int]) -> dict[TopicPartition, str]:
    """Return the present owner of each existing partition whose owner is still subscribed, in order of partitions."""
    claims: dict[TopicPartition, tuple[int, str]] = {}
    for member in sorted(members):
        subscription = members[member]
        wanted = {topic: partitions[topic] for topic in subscription.topics if topic in partitions}
        for partition in subscription.owned:
            if 0 <= partition.partition < wanted.get(partition.topic, 0):
                known = claims.get(partition)
                if known is None or known[0] < subscription.generation:
                    claims[partition] = subscription.generation, member
    return {partition: claims[partition][1] for partition in sorted(claims)}


def _remove_excess(owners: dict[TopicPartition, str], members: Mapping[str, Subscription], total: int) -> None:
    """Remove from each member the partitions beyond its share; if shares are uneven, some members keep one more."""
    share, more = divmod(total, len(members) or 1)
    owned: dict[str, list[TopicPartition]] = defaultdict(list)
    for partition, member in owners.items():
        owned[member].append(partition)
    for some in owned.values():
        keeps = share
        if len(some) > share and more > 0:
            keeps, more = share + 1, more - 1
        for partition in some[keeps:]:
            del owners[partition]


def _assign_free(owned: _Owned, loads: dict[str, int], topic: str, free: list[int], subscribers: list[str]) -> None:
    """Assign each free partition to the least loaded subscriber."""
    heap = [(loads[member], member) for member in subscribers]
    heapify(heap)
    for number in free:
        load, member = heap[0]
        owned[member][topic].append(number)
        loads[member] = load + 1
        heapreplace(heap, (load + 1, member))


def _even_out(owned: _Owned, loads: dict[str, int], subscribers: Mapping[str, list[str]]) -> None:
    """Move partitions between subscribers of a topic until no further move makes the loads of two members more even.

    Terminates: each move reduces the sum of the squares of the loads."""
    has_moved = True
    while has_moved:
        has_moved = False
        for topic, some in subscribers.items():
            while _move(owned, loads, topic, some):
                has_moved = True


def _move(owned: _Owned, loads: dict[str, int], topic: str, subscribers: list[str]) -> bool:
    """Move partitions from the most loaded owner of the topic to its least loaded subscriber until they are even.

    Return whether any partition moved."""
    holders = [member for member in subscribers if owned[member][topic]]
    if not holders:
        return False
    source, target = max(holders, key=loads.__getitem__), min(subscribers, key=loads.__getitem__)
    count = min((loads[source] - loads[target]) // 2, len(owned[source][topic]))
    if count < 1:
        return False
    numbers = owned[source][topic]
    owned[target][topic] += numbers[-count:]
    del numbers[-count:]
    loads[source] -= count
    loads[target] += count
    return True


def _list_partitions(topics: Mapping[str, list[int]]) -> list[TopicPartition]:
    """Return the partitions of all topics, in ascending order."""
    return sorted(TopicPartition(topic, number) for topic, numbers in topics.items() for number in numbers)
