"""Assignors by their names in the protocol."""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from raftlog.assignors.consumer_protocol import Subscription
from raftlog.assignors.ranges import assign_ranges
from raftlog.assignors.round_robin import assign_round_robin
from raftlog.assignors.sticky import assign_sticky
from raftlog.types import TopicPartition

Assignor: TypeAlias = Callable[[Mapping[str, Subscription], Mapping[str, int]], dict[str, list[TopicPartition]]]
"""Function from subscriptions by member id and partition counts by existing topic to each member's partitions.

Partitions are in ascending order; each partition of a subscribed topic has one owner, one of its
subscribers. An order of members is that of their ids: ids of static members begin with their instance id, so
these get the same partitions after a restart."""

ASSIGNORS: Final[Mapping[str, Assignor]] = {
    "range": assign_ranges,
    "roundrobin": assign_round_robin,
    "sticky": assign_sticky,
}
