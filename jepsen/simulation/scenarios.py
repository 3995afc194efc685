"""Course of a run before its end, by scenario: all faults at once, or one promise alone.

The runs with one promise start with a healthy cluster, without faults that could explain a violation
(`options.narrow_options`). So their checks are exact: the leader stays the same, or another one is elected within a
computed bound."""

from random import Random
from typing import Final

from jepsen.simulation.cluster import Cluster, GroupPlan
from jepsen.simulation.machine import Machine
from jepsen.simulation.nemesis.nemesis import Nemesis
from jepsen.simulation.network.links import SECOND_NS
from jepsen.simulation.network.shapes import isolate
from jepsen.simulation.options import Scenario
from jepsen.simulation.verdicts import PropertyBroken
from jepsen.simulation.workload import Workload
from raftlog.types import Term

LOOK_S: Final = 0.1
ELECTION_S: Final = 10.0
"""Seconds within which a healthy cluster has leaders."""
ROUNDS: Final = 4
"""Number of successive elections without a winner that the bound allows."""


class Script:
    """Phase with faults of one scenario."""

    def __init__(self, cluster: Cluster, workload: Workload, nemesis: Nemesis) -> None:
        self.cluster, self.workload, self.nemesis = cluster, workload, nemesis
        self.loop, self.options = cluster.loop, cluster.options

    def run(self) -> None:
        """Run the phase until its end. Raises `PropertyBroken`."""
        if self.options.scenario is Scenario.FLAPPING:
            self._run_flapping(self.cluster.random("flapping"))
        elif self.options.scenario is Scenario.QUIESCED:
            self._run_quiesced(self.cluster.random("sleeping"))
        else:
            self.loop.run_until_time(self.options.safety_s)

    # a follower that comes and goes

    def _run_flapping(self, random: Random) -> None:
        """Isolate and reconnect one follower repeatedly; check that all leaders stay."""
        self._wait_leaders()
        leaders = [self._leader_of(plan) for plan in self.cluster.groups]
        leading = [machine for machine, _ in leaders]
        followers = [machine for machine in self.cluster.machines.values() if machine not in leading]
        if not followers:
            return
        flapping = random.choice(followers)
        nodes = [machine.node.number for machine in self.cluster.machines.values()]
        while self.loop.now_ns < self.options.safety_s * SECOND_NS:
            self.cluster.network.impose(isolate(flapping.node.number, nodes))
            self._check_leaders_stay(leaders, random.uniform(0.1, 2 * self.options.election_s))
            self.cluster.network.heal()
            self._check_leaders_stay(leaders, random.uniform(0.1, 2.0))

    def _check_leaders_stay(self, leaders: list[tuple[Machine, Term]], seconds: float) -> None:
        """Run for `seconds` of virtual time. Raises `PropertyBroken` if a leader changes."""
        end_ns = self.loop.now_ns + int(seconds * SECOND_NS)
        while self.loop.now_ns < end_ns:
            self.loop.run_for(LOOK_S)
            for plan, before in zip(self.cluster.groups, leaders, strict=True):
                newest = max(plan.properties.leaders)
                if newest != before[1]:
                    numbers = {"group": plan.partition, "leader": before[0].name, "term": before[1], "now": newest}
                    raise PropertyBroken("leader-unseated", numbers)

    # crash of the leader of a quiesced group

    def _run_quiesced(self, random: Random) -> None:
        """Crash or isolate a quiesced group's leader, and check that another one is elected within the bound."""
        self._wait_leaders()
        self.loop.run_for(2.0)
        self.workload.stop()
        self._wait_quiescence()
        self.loop.run_for(random.uniform(0.0, 3.0))
        leaders = [self._leader_of(plan) for plan in self.cluster.groups]
        victim = random.choice(leaders)[0]
        if random.random() < 0.5:
            victim.crash()
            self.nemesis.faults.down_until_ns[victim.node_id] = 1 << 62
        else:
            nodes = [machine.node.number for machine in self.cluster.machines.values()]
            self.cluster.network.impose(isolate(victim.node.number, nodes))
        bound_s = self._election_bound_s()
        self.loop.run_for(bound_s)
        for plan, before in zip(self.cluster.groups, leaders, strict=True):
            if before[0] is victim and max(plan.properties.leaders) <= before[1]:
                numbers = {"group": plan.partition, "leader": victim.name, "term": before[1], "bound_s": bound_s}
                raise PropertyBroken("sleeping-group-without-leader", numbers)
        self.workload.resume()

    def _election_bound_s(self) -> float:
        """Return the bound of an election, in seconds.

        It covers noticing the leader's silence, the timers, and some failed elections."""
        silence_s = self.options.election_ticks_min * self.options.tick_ms / 1000
        return silence_s + ROUNDS * (self.options.election_s + 0.5)

    def _wait_quiescence(self) -> None:
        """Wait until all replicas are quiesced. Raises `PropertyBroken` after `ELECTION_S`."""
        deadline_ns = self.loop.now_ns + int(ELECTION_S * SECOND_NS)
        while not all(
            group.core.is_quiesced for plan in self.cluster.groups for _, group in self.cluster.replicas(plan)
        ):
            if self.loop.now_ns >= deadline_ns:
                raise PropertyBroken("never-asleep", {"bound_s": ELECTION_S})
            self.loop.run_for(LOOK_S)

    # leaders

    def _wait_leaders(self) -> None:
        """Wait until every Raft group has a working leader. Raises `PropertyBroken` after `ELECTION_S`."""
        deadline_ns = self.loop.now_ns + int(ELECTION_S * SECOND_NS)
        while not all(self._has_working_leader(plan) for plan in self.cluster.groups):
            if self.loop.now_ns >= deadline_ns:
                raise PropertyBroken("no-leader", {"bound_s": ELECTION_S})
            self.loop.run_for(LOOK_S)
        self.loop.run_for(1.0)

    def _has_working_leader(self, plan: GroupPlan) -> bool:
        """Return whether the group has a leader that has committed an entry of its own term."""
        found = self.cluster.leader(plan)
        return found is not None and found[1].core.has_own_term_commit

    def _leader_of(self, plan: GroupPlan) -> tuple[Machine, Term]:
        """Return the leader's machine and its term. Raises `PropertyBroken` without a leader."""
        found = self.cluster.leader(plan)
        if found is None:
            raise PropertyBroken("no-leader", {"group": plan.partition, "healthy_for_s": ELECTION_S})
        return found[0], found[1].core.term
