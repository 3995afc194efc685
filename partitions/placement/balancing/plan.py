"""Next changes of the placement of replicas and leaders, most urgent first.

    1 drain     move replicas off draining brokers
    2 repair    replace replicas on brokers that were away for too long, or that went away or lost their room before
                they were filled
    3 hosts     of two replicas on one host move one to another host; a topic with fewer replicas than it was created
                with gets one more
    4 even      counts of replicas: in total, and of each topic                                  (`replica_counts`)
    5 leaders   counts of preferred leaders: of each topic, and in total; moves no data          (`leader_counts`)

Each change replaces one replica of one partition, or makes another of its replicas the first; a partition is changed
once in a plan, and not while it moves. Hosts of a partition stay distinct. Every stage lowers a measure that no
later one raises (replicas that cannot stay; pairs on one host; squares of the counts), so repeated planning ends,
with an empty plan. Stage 5 waits until no other change is planned.

Pure: `Planner.run` is a generator, so that its driver can run other tasks between the steps, none of which examines
more than some hundred partitions. Called by the balancer."""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from random import Random
from typing import Final, NamedTuple

from raftlog.partitions.controller.machine import GroupName
from raftlog.partitions.placement.balancing.layout import BrokerMode, BrokerPlace, PlacedPartition, PlacementLayout
from raftlog.partitions.placement.balancing.leader_counts import even_leaders
from raftlog.partitions.placement.balancing.replica_counts import ReplicaMoves
from raftlog.raft import ReplicaId

_SLICE: Final = 32
"""Partitions examined in one step."""
FAILURES_MAX: Final = 1_000


class ChangeReason(StrEnum):
    """Reason of a change, in words for operators."""

    DRAIN = "a broker is decommissioned"
    REPAIR = "a broker is away for too long"
    HOSTS = "too few hosts have a replica"
    EVEN = "brokers have unequal numbers of replicas"
    LEADERS = "brokers lead unequal numbers of partitions"


class PlanScope(NamedTuple):
    """Kinds of changes to plan, by the settings of operators."""

    mode: BrokerMode = BrokerMode.CONTINUOUS
    balances_replicas: bool = True
    """Whether stages 3 to 5 are planned at all."""
    balances_leaders: bool = True


class Change(NamedTuple):
    """New assignment of a partition; `version` is that of the replaced assignment."""

    group: GroupName
    replicas: tuple[ReplicaId, ...]
    version: int
    why: ChangeReason


class Failure(NamedTuple):
    """Replica that has to move, and for which no broker is suitable."""

    group: GroupName
    node_id: int
    reason: str


class Planner:
    """One run of planning: call `plan`, or `run` and then read the results.

    It ends at `limit` changes; changes that belong together come together, so there can be a few more."""

    def __init__(self, places: Iterable[BrokerPlace], scope: PlanScope, random: Random, limit: int) -> None:
        """Prepare a plan for these brokers with at most `limit` changes; `random` decides between equal brokers."""
        self._layout = PlacementLayout(places)
        self._scope, self._random, self._limit = scope, random, limit
        self._targets = [node for node, place in self._layout.places.items() if place.takes_replicas]
        self._random.shuffle(self._targets)  # decides between equals
        self._moved: set[int] = set()
        self.changes: list[Change] = []
        self.failures: list[Failure] = []
        """Failures, at most `FAILURES_MAX`."""

    def run(self, placed: Iterable[PlacedPartition]) -> Iterator[None]:
        """Plan in steps; yield between them, and put the results into `changes` and `failures`."""
        layout = self._layout
        drained: list[tuple[int, int]] = []
        repaired: list[tuple[int, int]] = []
        crowded: list[tuple[int, int | None]] = []
        for each in placed:
            number = layout.add(each)
            self._collect_urgent(number, drained, repaired, crowded)
            if number % _SLICE == _SLICE - 1:
                yield
        for why, moves in (
            (ChangeReason.DRAIN, drained),
            (ChangeReason.REPAIR, repaired),
            (ChangeReason.HOSTS, crowded),
        ):
            for at, (number, node) in enumerate(moves):
                self._move(number, node, why)
                if at % _SLICE == _SLICE - 1:
                    yield
        if not self._scope.balances_replicas or self._is_full:
            return
        replica_moves = ReplicaMoves(layout, self._targets, only_new=self._scope.mode is BrokerMode.NODE_ADD)
        for moved in replica_moves.moves():
            yield
            for number in moved:
                self._add_change(number, ChangeReason.EVEN)
            if self._is_full:
                return
        if self._scope.balances_leaders and not self.changes:
            leaders = [node for node, place in layout.places.items() if place.takes_leaders]
            for led in even_leaders(layout, leaders):
                yield
                for number in led:
                    self._add_change(number, ChangeReason.LEADERS)
                if self._is_full:
                    return

    @property
    def _is_full(self) -> bool:
        """Whether the plan has as many changes as permitted."""
        return len(self.changes) >= self._limit

    def _collect_urgent(
        self,
        number: int,
        drained: list[tuple[int, int]],
        repaired: list[tuple[int, int]],
        crowded: list[tuple[int, int | None]],
    ) -> None:
        """Collect the urgent moves of a partition; mark the partition as fixed if it must not be moved without need."""
        layout = self._layout
        each, row, places = layout.placed[number], layout.rows[number], layout.places
        if each.is_busy:
            return
        bad = [node for node in row if node not in places or not places[node].stays or node in each.stuck]
        if bad:
            layout.is_fixed[number] = True
            for node in bad:
                is_drained = node in places and places[node].is_draining and node not in each.stuck
                if is_drained:
                    drained.append((number, node))
                else:
                    repaired.append((number, node))
            return
        layout.is_fixed[number] = each.is_recently_placed or not all(places[node].is_available for node in row)
        if not self._scope.balances_replicas or each.is_recently_placed:
            return
        hosts = [places[node].host for node in row]
        if len(set(hosts)) < len(hosts):
            crowded_node = next(node for at, node in enumerate(row) if hosts[at] in hosts[:at])
            crowded.append((number, crowded_node))
        elif len(row) < len(each.created_on) and self._scope.mode is BrokerMode.CONTINUOUS:
            crowded.append((number, None))

    def _move(self, number: int, node: int | None, why: ChangeReason) -> None:
        """Plan a move of a replica to another broker, if one is suitable and the limit of changes allows it."""
        layout = self._layout
        if number in self._moved:
            return  # one replica at a time
        beside = layout.hosts_beside(number, node)
        row, topic, former = layout.rows[number], layout.topic_of[number], layout.placed[number].former
        free = [each for each in self._targets if each not in row and layout.places[each].host not in beside]
        if not free:
            if why is not ChangeReason.HOSTS:
                assert node is not None
                self._add_failure(number, node)
            return
        if not self._is_full:
            counts, in_topic = layout.counts, layout.topic_counts[topic]
            new = min(free, key=lambda each: (each not in former, counts[each], in_topic[each]))
            layout.replace(number, node, new)
            self._moved.add(number)
            self._add_change(number, why)

    def _add_change(self, number: int, why: ChangeReason) -> None:
        """Add the layout's replicas of a partition as a change to submit."""
        placed = self._layout.placed[number]
        self.changes.append(Change(placed.group, self._layout.replicas(number), placed.version, why))

    def _add_failure(self, number: int, node: int) -> None:
        """Add a partition whose replica cannot leave a node, with the reason, up to `FAILURES_MAX`."""
        if len(self.failures) < FAILURES_MAX:
            name = node if node >= 0 else -1 - node
            self.failures.append(Failure(self._layout.placed[number].group, name, self._obstacle(number)))

    def _obstacle(self, number: int) -> str:
        """Return the reason why no broker can take the replica."""
        layout, needed = self._layout, len(self._layout.rows[number])
        left = {place.host for place in layout.places.values() if place.stays}
        if len(left) < needed:
            return (
                f"it needs {needed} hosts, and {len(left)} {'is' if len(left) == 1 else 'are'} left: "
                "start brokers on other hosts, or give the partition fewer replicas"
            )
        unfit = [_unfit_reason(place) for place in layout.places.values() if place.stays and not place.takes_replicas]
        return f"no broker can take its replica now: {', '.join(unfit) or 'the others have one'}"


def plan(
    places: Iterable[BrokerPlace], placed: Iterable[PlacedPartition], scope: PlanScope, random: Random, limit: int
) -> tuple[list[Change], list[Failure]]:
    """Return the changes and the failures of a whole planning run."""
    planner = Planner(places, scope, random, limit)
    for _ in planner.run(placed):
        pass
    return planner.changes, planner.failures


def _unfit_reason(place: BrokerPlace) -> str:
    """Return why a broker cannot have replicas."""
    node = place.replica.node_id
    if place.in_maintenance:
        return f"node {node} is in maintenance"
    return f"node {node} has no room" if place.is_full and place.is_available else f"node {node} is not available"
