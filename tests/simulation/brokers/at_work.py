"""Cluster of brokers under load, without faults of its own, for tests that inject one."""

from dataclasses import replace
from typing import Any

from jepsen.simulation.brokers.cluster import BrokerCluster, Machine
from jepsen.simulation.brokers.convergence import Convergence
from jepsen.simulation.brokers.elasticity import NONE
from jepsen.simulation.brokers.nemesis import Nemesis
from jepsen.simulation.brokers.options import BrokerOptions, draw
from jepsen.simulation.brokers.workload.workload import Workload
from jepsen.simulation.network.links import MILLISECOND_NS, LinkConditions
from jepsen.simulation.options import Fault
from raftlog.types import NodeId


def calm_options() -> BrokerOptions:
    """Return options of three brokers and one topic with short segments and many writes, without faults."""
    return replace(
        draw(1),
        seeds=3,
        joiners=0,
        rough_start=0.0,
        topics=1,
        partitions_max=1,
        topic_life_s=1e6,
        factors=(3,),
        link=LinkConditions(),
        disk_delays_ns=(2 * MILLISECOND_NS,) * 5,
        drift_ppm=0,
        segment_bytes=4096,
        retention_bytes=12 * 1024,
        scrub_s=5.0,
        quiesce_after_ticks=0,
        producers=1,
        readers=1,
        committers=1,
        pause_ms=150,
        value_bytes=900,
        answer_loss=0.0,
        faults=(),
        elasticity=NONE,
        gossip=None,
    )


class World:
    """Cluster that has served its workload for a while."""

    def __init__(self, **changes: Any) -> None:
        self.cluster = BrokerCluster(replace(calm_options(), **changes))
        self.workload = Workload(self.cluster)
        self.nemesis = Nemesis(self.cluster, self.cluster.random("nemesis"))
        self.cluster.start()
        self.nemesis.start()
        self.workload.start()
        self.cluster.loop.run_for(8)

    def timeline(self) -> str:
        return self.cluster.loop.trace.timeline()

    def inject(self, fault: Fault, times: int) -> str:
        """Inject the fault `times` times; return the added lines of the timeline."""
        before = self.timeline()
        for _ in range(times):
            self.nemesis.faults.inject(fault)
            self.cluster.loop.run_for(2)
        return self.timeline().removeprefix(before)

    def converge(self) -> None:
        Convergence(self.cluster, self.workload, self.nemesis).check()

    def machine(self, number: int) -> Machine:
        return self.cluster.machines[NodeId(number)]
