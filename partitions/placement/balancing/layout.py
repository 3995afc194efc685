"""Layout of all replicas and preferred leaders, counted by broker and topic; a plan changes it.

Partitions are numbered in the order in which they were added, and so are topics; brokers are their node ids. Counts
are kept in step by `replace` and `set_leader`, the only changes. Pure; made for one plan and then dropped.

    counts[n] = partitions with a replica on n         led_counts[n] = partitions whose first replica is n
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from raftlog.partitions.controller.machine import GroupName
from raftlog.raft import ReplicaId
from raftlog.types import NodeId


class BrokerMode(StrEnum):
    """Kinds of balancing between brokers; in every mode draining brokers are emptied and lost replicas replaced."""

    OFF = "off"
    NODE_ADD = "node_add"
    """Brokers receive replicas of topics that were created before the brokers were added."""
    CONTINUOUS = "continuous"


class BrokerPlace(NamedTuple):
    """Broker as a place for replicas, and the conditions for placing replicas and leaders on it."""

    replica: ReplicaId
    host: str
    is_draining: bool = False
    in_maintenance: bool = False
    is_available: bool = True
    """Whether it has been heard for long enough to receive replicas and leaders."""
    is_lost: bool = False
    """Whether it has been away for so long that its replicas are to be replaced."""
    is_full: bool = False

    @property
    def takes_replicas(self) -> bool:
        """Whether new replicas may be placed on the broker."""
        return self.is_available and not (self.is_draining or self.in_maintenance or self.is_lost or self.is_full)

    @property
    def takes_leaders(self) -> bool:
        """Whether the broker may become a preferred leader."""
        return self.is_available and not (self.is_draining or self.in_maintenance or self.is_lost)

    @property
    def stays(self) -> bool:
        """Whether replicas on the broker may stay."""
        return not (self.is_draining or self.is_lost)


class PlacedPartition(NamedTuple):
    """Partition with its assigned replicas, by the controller's decision."""

    group: GroupName
    replicas: Sequence[ReplicaId]
    version: int
    created_on: Sequence[ReplicaId] = ()
    """Replicas at the creation of the topic; their number is the replication factor."""
    is_busy: bool = False
    """Whether its reassignment is still running."""
    is_recently_placed: bool = False
    """Whether another source than the balancer placed it recently; it is not moved without need."""
    stuck: Sequence[NodeId] = ()
    """Assigned brokers that went away before their replicas were filled; other brokers get these replicas."""
    former: Sequence[NodeId] = ()
    """Brokers that still vote and are not assigned any more."""


class PlacementLayout:
    """Assignment of all partitions in a form for planning.

    Partitions and topics have numbers, brokers their node ids."""

    def __init__(self, places: Iterable[BrokerPlace]) -> None:
        """Create a layout of these brokers without partitions."""
        self.places: dict[int, BrokerPlace] = {place.replica.node_id: place for place in places}
        self.placed: list[PlacedPartition] = []
        self.rows: list[list[int]] = []
        """Node ids of each partition, the preferred leader first; negative ones are not brokers (any more)."""
        self.topic_of: list[int] = []
        self.topics: list[UUID] = []
        self.known: list[set[int]] = []
        """Brokers that the topic's creation named, by topic."""
        self.is_fixed = bytearray()
        """For each partition: whether this plan must not change it, or not once more."""
        self.counts: Counter[int] = Counter()
        self.topic_counts: list[Counter[int]] = []
        self.led_counts: Counter[int] = Counter()
        self.topic_led_counts: list[Counter[int]] = []
        self.on: defaultdict[int, defaultdict[int, dict[int, None]]] = defaultdict(lambda: defaultdict(dict))
        """Partitions by broker and topic."""
        self._numbers: dict[UUID, int] = {}

    def add(self, placed: PlacedPartition) -> int:
        """Add a partition; return its number in this layout."""
        number = len(self.placed)
        topic = self._topic(placed.group.topic_id)
        row = [self._node_number(replica) for replica in placed.replicas]
        self.placed.append(placed)
        self.rows.append(row)
        self.topic_of.append(topic)
        self.known[topic].update(replica.node_id for replica in placed.created_on)
        self.is_fixed.append(placed.is_busy)
        self.counts.update(row)
        self.topic_counts[topic].update(row)
        self._count_leader(number, 1)
        for node in row:
            self.on[node][topic][number] = None
        return number

    def _topic(self, topic_id: UUID) -> int:
        """Return the number of a topic; a new topic gets the next one."""
        if self.topics and self.topics[-1] is topic_id:
            return len(self.topics) - 1
        topic = self._numbers.setdefault(topic_id, len(self.topics))
        if topic == len(self.topics):
            self.topics.append(topic_id)
            self.known.append(set())
            self.topic_counts.append(Counter())
            self.topic_led_counts.append(Counter())
        return topic

    def _node_number(self, replica: ReplicaId) -> int:
        """Return the node id of a replica; a negative number if the disk is not that of the present broker."""
        place = self.places.get(replica.node_id)
        if place is not None and place.replica.disk_uuid == replica.disk_uuid:
            return replica.node_id
        return -1 - replica.node_id

    # reads

    def host(self, node: int) -> str | None:
        """Return the host of a broker; None if the node is not a broker."""
        place = self.places.get(node)
        return None if place is None else place.host

    def hosts_beside(self, number: int, node: int | None) -> set[str | None]:
        """Return the hosts of the partition's replicas, without that of the replica on `node`."""
        return {self.host(each) for each in self.rows[number] if each != node}

    def replicas(self, number: int) -> tuple[ReplicaId, ...]:
        """Return the replicas of a partition; each node is a broker, or has a former disk of the partition."""
        before = {self._node_number(replica): replica for replica in self.placed[number].replicas}
        return tuple(before[node] if node in before else self.places[node].replica for node in self.rows[number])

    # changes

    def replace(self, number: int, old: int | None, new: int) -> None:
        """Place a replica on `new`, in place of the one on `old` if that is given.

        When `old` was the preferred leader, the remaining replica that leads the fewest partitions replaces it."""
        row, topic = self.rows[number], self.topic_of[number]
        self._count_leader(number, -1)
        if old is None:
            row.append(new)
        elif row[0] == old and len(row) > 1:
            successor = min(row[1:], key=lambda node: (not self._may_lead(node), *self._led_counts(topic, node)))
            row[:] = [successor, *(node for node in row[1:] if node != successor), new]
        else:
            row[row.index(old)] = new
        if old is not None:
            self.counts[old] -= 1
            self.topic_counts[topic][old] -= 1
            del self.on[old][topic][number]
        self.counts[new] += 1
        self.topic_counts[topic][new] += 1
        self.on[new][topic][number] = None
        self._count_leader(number, 1)
        self.is_fixed[number] = True

    def set_leader(self, number: int, node: int) -> None:
        """Make one of the replicas the preferred leader; the others keep their order."""
        self._count_leader(number, -1)
        row = self.rows[number]
        row[:] = [node, *(each for each in row if each != node)]
        self._count_leader(number, 1)
        self.is_fixed[number] = True

    def _may_lead(self, node: int) -> bool:
        """Return whether the node is a broker that may get leaders."""
        place = self.places.get(node)
        return place is not None and place.takes_leaders

    def _led_counts(self, topic: int, node: int) -> tuple[int, int]:
        """Return the number of preferred leaderships of a broker in a topic, and in total."""
        return self.topic_led_counts[topic][node], self.led_counts[node]

    def _count_leader(self, number: int, change: int) -> None:
        """Add `change` (1 or -1) to the counts of the partition's preferred leader."""
        leader = self.rows[number][0]
        self.led_counts[leader] += change
        self.topic_led_counts[self.topic_of[number]][leader] += change
