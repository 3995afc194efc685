"""What the balancer remembers while this process leads the controller: nothing that the next leader could not find out.

    ways       partitions on their way, until a leader says that they have arrived
    resting    partitions that somebody else has placed a short time ago: they are not moved without need
    queue      planned, and not ordered yet: of other partitions than those on their way

Made with each leadership, dropped at its end. Looks at the controller's state for the plan. Owned by the balancer.
"""

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from raftlog.partitions.controller.machine import ControllerState, GroupName
from raftlog.partitions.placement.balancing.availability import SETTLE_S, Availability
from raftlog.partitions.placement.balancing.layout import BrokerPlace, PlacedPartition
from raftlog.partitions.placement.balancing.plan import Change, Failure
from raftlog.partitions.placement.balancing.progress import HeldReplicas, Way
from raftlog.partitions.placement.balancing.report import BalancerSettings
from raftlog.types import NodeId

REST_S: Final = 300.0
"""For so long a partition stays where somebody else has placed it, unless it has to move."""
STUCK_S: Final = 30.0
"""Who shall have a replica and is away for so long before it was filled is given up for this partition."""
SILENT_S: Final = 15.0
"""A partition that no leader has named for so long has none, as far as is known."""
SET_OUT_PER_S: Final = 6.0
SET_OUT_AT_ONCE: Final = 1
"""Partitions set out one after the other: a small one costs all brokers together some 30 ms of CPU within a moment, and
clients wait for that."""
_CALM_S: Final = SETTLE_S
"""Numbers are evened only when brokers and topics have been the same for so long …"""
_CALM_S_MAX: Final = 60.0
"""… or when this was waited for as long as this."""


class _OnWay(NamedTuple):
    way: Way
    changed_at: float
    named_at: float


class Tenure:
    """One leadership of the controller, from `began_at` on. Times are the loop's."""

    def __init__(self, term: int, now: float) -> None:
        self.term, self.began_at = term, now
        self.availability = Availability()
        self.looked_at: float | None = None
        self.ways: dict[GroupName, _OnWay] = {}
        self.resting: dict[GroupName, float] = {}
        """Until when."""
        self.queue: deque[Change] = deque()
        self.failures: list[Failure] = []
        self.unanswered: list[NodeId] = []
        """Brokers that are heard, and did not say what moves."""
        self.problem: str | None = None
        """Why the last look came to nothing."""
        self.is_ordered = False
        """An operator wants numbers evened whatever the mode, until there is nothing to do."""
        self._versions: dict[GroupName, int] | None = None
        """Of the assignments that are not those of their creation, as they were seen last."""
        self._ordered: dict[GroupName, int] = {}
        """Versions that were made by this balancer."""
        self._surroundings: tuple[bytes, ...] = ()
        self._may_set_out = 0.0
        self._counted_at = now
        """When the number of those that may set out was brought up to date."""
        self._disturbed_at = self._unrest_at = now
        """The last disturbance, and the first since it was calm."""

    # how calm it is

    def note_surroundings(self, state: ControllerState, now: float) -> None:
        """Brokers, topics and their settings as of now."""
        seen = (state.brokers.digest, state.topics.digest, state.maintenance.digest)
        if seen != self._surroundings:
            self._surroundings = seen
            self._disturb(now)
        for name in [name for name, until in self.resting.items() if until <= now]:
            del self.resting[name]

    def _disturb(self, now: float) -> None:
        if now - self._disturbed_at >= _CALM_S:
            self._unrest_at = now
        self._disturbed_at = now

    def is_calm(self, now: float) -> bool:
        return now - self._disturbed_at >= _CALM_S or now - self._unrest_at >= _CALM_S_MAX

    # partitions on their way

    def note_told(self, told: Mapping[NodeId, HeldReplicas | None], state: ControllerState, now: float) -> None:
        """What the brokers say of the partitions that they lead."""
        self.unanswered = sorted(node for node, each in told.items() if each is None)
        for each in told.values():
            if each is None:
                continue
            for key in each.arrived:
                name = state.group(UUID(bytes=key))
                if name is not None:
                    self.ways.pop(name, None)
        for each in told.values():
            for key, way in each.moving.items() if each is not None else ():
                name = state.group(UUID(bytes=key))
                if name is None:
                    continue
                known = self.ways.get(name)
                changed_at = now if known is None or known.way != way else known.changed_at
                self.ways[name] = _OnWay(way, changed_at, now)
        for name in [name for name in self.ways if not state.has_group(name)]:
            del self.ways[name]

    def note_leaving(self, name: GroupName, missing: Collection[NodeId], now: float) -> None:
        """A partition is about to be ordered elsewhere."""
        self.ways[name] = _OnWay(Way(tuple(missing), ()), now, now)

    def note_ordered(self, name: GroupName, version: int) -> None:
        self._ordered[name] = version

    def is_waiting(self, name: GroupName, now: float) -> bool:
        """Whether nothing can be done for a partition on its way, so that another one may set out."""
        known = self.ways[name]
        is_unled = now - known.named_at >= SILENT_S
        return is_unled or any(not self.availability.is_heard(node) for node in known.way.missing)

    def may_set_out(self, moves_max: int, now: float) -> float:
        """How many more partitions, of at most `moves_max` on their way."""
        earned = self._may_set_out + SET_OUT_PER_S * (now - self._counted_at)
        self._may_set_out, self._counted_at = min(earned, float(SET_OUT_AT_ONCE)), now
        return min(self._may_set_out, moves_max - self.under_way(now))

    def note_setting_out(self) -> None:
        """One more sets out."""
        self._may_set_out -= 1

    def under_way(self, now: float) -> int:
        return sum(not self.is_waiting(name, now) for name in self.ways)

    def waits(self, state: ControllerState, now: float) -> dict[str, list[str]]:
        """Partitions that wait for something, by what it is."""
        found: dict[str, list[str]] = {}
        for name, known in self.ways.items():
            missing = [node for node in known.way.missing if not self.availability.is_heard(node)]
            if now - known.named_at >= SILENT_S:
                why = "no leader says how far the move is"
            elif missing:
                away_s = max(self.availability.away_s(node, now) for node in missing)
                why = f"waits for node {missing[0]}, which was not heard for {away_s:.0f} s"
            else:
                continue
            found.setdefault(why, []).append(name_in(state, name))
        return found

    def _stuck(self, settings: BalancerSettings, now: float) -> dict[GroupName, tuple[NodeId, ...]]:
        """Partitions on their way to brokers that went away before they had everything, and these brokers."""
        after_s = min(STUCK_S, settings.repair_after_s or STUCK_S)
        found = {}
        for name, known in self.ways.items():
            gone = tuple(node for node in known.way.missing if self.availability.away_s(node, now) >= after_s)
            if gone and now - known.named_at < SILENT_S:
                found[name] = gone
        return found

    # for the plan

    def places(
        self, state: ControllerState, full: Collection[NodeId], settings: BalancerSettings, now: float
    ) -> list[BrokerPlace]:
        """All brokers, sorted."""
        repair_after_s, there = settings.repair_after_s, self.availability
        return [
            BrokerPlace(
                broker.replica,
                broker.host,
                broker.is_draining,
                state.is_in_maintenance(broker.node_id),
                there.is_available(broker.node_id, now),
                repair_after_s is not None
                and not state.is_in_maintenance(broker.node_id)
                and there.away_s(broker.node_id, now) >= repair_after_s,
                broker.node_id in full,
            )
            for broker in state.all_brokers()
        ]

    def inputs(self, state: ControllerState, settings: BalancerSettings, now: float) -> tuple[object, ...]:
        """What a plan depends on besides places and wishes: the same again gives the same plan."""
        stuck = tuple(self._stuck(settings, now).items())
        return (*self._surroundings, state.moved.digest, frozenset(self.ways), stuck, len(self.resting))

    def placed(self, state: ControllerState, settings: BalancerSettings, now: float) -> Iterator[PlacedPartition]:
        """All partitions; notices those that somebody else has placed since they were looked at last."""
        stuck = self._stuck(settings, now)
        before, self._versions = self._versions, {}
        for topic in list(state.topics):
            for partition, created_on in enumerate(topic.creation.partitions):
                name = GroupName(topic.topic_id, partition)
                moved = state.moved.get(name)
                replicas, version = created_on, topic.created_index
                if moved is not None:
                    replicas, version = moved.replicas, moved.version
                    self._note_version(name, version, before, now)
                way = self.ways.get(name)
                gone = stuck.get(name, ())
                yield PlacedPartition(
                    name,
                    replicas,
                    version,
                    created_on,
                    is_busy=way is not None and not gone,
                    is_resting=name in self.resting,
                    stuck=gone,
                    former=() if way is None else way.way.former,
                )

    def _note_version(self, name: GroupName, version: int, before: dict[GroupName, int] | None, now: float) -> None:
        assert self._versions is not None
        self._versions[name] = version
        if before is not None and before.get(name) != version and self._ordered.pop(name, None) != version:
            self.resting[name] = now + REST_S
            self._disturb(now)


def name_in(state: ControllerState, name: GroupName) -> str:
    """TOPIC/PARTITION."""
    topic = state.topics.get(name.topic_id)
    return f"{name.topic_id if topic is None else topic.name}/{name.partition}"
