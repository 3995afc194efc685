"""Where all replicas are and who is preferred to lead, counted by broker and topic; the picture that a plan changes.

Partitions are numbered in the order in which they were added, and so are topics; brokers are their node ids. Counts are
kept in step by `replace` and `lead_by`, which are the only changes. Pure; made for one plan and thrown away.

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
    """How much is evened; draining brokers are emptied and lost replicas replaced in each of them."""

    OFF = "off"
    NODE_ADD = "node_add"
    """Brokers are filled with replicas of topics whose creation did not know them."""
    CONTINUOUS = "continuous"


class BrokerPlace(NamedTuple):
    """A broker, and what can be done with it."""

    replica: ReplicaId
    host: str
    is_draining: bool = False
    in_maintenance: bool = False
    is_available: bool = True
    """Heard of, and for long enough to be given something."""
    is_lost: bool = False
    """Away for so long that its replicas shall be elsewhere."""
    is_full: bool = False

    @property
    def takes_replicas(self) -> bool:
        return self.is_available and not (self.is_draining or self.in_maintenance or self.is_lost or self.is_full)

    @property
    def takes_leaders(self) -> bool:
        return self.is_available and not (self.is_draining or self.in_maintenance or self.is_lost)

    @property
    def stays(self) -> bool:
        """Whether replicas that are there may stay."""
        return not (self.is_draining or self.is_lost)


class PlacedPartition(NamedTuple):
    """A partition and where its replicas shall be, as the controller has decided."""

    group: GroupName
    replicas: Sequence[ReplicaId]
    version: int
    created_on: Sequence[ReplicaId] = ()
    """Its replicas at the creation of the topic; their number is the replication factor."""
    is_busy: bool = False
    """Its members are not yet what they shall be."""
    is_resting: bool = False
    """Somebody else has placed it a short time ago: it is not moved without need."""
    stuck: Sequence[NodeId] = ()
    """Brokers that it shall have a replica on and that it will not get there: they went away before it was filled."""
    former: Sequence[NodeId] = ()
    """Brokers that vote and shall not any more."""


class PlacementLayout:
    """Partitions by number, topics by number, brokers by node id."""

    def __init__(self, places: Iterable[BrokerPlace]) -> None:
        self.places: dict[int, BrokerPlace] = {place.replica.node_id: place for place in places}
        self.placed: list[PlacedPartition] = []
        self.rows: list[list[int]] = []
        """The node ids of each partition, the preferred leader first; negative ones are no brokers (any more)."""
        self.topic_of: list[int] = []
        self.topics: list[UUID] = []
        self.known: list[set[int]] = []
        """By topic, the brokers that its creation named."""
        self.is_fixed = bytearray()
        """Partitions that are not to be changed, or not once more, by this plan."""
        self.counts: Counter[int] = Counter()
        self.topic_counts: list[Counter[int]] = []
        self.led_counts: Counter[int] = Counter()
        self.topic_led_counts: list[Counter[int]] = []
        self.on: defaultdict[int, defaultdict[int, dict[int, None]]] = defaultdict(lambda: defaultdict(dict))
        """Partitions by broker and topic."""
        self._numbers: dict[UUID, int] = {}

    def add(self, placed: PlacedPartition) -> int:
        """One more partition; its number."""
        number = len(self.placed)
        topic = self._topic(placed.group.topic_id)
        row = [self._node(replica) for replica in placed.replicas]
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
        if self.topics and self.topics[-1] is topic_id:
            return len(self.topics) - 1
        topic = self._numbers.setdefault(topic_id, len(self.topics))
        if topic == len(self.topics):
            self.topics.append(topic_id)
            self.known.append(set())
            self.topic_counts.append(Counter())
            self.topic_led_counts.append(Counter())
        return topic

    def _node(self, replica: ReplicaId) -> int:
        place = self.places.get(replica.node_id)
        if place is not None and place.replica.disk_uuid == replica.disk_uuid:
            return replica.node_id
        return -1 - replica.node_id

    # asking

    def host(self, node: int) -> str | None:
        """None for what is no broker."""
        place = self.places.get(node)
        return None if place is None else place.host

    def hosts_beside(self, number: int, node: int | None) -> set[str | None]:
        """The hosts of the partition's replicas, without that on `node`."""
        return {self.host(each) for each in self.rows[number] if each != node}

    def replicas(self, number: int) -> tuple[ReplicaId, ...]:
        """Of a partition that has only brokers, or the disks that it had before."""
        before = {self._node(replica): replica for replica in self.placed[number].replicas}
        return tuple(before[node] if node in before else self.places[node].replica for node in self.rows[number])

    # changing

    def replace(self, number: int, old: int | None, new: int) -> None:
        """A replica on `new`, in the place of `old` if there is one. What was led by `old` is led by the one of those
        that stay which leads least."""
        row, topic = self.rows[number], self.topic_of[number]
        self._count_leader(number, -1)
        if old is None:
            row.append(new)
        elif row[0] == old and len(row) > 1:
            heir = min(row[1:], key=lambda node: (not self._leads(node), *self._led(topic, node)))
            row[:] = [heir, *(node for node in row[1:] if node != heir), new]
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

    def lead_by(self, number: int, node: int) -> None:
        """One of its replicas is preferred from now on; the others stay in their order."""
        self._count_leader(number, -1)
        row = self.rows[number]
        row[:] = [node, *(each for each in row if each != node)]
        self._count_leader(number, 1)
        self.is_fixed[number] = True

    def _leads(self, node: int) -> bool:
        place = self.places.get(node)
        return place is not None and place.takes_leaders

    def _led(self, topic: int, node: int) -> tuple[int, int]:
        return self.topic_led_counts[topic][node], self.led_counts[node]

    def _count_leader(self, number: int, change: int) -> None:
        leader = self.rows[number][0]
        self.led_counts[leader] += change
        self.topic_led_counts[self.topic_of[number]][leader] += change
