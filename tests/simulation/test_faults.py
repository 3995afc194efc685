"""Every kind of fault has its documented effect on a running cluster, and the cluster recovers."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from jepsen.simulation.cluster import Cluster
from jepsen.simulation.convergence import Convergence
from jepsen.simulation.nemesis.fault_budget import FaultBudget
from jepsen.simulation.nemesis.nemesis import Nemesis
from jepsen.simulation.options import DRIVER_FAULTS, Fault, Options, Scenario, draw
from jepsen.simulation.workload import Workload
from raftlog.raft import Configuration
from raftlog.types import Index, NodeId

SHOWN = {
    Fault.CRASH: "crashes",
    Fault.POWER: "its power is lost",
    Fault.PAUSE: "is paused",
    Fault.CLOCK: "wall clock jumps",
    Fault.HALVES: "is cut off",
    Fault.RING: "is cut off",
    Fault.BRIDGE: "is cut off",
    Fault.ISOLATED: "is cut off",
    Fault.ONE_WAY: "is cut off",
    Fault.LOSSY: "loss=",
    Fault.RESET: "are reset",
    Fault.SLOW_DISK: "its disk gets slow",
    Fault.FAILED_SYNC: "a sync failed",
    Fault.FULL_DISK: "its disk is nearly full",
    Fault.DAMAGE: "at position",
    Fault.JOURNAL: "its journal is damaged",
    Fault.WIPE: "its disk is wiped",
    Fault.MEMBERS: "shall have nodes",
    Fault.TRANSFER: "hands over to",
    Fault.TRIM: "",
    Fault.ROLLING: "crashes",
    Fault.AMBUSH: "an ambush",
}


def options() -> Options:
    seed = next(seed for seed in range(100) if draw(seed).scenario is Scenario.EVERYTHING)
    calm = replace(draw(seed), faults=(), groups=1, nodes=3, spares=1, streams=True, pause_ms=200)
    return replace(calm, segment_bytes=4096, quiesce_after_ticks=0, checkpoint_interval_ms=700)


class World:
    """Cluster that has served its workload for a while."""

    def __init__(self) -> None:
        self.cluster = Cluster(options())
        self.workload = Workload(self.cluster)
        self.nemesis = Nemesis(self.cluster, self.cluster.random("nemesis"))
        self.cluster.start()
        self.nemesis.start()
        self.workload.start()
        self.cluster.loop.run_for(5)

    def timeline(self) -> str:
        return self.cluster.loop.trace.timeline()


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.cluster.close()


@pytest.mark.parametrize("fault", DRIVER_FAULTS, ids=lambda fault: fault.name)
def test_each_fault_has_its_effect_and_the_cluster_recovers(world: World, fault: Fault) -> None:
    before = world.timeline()
    for _ in range(6):  # a target that is down, or has no file yet, is passed by
        world.nemesis.faults.inject(fault)
        if fault is Fault.AMBUSH:  # nothing happens to lie in wait for in a cluster that is well
            world.nemesis.faults.inject(Fault.TRANSFER)
        world.cluster.loop.run_for(1)
    assert SHOWN[fault] in world.timeline().removeprefix(before)
    Convergence(world.cluster, world.workload, world.nemesis).check()


def test_trims_move_the_log_start(world: World) -> None:
    plan = world.cluster.groups[0]
    world.cluster.loop.run_for(10)
    world.nemesis.faults.inject(Fault.TRIM)
    world.cluster.loop.run_for(1)
    starts = [group.log_start_offset for _, group in world.cluster.replicas(plan)]
    assert max(starts) > 0
    assert max(starts) <= min(plan.readers_at.values())


def test_a_lost_disk_is_replaced_by_a_new_member(world: World) -> None:
    machine = world.cluster.machines[NodeId(2)]
    old = machine.me
    machine.crash()
    machine.wipe()
    assert machine.me.node_id == old.node_id
    assert machine.me != old
    world.cluster.loop.run_for(10)
    found = world.cluster.leader(world.cluster.groups[0])
    assert found is not None
    voters = found[1].core.configuration.voters
    assert machine.me in voters
    assert old not in voters


def test_faults_stay_within_a_minority(world: World) -> None:
    fault_budget, plan = FaultBudget(world.cluster), world.cluster.groups[0]
    machines = list(world.cluster.machines.values())
    harmed = []
    for machine in machines[:3]:
        if fault_budget.may_damage(machine):
            fault_budget.losing_identity[machine.me] = machine
            machine.driver = None
            harmed.append(machine)
    assert harmed == machines[:1]
    sound = Configuration(Index(9), tuple(machine.me for machine in machines))
    assert fault_budget.allows(plan, sound)
    assert not fault_budget.allows(plan, sound._replace(voters=sound.voters[:2]))
