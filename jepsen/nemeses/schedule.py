"""Schedule of faults, drawn from a seed. Pure: the same for the same arguments.

    warm-up │ window │ window │ …            a window is quiet (a quarter of them), or holds one fault, or two at once
    0 < begin < end ≤ length − QUIET_END_S   every fault has an end

A kill, a loss of power and damaged files end with the start of the process; a roll is a rolling restart until its end;
members are momentary requests of an operator; files are damaged on one node at a time. Kinds are drawn from a shuffled
bag, so each occurs early and regularly. If a fault names a partition in
`of_leader`, the partition's leader at that moment replaces the first drawn node, and vice versa.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

from jepsen.nemeses.fault import Fault, FaultKind, Plane
from jepsen.nemeses.kind_table import FACTS
from jepsen.nemeses.network_faults import SHAPES, SHAPES_NODES_MIN, all_links

WARM_UP_S: Final = 1.0
QUIET_END_S: Final = 1.0
"""Length, in seconds, of the end of the load, in which no fault begins or lasts."""
WINDOW_S_MIN: Final = 2.5
WINDOW_S_MAX: Final = 8.0
"""Longest window, in seconds; windows are shorter if the load is too short for a window of each kind."""
QUIET_SHARE: Final = 0.25
TWO_SHARE: Final = 0.4
"""Share of windows with faults that have two kinds at once, if the test has several kinds."""
LEADER_SHARE: Final = 0.5
FAULT_S_MIN: Final = 0.3
ORDERS: Final = ("join", "leave", "move", "lead", "move")
ORDERS_MAX: Final = 4
"""Largest number of operators' requests in one window."""
ONE_PLANE_SHARE: Final = 0.3
"""Share of cuts that affect gossip alone, or everything else alone."""


def draw_schedule(
    seed: int, kinds: Sequence[FaultKind], nodes: Sequence[int], length_s: float, partitions: int
) -> tuple[Fault, ...]:
    """Return faults for a load of `length_s` seconds, sorted by begin. `kinds` may be empty."""
    if not kinds:
        return ()
    drawing = _Drawing(Random(seed), kinds, nodes, partitions)  # noqa: S311 - repeatable, not secret
    return tuple(sorted(drawing.draw_windows(length_s), key=lambda fault: fault.begin_s))


class _Drawing:
    """Random generator of the faults of one schedule."""

    def __init__(self, random: Random, kinds: Sequence[FaultKind], nodes: Sequence[int], partitions: int) -> None:
        """Prepare to draw faults of `kinds`, for these nodes and a number of partitions."""
        self._random, self._nodes, self._partitions = random, list(nodes), partitions
        self._kinds = list(dict.fromkeys(kinds))
        self._bag: list[FaultKind] = []

    def draw_windows(self, length_s: float) -> Iterator[Fault]:
        """Yield the faults of successive windows in a load of `length_s` seconds.

        Some windows are quiet, but the first ones are not."""
        begin, last = WARM_UP_S, length_s - QUIET_END_S
        longest = max(WINDOW_S_MIN, min(WINDOW_S_MAX, (last - begin) / len(self._kinds)))
        number = 0
        while begin < last - 2 * FAULT_S_MIN:
            end = min(begin + self._random.uniform(WINDOW_S_MIN, longest), last)
            if number < len(self._kinds) or self._random.random() >= QUIET_SHARE:
                yield from self._draw_window(begin, end)
            begin, number = end + 0.2, number + 1

    def _draw_window(self, begin: float, end: float) -> Iterator[Fault]:
        """Yield one or two faults of different kinds between `begin` and `end`, on different nodes."""
        count = 2 if len(self._kinds) > 1 and self._random.random() < TWO_SHARE else 1
        free = self._random.sample(self._nodes, len(self._nodes))
        for kind in self._draw_kinds(count):
            since = self._random.uniform(begin, begin + (end - begin) / 3)
            until = self._random.uniform(since + FAULT_S_MIN, end)
            if kind == "cut":
                yield from self._draw_cuts(since, until)
            elif kind == "packet":
                yield self._draw_packet_fault(since, until)
            elif kind == "members":
                yield from self._membership_changes(since, end)
            elif kind == "roll" and free:
                yield Fault(kind, since, end, tuple(free))
                free.clear()
            elif free:
                nodes = tuple(free[: FACTS[kind].victims_max or self._draw_victim_count()])
                del free[: len(nodes)]
                yield Fault(
                    kind,
                    since,
                    until,
                    nodes,
                    self._draw_shape(kind),
                    of_leader=self._draw_led_partition(),
                    seed=self._draw_seed(),
                )
            else:
                self._bag.insert(0, kind)  # no node is left for it in this window

    def _draw_kinds(self, count: int) -> list[FaultKind]:
        """Draw `count` different kinds; all kinds are used once before any is used again."""
        taken: list[FaultKind] = []
        while len(taken) < count:
            if not self._bag:
                self._bag = self._random.sample(self._kinds, len(self._kinds))
            kind = next((kind for kind in self._bag if kind not in taken), None)
            if kind is None:
                self._bag = []
                continue
            self._bag.remove(kind)
            taken.append(kind)
        return taken

    def _draw_victim_count(self) -> int:
        """Draw the number of victims: mostly a minority, sometimes a majority or all."""
        minority = max(1, (len(self._nodes) - 1) // 2)
        drawn = self._random.random()
        if drawn < 0.65:
            return self._random.randint(1, minority)
        return min(len(self._nodes), minority + 1) if drawn < 0.9 else len(self._nodes)

    def _draw_led_partition(self) -> int | None:
        """Draw the number of the partition whose leader is the victim; None for any node."""
        return self._random.randrange(self._partitions) if self._random.random() < LEADER_SHARE else None

    def _draw_shape(self, kind: FaultKind) -> str:
        """Draw a shape of the kind; empty if it has none."""
        shapes = FACTS[kind].shapes
        return self._random.choice(shapes) if shapes else ""

    def _draw_seed(self) -> int:
        return self._random.randrange(1 << 30)

    def _draw_plane(self) -> Plane:
        """Draw the traffic that a cut affects: RPC, gossip, or both (empty)."""
        return self._random.choice(("rpc", "gossip")) if self._random.random() < ONE_PLANE_SHARE else ""

    def _draw_packet_fault(self, since: float, until: float) -> Fault:
        """Draw a packet fault on all links, or on those of one node."""
        nodes = self._random.sample(self._nodes, len(self._nodes))
        links = all_links(nodes) if self._random.random() < 0.5 else SHAPES["isolated"](nodes)
        return Fault("packet", since, until, (nodes[0],), self._draw_shape("packet"), links, self._draw_led_partition())

    def _membership_changes(self, since: float, until: float) -> Iterator[Fault]:
        """Yield a few changes of the cluster by operators, which may overlap."""
        for _ in range(self._random.randint(2, ORDERS_MAX)):
            at = self._random.uniform(since, until - FAULT_S_MIN)
            node, place = self._random.choice(self._nodes), self._random.randrange(self._partitions)
            yield Fault("members", at, at + FAULT_S_MIN, (node,), self._random.choice(ORDERS), of_leader=place)

    def _draw_cuts(self, since: float, until: float) -> Iterator[Fault]:
        """Yield one cut, or several short ones of the same node."""
        shape = self._random.choice([shape for shape, least in SHAPES_NODES_MIN.items() if len(self._nodes) >= least])
        nodes = self._random.sample(self._nodes, len(self._nodes))
        aim = self._draw_led_partition()
        fault = Fault("cut", since, until, (nodes[0],), shape, SHAPES[shape](nodes), aim, self._draw_plane())
        if shape != "isolated" or self._random.random() < 0.7:
            yield fault
            return
        while since + FAULT_S_MIN < until:
            end = min(until, since + self._random.uniform(FAULT_S_MIN, 1.0))
            yield fault._replace(shape="flapping", begin_s=since, end_s=end)
            since = end + self._random.uniform(0.2, 0.8)
