"""Ambush of cuts: a log is cut while syncs of its segments are pending.

    a leader, perhaps with one follower, is isolated, and syncs of its segments are held
    → its log is cut → a moment later the syncs return, or its power is lost before or after they return

The leader cannot commit the entries that it accepts meanwhile, and the next leader's log cuts them off. Large appends
are the target: they are synced in their segment before the journal has their ids, so a cut can remove an append that is
half complete, or several appends of which a part of one stays. Everything is drawn from one generator that nothing else
uses, so a run without these ambushes draws the same numbers as before. Created by `nemesis`, requested by
`Options.cut_ambushes`."""

from collections.abc import Callable
from random import Random
from typing import Final

from jepsen.simulation.cluster import Cluster
from jepsen.simulation.machine import Machine
from jepsen.simulation.network import shapes
from jepsen.simulation.network.links import MILLISECOND_NS, SECOND_NS

PERIOD_S: Final = (2.0, 6.0)
ALONE_S: Final = (1.0, 3.0)
"""Seconds of isolation, drawn from this range: long enough for the others to elect a leader."""
HELD_S: Final = 5.0
"""Seconds after which held syncs return, with or without a cut."""
DELAYS_MS: Final = (0, 1, 20, 300)


class CutAmbushes:
    """Injector of faults that make a replica cut its log while syncs of its segments are held."""

    def __init__(self, cluster: Cluster, random: Random) -> None:
        self._cluster, self._loop, self._random = cluster, cluster.loop, random
        self._is_over = False
        cluster.on_cut = self._on_cut
        self.triggered = 0
        """Number of cuts while a sync of the machine was held."""

    def start(self) -> None:
        """Schedule the first ambush."""
        self._call_later(self._random.uniform(*PERIOD_S), self._prepare)

    def end(self) -> None:
        """Stop the ambushes; all held syncs return."""
        self._is_over = True
        for machine in self._cluster.machines.values():
            machine.disk.release()

    def _call_later(self, seconds: float, callback: Callable[[], object]) -> None:
        """Call `callback` after a time of the simulation."""
        self._loop.call_at_ns(self._loop.now_ns + int(seconds * SECOND_NS), callback)

    def _prepare(self) -> None:
        """Isolate a leader, perhaps with one follower, hold syncs of their segments, and schedule the next ambush."""
        if self._is_over:
            return
        self._call_later(self._random.uniform(*PERIOD_S), self._prepare)
        found = self._cluster.leader(self._random.choice(self._cluster.groups))
        if found is None or any(machine.disk.is_holding for machine in self._cluster.machines.values()):
            return
        others = [machine for machine in self._cluster.machines.values() if machine is not found[0]]
        alone = [found[0], *self._random.sample(others, self._random.choice((0, 0, 1)))]
        numbers = [machine.node.number for machine in alone]
        rest = [machine.node.number for machine in others if machine not in alone]
        for machine in alone:
            machine.disk.hold()
            machine.note("an ambush: syncs of its segments are held until its log is cut")
            self._call_later(HELD_S, machine.disk.release)
        self._cluster.network.impose(shapes.split((numbers, rest)))
        self._call_later(self._random.uniform(*ALONE_S), self._cluster.network.heal)

    def _on_cut(self, machine: Machine) -> None:
        """End the hold soon after the cut of a log, often with a power loss before or after that."""
        if not machine.disk.has_held:
            return
        self.triggered += 1
        machine.note("cuts its log: syncs of its segments are held")
        at_ns = self._loop.now_ns + self._random.choice(DELAYS_MS) * MILLISECOND_NS
        self._loop.call_at_ns(at_ns, machine.disk.release)
        if self._random.random() < 0.5:
            at_ns += self._random.choice((-1, *DELAYS_MS)) * MILLISECOND_NS
            self._loop.call_at_ns(max(at_ns, self._loop.now_ns), self._lose_power, machine, machine.node.starts)

    def _lose_power(self, machine: Machine, starts: int) -> None:
        """Cut the machine's power, unless it is down or was restarted; `starts` is its number of starts at the cut."""
        if machine.node.starts == starts and machine.node.is_up:
            machine.lose_power()
