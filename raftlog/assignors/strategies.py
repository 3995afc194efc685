"""The assignors by their names in the protocol."""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from raftlog.assignors.consumer_protocol import Subscription
from raftlog.types import TopicPartition

Assignor: TypeAlias = Callable[[Mapping[str, Subscription], Mapping[str, int]], dict[str, list[TopicPartition]]]
"""Members' subscriptions by member id, and the number of partitions of each topic that exists → every member's
partitions, in ascending order; each partition of a subscribed topic has one owner, one of its subscribers."""


def _assign(members: Mapping[str, Subscription], partitions: Mapping[str, int]) -> dict[str, list[TopicPartition]]:
    raise NotImplementedError


ASSIGNORS: Final[Mapping[str, Assignor]] = {"range": _assign, "roundrobin": _assign, "sticky": _assign}
