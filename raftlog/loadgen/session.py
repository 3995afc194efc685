"""Complete session against a cluster: prepare, warm up, run, and read the brokers' counters."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from raftlog.errors import Unavailable
from raftlog.loadgen.broker_traffic import BrokerTraffic, scrape
from raftlog.loadgen.plan import LoadPlan
from raftlog.loadgen.preparing import LoadTarget, prepare
from raftlog.loadgen.result import Result
from raftlog.loadgen.run import LoadProgress, LoadRun
from raftlog.loadgen.sockets import SocketWire
from raftlog.loadgen.work import Work

WARM_S = 1.0
_GRACE_S = 1.0
"""Time that an answer may take beyond the broker's own deadline."""


def run_session(
    plan: LoadPlan,
    bootstrap: Sequence[str],
    topic: str | None,
    partitions: int,
    replication_factor: int | None,
    *,
    warm_s: float = WARM_S,
    on_progress: Callable[[LoadProgress], None] = lambda _: None,
) -> Result:
    """Run a load on an existing or a temporary topic and return the result. Blocking. Raises the errors of `prepare`.

    The load of `warm_s` seconds before the run is not part of the result: it creates consumer groups, opens connections
    and finds leaders."""
    with prepare(bootstrap, topic, partitions, replication_factor) as place:
        return run_on_target(plan, place, warm_s, on_progress)


def run_on_target(
    plan: LoadPlan, place: LoadTarget, warm_s: float, on_progress: Callable[[LoadProgress], None]
) -> Result:
    """Warm up, then run a plan against a prepared target; return the result with the traffic between brokers."""
    work = Work(plan, place)
    with SocketWire(plan.timeout_ms / 1000 + _GRACE_S, place.tls) as wire:
        if warm_s > 0:
            LoadRun(replace(plan, seconds=warm_s), wire, work).run()
        before = _read_counters(place)
        cpu_before = time.process_time()
        result = LoadRun(plan, wire, work, on_progress=on_progress).run()
        result.client_cores = (time.process_time() - cpu_before) / result.seconds
        after = _read_counters(place)
    if before is not None and after is not None:
        between = after.subtract(before)
        if all(count >= 0 for count in between.by_kind.values()):  # a restarted broker counts from 0
            result.between = between
    return result


def _read_counters(place: LoadTarget) -> BrokerTraffic | None:
    """Return the totals of the brokers' counters; None if a broker does not answer, since its part is unknown."""
    try:
        return scrape(place.addresses, place.tls, place.headers)
    except Unavailable:
        return None
