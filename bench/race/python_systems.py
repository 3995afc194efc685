"""Systems of the race with the load generators of this project: raftlog over HTTP, and pysyncobj."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from bench.child import run_in_child
from bench.measure import require
from bench.peers import run_syncobj
from bench.race.kafka_protocol import OFFERED_PER_S, OFFERED_S, SECONDS
from bench.race.kafka_systems import raftlog_cluster, raftlog_pids
from bench.race.system import RunningSystem, System, Values
from raftlog.loadgen import LoadMode, LoadPlan, Mix
from raftlog.loadgen.session import run_session

_CONNECTIONS: Final = 64
_WARM_S: Final = 3.0


def run_closed(bootstrap: list[str]) -> Values:
    """Send records one after another on each of 64 connections."""
    mix = Mix.parse("send")
    plan = LoadPlan(mode=LoadMode.CLOSED, seconds=SECONDS, mix=mix, clients=1, in_flight=_CONNECTIONS)
    return _run(plan, bootstrap)


def run_offered(bootstrap: list[str]) -> Values:
    """Send 1,000 records a second, each at its due time."""
    mix = Mix.parse("send")
    return _run(LoadPlan(mode=LoadMode.OPEN, seconds=OFFERED_S, mix=mix, clients=4, rate=OFFERED_PER_S), bootstrap)


def _run(plan: LoadPlan, bootstrap: list[str]) -> Values:
    result = run_session(plan, bootstrap, None, 1, 3, warm_s=_WARM_S)
    require(result.succeeded == result.offered, f"raftlog over HTTP: {dict(result.reasons)}")
    return {"per_s": result.operations_per_s, **result.latencies().as_json()}


@contextmanager
def start_raftlog_http(directory: Path, *, python: str) -> Iterator[RunningSystem]:
    """Start three raftlog brokers with their defaults, loaded over HTTP."""
    with raftlog_cluster(directory, python) as cluster:
        measures = {
            "closed": lambda: run_in_child(run_closed, bootstrap=cluster.addresses),
            "offered": lambda: run_in_child(run_offered, bootstrap=cluster.addresses),
        }
        yield RunningSystem(partial(raftlog_pids, cluster), measures)


@contextmanager
def start_syncobj(directory: Path) -> Iterator[RunningSystem]:
    """Prepare pysyncobj, whose three processes start anew for each run, since only its members can be clients."""
    runs = iter(range(1_000))

    def run_once() -> Values:
        place = directory / str(next(runs))
        place.mkdir()
        return run_syncobj(place, batching="batched")

    yield RunningSystem(list, {"closed": run_once})


def systems(python: str) -> tuple[System, ...]:
    """Return raftlog over HTTP and pysyncobj as systems of the race."""
    return (
        System("raftlog-http", "raftlog, HTTP", "synced on a majority", partial(start_raftlog_http, python=python)),
        System("pysyncobj", "pysyncobj", "applied by the leader, not synced; the client inside it", start_syncobj),
    )
