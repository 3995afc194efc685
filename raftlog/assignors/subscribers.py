"""Subscribers of each topic, as every assignor needs them."""

from collections.abc import Mapping

from raftlog.assignors.consumer_protocol import Subscription


def subscribers_by_topic(members: Mapping[str, Subscription], partitions: Mapping[str, int]) -> dict[str, list[str]]:
    """Return the subscribers of each existing topic; topics and members are in ascending order."""
    found: dict[str, list[str]] = {}
    for member in sorted(members):
        for topic in set(members[member].topics):
            if topic in partitions:
                found.setdefault(topic, []).append(member)
    return dict(sorted(found.items()))
