"""One seed: build the cluster, let things befall it, demand that all comes right, and say how it went.

The same seed gives the same run, and the same digest, in every process. Nothing here is printed; `report` does that.
"""

import gc
import logging
import time
import traceback
from typing import NamedTuple

from jepsen.simulation.cluster import Cluster
from jepsen.simulation.convergence import Convergence
from jepsen.simulation.nemesis import Nemesis
from jepsen.simulation.options import Options, draw
from jepsen.simulation.scenarios import Script
from jepsen.simulation.verdicts import PropertyBroken
from jepsen.simulation.workload import Workload

TIMELINE_LINES = 60


class LogToTimeline(logging.Handler):
    """What the product logs belongs to the timeline of its run."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(logging.WARNING)
        self._loop = cluster.loop

    def emit(self, record: logging.LogRecord) -> None:
        process = self._loop.process
        self._loop.note("log" if process is None else process.node.name, record.getMessage())


class Failure(NamedTuple):
    """What was broken. `name` is a property, or the kind of an error that code under test raised."""

    name: str
    what: str
    is_property: bool
    """Seen from outside, and not an error or an assertion of the code under test."""
    timeline: str


class Outcome(NamedTuple):
    """One run."""

    seed: int
    failure: Failure | None
    options: str
    digest: str
    virtual_s: float
    cpu_s: float
    steps: int
    acknowledged: int


def simulate(seed: int, options: Options | None = None) -> Outcome:
    """Run a seed to its end or to the first broken property."""
    began = time.process_time()
    options = options or draw(seed)
    gc.disable()  # a run is short, and what it leaves behind is collected at once
    cluster = Cluster(options)
    workload = Workload(cluster)
    failure: Failure | None = None
    log, handler = logging.getLogger("raftlog"), LogToTimeline(cluster)
    log.addHandler(handler)
    log.propagate = False
    try:
        nemesis = Nemesis(cluster, cluster.random("nemesis"))
        cluster.start()
        nemesis.start()
        workload.start()
        Script(cluster, workload, nemesis).run()
        Convergence(cluster, workload, nemesis).demand()
    except Exception as error:  # noqa: BLE001 - whatever ends a run is its outcome
        failure = _failure(cluster, error)
    finally:
        log.removeHandler(handler)
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
    )
    cluster.close()
    del cluster, workload
    gc.enable()
    gc.collect()
    return outcome._replace(cpu_s=time.process_time() - began)


def _failure(cluster: Cluster, error: Exception) -> Failure:
    timeline = cluster.loop.trace.timeline(TIMELINE_LINES)
    if isinstance(error, PropertyBroken):
        return Failure(error.name, str(error), True, timeline)
    text = "".join(traceback.format_exception(error))
    return Failure(type(error).__name__, text, False, timeline)
