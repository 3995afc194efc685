"""State of the balancer during one leadership of the controller; the next leader reconstructs all of it.

    running_moves    moving partitions, until their leaders report that they have arrived
    recently_placed  partitions that another source placed recently: they are not moved without need
    queue            planned and not yet submitted changes, of partitions that do not move

Made with each leadership, dropped at its end. Reads the controller's state for the plan. Owned by the balancer."""

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from raftlog.partitions.controller.machine import ControllerState, GroupName
from raftlog.partitions.placement.balancing.availability import SETTLE_S, Availability
from raftlog.partitions.placement.balancing.layout import BrokerPlace, PlacedPartition
from raftlog.partitions.placement.balancing.plan import Change, Failure
from raftlog.partitions.placement.balancing.progress import HeldReplicas, MovingPartition
from raftlog.partitions.placement.balancing.report import BalancerSettings
from raftlog.types import NodeId

KEEP_PLACED_S: Final = 300.0
"""Time for which a partition stays where another source placed it, unless it has to move."""
STUCK_S: Final = 30.0
"""Time after which a broker that is away, or has no room, before its new replica is filled is replaced."""
SILENT_S: Final = 15.0
"""Time without a leader's report after which a partition counts as leaderless."""
MOVES_STARTED_PER_S: Final = 6.0
MOVES_STARTED_AT_ONCE: Final = 1
"""Moves that may start at once; a small one costs all brokers together about 30 ms of CPU, for which clients wait."""
_STABLE_S: Final = SETTLE_S
"""Time without changes of brokers and topics before counts are balanced."""
_STABLE_WAIT_S_MAX: Final = 60.0
"""Longest wait for such a time; then counts are balanced in spite of changes."""


class _RunningMove(NamedTuple):
    """Move of a partition that was submitted and has not arrived.

    `changed_at`: time of the last report that differed from the one before; `named_at`: time of the last report."""

    reported: MovingPartition
    changed_at: float
    named_at: float


class Tenure:
    """State of the balancer during one leadership of the controller, from `began_at` on.

    Times are of the loop's clock."""

    def __init__(self, term: int, now: float) -> None:
        """Begin a tenure in the controller's term, at the loop's time `now`."""
        self.term, self.began_at = term, now
        self.availability = Availability()
        self.looked_at: float | None = None
        self.running_moves: dict[GroupName, _RunningMove] = {}
        self.recently_placed: dict[GroupName, float] = {}
        """Time until which each of these partitions is not moved without need."""
        self.queue: deque[Change] = deque()
        self.failures: list[Failure] = []
        self.unanswered: list[NodeId] = []
        """Reachable brokers that did not report their moving partitions."""
        self.problem: str | None = None
        """Error of the balancer's last run; None if it succeeded."""
        self.is_ordered = False
        """Whether an operator ordered a rebalance, in any mode; false again once no change is left."""
        self._versions: dict[GroupName, int] | None = None
        """Versions of the assignments that differ from those of their creation, as seen last."""
        self._ordered: dict[GroupName, int] = {}
        """Versions that were made by this balancer."""
        self._environment_digests: tuple[bytes, ...] = ()
        self._full_since: dict[NodeId, float] = {}
        """Time since which the disk of each of these brokers has had no room."""
        self._startable = 0.0
        self._counted_at = now
        """Time when the number of moves that may start was updated last."""
        self._disturbed_at = self._unstable_since = now
        """Times of the last disturbance, and of the first one after the last stable time."""

    # disturbances

    def record_environment(self, state: ControllerState, now: float) -> None:
        """Record the present brokers, topics and maintenance modes; a change of them is a disturbance."""
        seen = (state.brokers.digest, state.topics.digest, state.maintenance.digest)
        if seen != self._environment_digests:
            self._environment_digests = seen
            self._record_disturbance(now)
        for name in [name for name, until in self.recently_placed.items() if until <= now]:
            del self.recently_placed[name]

    def _record_disturbance(self, now: float) -> None:
        """Record a change of partitions or brokers at `now`; the first one after a stable time begins unstable time."""
        if now - self._disturbed_at >= _STABLE_S:
            self._unstable_since = now
        self._disturbed_at = now

    def is_stable(self, now: float) -> bool:
        """Return whether partitions and brokers were unchanged for `_STABLE_S`, or changes have gone on for too long.

        Too long: `_STABLE_WAIT_S_MAX`."""
        return now - self._disturbed_at >= _STABLE_S or now - self._unstable_since >= _STABLE_WAIT_S_MAX

    # moving partitions

    def apply_reports(self, reports: Mapping[NodeId, HeldReplicas | None], state: ControllerState, now: float) -> None:
        """Update the running moves by the leaders' reports; remove finished ones and those of deleted partitions."""
        self.unanswered = sorted(node for node, each in reports.items() if each is None)
        for each in reports.values():
            if each is None:
                continue
            for key in each.arrived:
                name = state.group(UUID(bytes=key))
                if name is not None:
                    self.running_moves.pop(name, None)
        for each in reports.values():
            for key, reported in each.moving.items() if each is not None else ():
                name = state.group(UUID(bytes=key))
                if name is None:
                    continue
                known = self.running_moves.get(name)
                changed_at = now if known is None or known.reported != reported else known.changed_at
                self.running_moves[name] = _RunningMove(reported, changed_at, now)
        for name in [name for name in self.running_moves if not state.has_group(name)]:
            del self.running_moves[name]

    def record_submission(self, name: GroupName, missing: Collection[NodeId], now: float) -> None:
        """Record that a new assignment of the partition is about to be submitted."""
        self.running_moves[name] = _RunningMove(MovingPartition(tuple(missing), ()), now, now)

    def record_full(self, full: Collection[NodeId], now: float) -> None:
        """Record the brokers whose disks have no room now."""
        self._full_since = {node: self._full_since.get(node, now) for node in full}

    def record_ordered(self, name: GroupName, version: int) -> None:
        """Record the version of an assignment that this balancer made."""
        self._ordered[name] = version

    def is_waiting(self, name: GroupName, now: float) -> bool:
        """Return whether a moving partition cannot progress now, so that another move may start."""
        known = self.running_moves[name]
        is_leaderless = now - known.named_at >= SILENT_S
        return is_leaderless or any(
            node in self._full_since or not self.availability.is_reachable(node) for node in known.reported.missing
        )

    def startable_moves(self, moves_max: int, now: float) -> float:
        """Return the number of further moves that may start, with at most `moves_max` running."""
        earned = self._startable + MOVES_STARTED_PER_S * (now - self._counted_at)
        self._startable, self._counted_at = min(earned, float(MOVES_STARTED_AT_ONCE)), now
        return min(self._startable, moves_max - self.under_way(now))

    def count_move_start(self) -> None:
        """Count the start of a move."""
        self._startable -= 1

    def under_way(self, now: float) -> int:
        """Return the number of pending moves that do not wait for an unreachable broker."""
        return sum(not self.is_waiting(name, now) for name in self.running_moves)

    def waits(self, state: ControllerState, now: float) -> dict[str, list[str]]:
        """Return waiting partitions by the reason of their wait."""
        found: dict[str, list[str]] = {}
        for name, known in self.running_moves.items():
            missing = [node for node in known.reported.missing if not self.availability.is_reachable(node)]
            full = [node for node in known.reported.missing if node in self._full_since]
            if now - known.named_at >= SILENT_S:
                why = "no leader reports the progress of the move"
            elif missing:
                silent_s = max(self.availability.silent_s(node, now) for node in missing)
                why = f"waits for node {missing[0]}, which was not heard for {silent_s:.0f} s"
            elif full:
                why = f"waits for node {full[0]}, whose disk has no room"
            else:
                continue
            found.setdefault(why, []).append(name_in(state, name))
        return found

    def _stuck_partitions(self, settings: BalancerSettings, now: float) -> dict[GroupName, tuple[NodeId, ...]]:
        """Return moving partitions whose new brokers disappeared before they had the data, with these brokers.

        So do brokers without room: nothing else would end the move."""
        after_s = min(STUCK_S, settings.repair_after_s or STUCK_S)
        full = {node for node, since in self._full_since.items() if now - since >= STUCK_S}
        found = {}
        for name, known in self.running_moves.items():
            gone = tuple(
                node
                for node in known.reported.missing
                if node in full or self.availability.silent_s(node, now) >= after_s
            )
            if gone and now - known.named_at < SILENT_S:
                found[name] = gone
        return found

    # for the plan

    def places(
        self, state: ControllerState, full: Collection[NodeId], settings: BalancerSettings, now: float
    ) -> list[BrokerPlace]:
        """Return all brokers with the conditions for placing replicas on them, by node id."""
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
                and there.silent_s(broker.node_id, now) >= repair_after_s,
                broker.node_id in full,
            )
            for broker in state.all_brokers()
        ]

    def inputs(self, state: ControllerState, settings: BalancerSettings, now: float) -> tuple[object, ...]:
        """Return the inputs of a plan besides places and scope; equal inputs give the same plan."""
        stuck = tuple(self._stuck_partitions(settings, now).items())
        return (
            *self._environment_digests,
            state.moved.digest,
            frozenset(self.running_moves),
            stuck,
            len(self.recently_placed),
        )

    def placed(self, state: ControllerState, settings: BalancerSettings, now: float) -> Iterator[PlacedPartition]:
        """Yield all partitions; record those that another source placed since the last plan."""
        stuck = self._stuck_partitions(settings, now)
        before, self._versions = self._versions, {}
        for topic in list(state.topics):
            for partition, origin in enumerate(topic.origins()):
                name = GroupName(topic.topic_id, partition)
                moved = state.moved.get(name)
                replicas, version = origin.replicas, origin.version
                if moved is not None:
                    replicas, version = moved.replicas, moved.version
                    self._record_version(name, version, before, now)
                running = self.running_moves.get(name)
                gone = stuck.get(name, ())
                yield PlacedPartition(
                    name,
                    replicas,
                    version,
                    origin.replicas,
                    is_busy=running is not None and not gone,
                    is_recently_placed=name in self.recently_placed,
                    stuck=gone,
                    former=() if running is None else running.reported.former,
                )

    def _record_version(self, name: GroupName, version: int, before: dict[GroupName, int] | None, now: float) -> None:
        """Record the version of an assignment; one that this balancer did not order counts as a disturbance."""
        assert self._versions is not None
        self._versions[name] = version
        if before is not None and before.get(name) != version and self._ordered.pop(name, None) != version:
            self.recently_placed[name] = now + KEEP_PLACED_S
            self._record_disturbance(now)


def name_in(state: ControllerState, name: GroupName) -> str:
    """Return TOPIC/PARTITION."""
    topic = state.topics.get(name.topic_id)
    return f"{name.topic_id if topic is None else topic.name}/{name.partition}"
