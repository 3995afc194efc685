"""Run of one seed: build the cluster, inject faults, check the recovery, and report the outcome.

The same seed gives the same run, and the same digest, in every process. Nothing here is printed; `report` does that.
"""

import gc
import time
from dataclasses import replace

from jepsen.simulation.cluster import Cluster
from jepsen.simulation.convergence import Convergence
from jepsen.simulation.nemesis.nemesis import Nemesis
from jepsen.simulation.options import Options, Scenario, draw
from jepsen.simulation.outcome import Failure, Outcome, failure_of, log_to_timeline, shape_of
from jepsen.simulation.scenarios import Script
from jepsen.simulation.verdicts import PropertyBroken, reraise_recorded
from jepsen.simulation.workload import Workload


def simulate(
    seed: int, options: Options | None = None, *, unordered_syncs: bool = False, cut_ambushes: bool = False
) -> Outcome:
    """Run a seed to its end or to the first broken property; the last two arguments switch on further faults."""
    began = time.process_time()
    options = options or draw(seed)
    if unordered_syncs:
        options = replace(options, unordered_syncs=True)
    if cut_ambushes and options.scenario is Scenario.EVERYTHING:
        options = options.with_cut_ambushes()
    gc.disable()  # a run is short, and what it leaves behind is collected at once
    cluster = Cluster(options)
    workload = Workload(cluster)
    failure: Failure | None = None
    PropertyBroken.raised.clear()
    cluster.loop.after_step = reraise_recorded
    try:
        with log_to_timeline(cluster.loop):
            nemesis = Nemesis(cluster, cluster.random("nemesis"))
            cluster.start()
            nemesis.start()
            workload.start()
            Script(cluster, workload, nemesis).run()
            Convergence(cluster, workload, nemesis).check()
    except Exception as error:  # noqa: BLE001 - whatever ends a run is its outcome
        failure = failure_of(cluster.loop, error)
    trace = cluster.loop.trace
    outcome = Outcome(
        seed,
        failure,
        str(options),
        trace.digest(),
        cluster.loop.now_ns / 1e9,
        0.0,
        trace.steps,
        workload.acknowledged(),
        shape=shape_of(unordered_syncs=options.unordered_syncs, cut_ambushes=options.cut_ambushes),
    )
    cluster.close()
    del cluster, workload
    gc.enable()
    gc.collect()
    return outcome._replace(cpu_s=time.process_time() - began)
