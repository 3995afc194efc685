"""Placement of new partitions' replicas: on distinct hosts, least loaded first, with leaders spread evenly.

Hosts are chosen by their load per broker, then the least loaded broker of each host. Leaders are spread over the
brokers of the topic. With as many brokers on every host and no load on them, the numbers of replicas differ by at
most one between brokers, and so do those of preferred leaders. Of equally loaded brokers, one with about twice the
room on its disk comes first, as far as that is known; then an order drawn from the given generator decides, so that
replica sets differ and the leaders of a failed broker move to many others.

Pure. Called by the proposer of a `CreateTopic` or `AddPartitions`; the result is part of the command."""

from collections import deque
from collections.abc import Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import NamedTuple

from raftlog.errors import InvalidArgument, PlacementImpossible
from raftlog.raft import ReplicaId


class PlacementCandidate(NamedTuple):
    """Broker that may get replicas, with its replicas, leaders and free bytes; 0 free bytes: unknown."""

    replica: ReplicaId
    host: str
    replicas: int = 0
    leaders: int = 0
    free_bytes: int = 0

    @property
    def room(self) -> int:
        """Class of free disk space, the same for similar disks, so that small differences do not decide."""
        return self.free_bytes.bit_length()


def place_replicas(
    partition_count: int,
    replication_factor: int,
    candidates: Sequence[PlacementCandidate],
    random: Random,
    led: Mapping[ReplicaId, int] = MappingProxyType({}),
) -> tuple[tuple[ReplicaId, ...], ...]:
    """Return the replicas of every new partition, the preferred leader first.

    `led`: for each broker, the number of the topic's present partitions whose preferred leader it is.

    Raises `PlacementImpossible` when there are fewer hosts than replicas, `InvalidArgument` for numbers below 1."""
    if partition_count < 1 or replication_factor < 1:
        raise InvalidArgument(f"{partition_count} partitions with {replication_factor} replicas cannot be placed")
    hosts = _Hosts(candidates)
    if replication_factor > len(hosts.names):
        raise PlacementImpossible(
            f"replication factor {replication_factor} needs as many hosts, and {len(hosts.names)} "
            f"{'has' if len(hosts.names) == 1 else 'have'} brokers that choose new replicas: "
            "start brokers on other hosts, or ask for fewer replicas"
        )
    sets = [hosts.choose(replication_factor, random) for _ in range(partition_count)]
    return tuple(_choose_leaders(sets, {candidate.replica: candidate.leaders for candidate in candidates}, led))


class _Hosts:
    """Brokers by host, with the numbers of replicas that placement has given them."""

    def __init__(self, candidates: Sequence[PlacementCandidate]) -> None:
        """Group the candidates by host, with the room and the number of replicas of each."""
        self._brokers: dict[str, list[ReplicaId]] = {}
        for candidate in sorted(candidates):
            self._brokers.setdefault(candidate.host, []).append(candidate.replica)
        self._rooms = {candidate.replica: candidate.room for candidate in candidates}
        self._loads = {candidate.replica: candidate.replicas for candidate in candidates}
        self._totals = {
            host: sum(self._loads[replica] for replica in replicas) for host, replicas in self._brokers.items()
        }
        self.names = sorted(self._brokers)

    def choose(self, count: int, random: Random) -> list[ReplicaId]:
        """Return brokers on `count` hosts for one more partition, and count a replica on each."""
        random.shuffle(self.names)  # sorting is stable, so this decides between equals
        chosen = sorted(self.names, key=self._rank)[:count]
        return [self._choose_broker(host) for host in chosen]

    def _rank(self, host: str) -> tuple[float, int]:
        """Return the sort key of a host: replicas per broker, then the free space of its emptiest disk."""
        brokers = self._brokers[host]
        return self._totals[host] / len(brokers), -max(self._rooms[replica] for replica in brokers)

    def _choose_broker(self, host: str) -> ReplicaId:
        """Return the least loaded broker of a host, and count a replica on it."""
        replica = min(self._brokers[host], key=lambda replica: (self._loads[replica], -self._rooms[replica]))
        self._loads[replica] += 1
        self._totals[host] += 1
        return replica


def _choose_leaders(
    sets: list[list[ReplicaId]], leaders: dict[ReplicaId, int], led_before: Mapping[ReplicaId, int]
) -> list[tuple[ReplicaId, ...]]:
    """Order the replicas of each set so that the preferred leader is first.

    Within a topic each broker leads as many partitions as the others, however many it leads already: a new broker must
    not lead all partitions of a new topic. The present numbers of leaderships decide between equals."""
    counts = {replica: led_before.get(replica, 0) for replica in leaders}
    led: dict[ReplicaId, list[int]] = {replica: [] for replica in leaders}
    for number, replicas in enumerate(sets):
        leader = min(replicas, key=lambda replica: (counts[replica], leaders[replica]))
        counts[leader] += 1
        led[leader].append(number)
    while _move_one_leadership(sets, led, counts):
        pass
    leader_of = {number: replica for replica, numbers in led.items() for number in numbers}
    return [_put_first(leader_of[number], replicas) for number, replicas in enumerate(sets)]


def _put_first(leader: ReplicaId, replicas: list[ReplicaId]) -> tuple[ReplicaId, ...]:
    """Return the replicas with `leader` as the first."""
    return (leader, *(replica for replica in replicas if replica != leader))


_Chain = list[tuple[ReplicaId, int, ReplicaId]]
"""Leaderships that move in one step: source, number of the replica set, target."""


def _move_one_leadership(
    sets: list[list[ReplicaId]], led: dict[ReplicaId, list[int]], counts: dict[ReplicaId, int]
) -> bool:
    """Move one leadership to a broker that leads at least two fewer, through other brokers if needed.

    Each move lowers the sum of squares of the counts, so this ends. Return False when there is no such move."""
    for level in range(max(counts.values()), min(counts.values()) + 1, -1):
        origins = [replica for replica, count in counts.items() if count == level]
        chain = _find_chain(origins, sets, led, {replica for replica, count in counts.items() if count <= level - 2})
        for source, number, target in chain:
            led[source].remove(number)
            led[target].append(number)
        if chain:
            counts[chain[0][0]] -= 1
            counts[chain[-1][2]] += 1
            return True
    return False


def _find_chain(
    origins: list[ReplicaId], sets: list[list[ReplicaId]], led: dict[ReplicaId, list[int]], ends: set[ReplicaId]
) -> _Chain:
    """Return the shortest chain of leadership moves from one of `origins` to one of `ends`; empty without any."""
    reached: dict[ReplicaId, _Chain] = {origin: [] for origin in origins}
    queue = deque(origins)
    while queue:
        source = queue.popleft()
        for number in led[source]:
            for target in sets[number]:
                if target in reached:
                    continue
                reached[target] = [*reached[source], (source, number, target)]
                if target in ends:
                    return reached[target]
                queue.append(target)
    return []
