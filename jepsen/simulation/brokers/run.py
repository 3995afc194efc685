"""One seed of whole brokers, or of their founding: let things befall them, demand that all comes right."""

import gc
import time
from collections.abc import Callable
from typing import Any

from jepsen.simulation.brokers import founding
from jepsen.simulation.brokers.cluster import BrokerCluster
from jepsen.simulation.brokers.convergence import Convergence
from jepsen.simulation.brokers.nemesis import Nemesis
from jepsen.simulation.brokers.options import BrokerOptions, draw, draw_keeping, draw_sharing
from jepsen.simulation.brokers.site import Site
from jepsen.simulation.brokers.workload import Workload
from jepsen.simulation.outcome import Failure, Outcome, failure_of, logging_to_timeline
from jepsen.simulation.verdicts import PropertyBroken, insist


def simulate_brokers(seed: int, options: BrokerOptions | None = None, level: str = "broker") -> Outcome:
    """Run a seed to its end or to the first broken property."""
    options = options or draw(seed)
    cluster = BrokerCluster(options)
    workload = Workload(cluster)

    def run() -> None:
        nemesis = Nemesis(cluster, cluster.random("nemesis"))
        cluster.start()
        nemesis.start()
        workload.start()
        cluster.loop.run_until_time(options.safety_s)
        Convergence(cluster, workload, nemesis).demand()

    return _simulate(level, cluster, str(options), run, seed, workload.acknowledged)


def simulate_sharing(seed: int) -> Outcome:
    """The same with a view to groups with members."""
    return simulate_brokers(seed, draw_sharing(seed), "groups")


def simulate_keeping(seed: int) -> Outcome:
    """The same with a view to what is kept: idempotent producers, compaction, deletion of records."""
    return simulate_brokers(seed, draw_keeping(seed), "records")


def simulate_founding(seed: int, options: founding.FoundingOptions | None = None) -> Outcome:
    """The same for the founding of a cluster."""
    options = options or founding.draw(seed)
    site = founding.Founding(options)
    return _simulate("founding", site, str(options), site.run, seed, lambda: len(site.taken))


def _simulate(
    level: str, site: Site[Any], options: str, run: Callable[[], None], seed: int, acknowledged: Callable[[], int]
) -> Outcome:
    began = time.process_time()
    gc.disable()  # a run is short, and what it leaves behind is collected at once
    failure: Failure | None = None
    PropertyBroken.said.clear()
    site.loop.after_step = insist
    try:
        with logging_to_timeline(site.loop):
            run()
    except Exception as error:  # noqa: BLE001 - whatever ends a run is its outcome
        failure = failure_of(site.loop, error)
    trace = site.loop.trace
    digest, steps, virtual_s = trace.digest(), trace.steps, site.loop.now_ns / 1e9
    site.close()
    gc.enable()
    gc.collect()
    cpu_s = time.process_time() - began
    return Outcome(seed, failure, options, digest, virtual_s, cpu_s, steps, acknowledged(), level)
