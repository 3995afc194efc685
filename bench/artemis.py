"""Measure of Maelstrom's `kafka` workload on three brokers over HTTP, in the columns of Artemis's table.

Four clients send, poll, commit and list, each equally often. There are four rows: 1,000 operations a second are
offered, or as many as the cluster accepts; and clients use the leading brokers (smart), or all brokers in turn (any
node). `bench.artemis_table` runs rows of it once."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bench.child import run_in_child
from bench.cluster_http import cluster_of_three, cpu_of
from bench.measure import Figure, Measure, MeasureFailed, Values, Workspace
from raftlog.loadgen import LoadMode, LoadPlan, Mix, Targeting
from raftlog.loadgen.session import WARM_S, run_session

CLIENTS: Final = 4
RATE: Final = 1_000.0
SECONDS: Final = 20.0
SATURATED_S: Final = 10.0
MIX: Final = "send=1,poll=1,commit=1,list=1"
PARTITIONS: Final = 1
IN_FLIGHT: Final = 16
SATURATED_IN_FLIGHT: Final = 64
ROWS: Final = {
    "smart": (LoadMode.OPEN, Targeting.SMART),
    "any": (LoadMode.OPEN, Targeting.ANY),
    "smart_saturated": (LoadMode.CLOSED, Targeting.SMART),
    "any_saturated": (LoadMode.CLOSED, Targeting.ANY),
}
_NODES: Final = 3


def measure_row(row: str, bootstrap: list[str], seconds: float, rate: float, mix: str) -> dict[str, Any]:
    """Return the result of one row on a running cluster; in a child process."""
    mode, targeting = ROWS[row]
    plan = LoadPlan(
        mode=mode,
        targeting=targeting,
        seconds=seconds,
        mix=Mix.parse(mix),
        rate=rate,
        clients=CLIENTS,
        in_flight=IN_FLIGHT if mode is LoadMode.OPEN else SATURATED_IN_FLIGHT,
    )
    return run_session(plan, bootstrap, None, PARTITIONS, _NODES).as_json()


def measure_rows(directory: Path, rows: Mapping[str, float], rate: float, mix: str) -> dict[str, dict[str, Any]]:
    """Return the results of these rows, on one new cluster. `rows` gives the seconds of each."""
    found = {}
    with cluster_of_three(directory) as cluster:
        for row, seconds in rows.items():
            before = cpu_of(cluster)
            result = run_in_child(
                measure_row, row=row, bootstrap=cluster.addresses, seconds=seconds, rate=rate, mix=mix
            )
            # The CPU time includes the warm-up, which is subtracted by its share of the time.
            share = seconds / (seconds + WARM_S)
            result["brokers_cpu_us"] = round((cpu_of(cluster) - before) * share / max(1, result["succeeded"]) * 1e6, 1)
            found[row] = result
    return found


def run(workspace: Workspace) -> Values:
    """Run each row's load, and return its figures, named by row. Raises `MeasureFailed` if nothing succeeded."""
    values: dict[str, float | str] = {}
    with workspace.directory() as directory:
        found = measure_rows(
            directory,
            {row: SECONDS if mode is LoadMode.OPEN else SATURATED_S for row, (mode, _) in ROWS.items()},
            RATE,
            MIX,
        )
    for row, result in found.items():
        if not result["succeeded"]:
            raise MeasureFailed(f"{row}: nothing succeeded: {result['reasons']}")
        values |= {
            f"{row}_messages": result["between_brokers"]["messages_per_operation"],
            f"{row}_availability": result["availability_percent"],
            f"{row}_per_s": result["operations_per_s"],
            f"{row}_cpu_us": result["brokers_cpu_us"],
            **{f"{row}_{name}": result["latency_ms"][name] for name in ("p50", "p95", "p99", "max")},
            f"{row}_kinds": json.dumps(result["between_brokers"]["by_kind_per_operation"]),
        }
    return values


def _figures(row: str, title: str, messages_max: float | None, *, is_offered: bool) -> tuple[Figure, ...]:
    """Return the figures of a row.

    With an offered rate (`is_offered`), availability and latencies have required values."""
    bounds = {"p50": 1.5, "p95": 3.0, "p99": 5.0, "max": 50.0} if is_offered else {}
    return (
        Figure(f"{row}_messages", f"{title}: messages between brokers", "/operation", at_most=messages_max),
        Figure(f"{row}_availability", "… availability", "%", at_least=100 if is_offered else None),
        *(
            Figure(f"{row}_{name}", f"… {name}", "ms", at_most=bounds.get(name))
            for name in ("p50", "p95", "p99", "max")
        ),
        Figure(f"{row}_per_s", "… operations", "/s"),
        Figure(f"{row}_cpu_us", "… CPU of all three brokers", "µs/operation"),
    )


MEASURES = (
    Measure(
        "artemis",
        f"three brokers over HTTP: send, poll, commit, list, {RATE:,.0f} operations/s for {SECONDS:g} s, and saturated",
        f"`raftlog serve` three times on loopback and one disk; a topic with one partition and three replicas; "
        f"{CLIENTS} clients, each with a group of its own, in one process of one thread; the mix {MIX}. Offered: an "
        "open loop, latencies from the moment at which an operation was due. Saturated: a closed loop, "
        f"{SATURATED_IN_FLIGHT} operations in flight for each client, {SATURATED_S:g} s. Smart clients ask the leader, "
        "the others each broker in turn. Messages are logical ones between brokers, from their counters, whatever they "
        "are for; a second of the same load goes before each row. Every operation counts once; nothing is retried.",
        (
            *_figures("smart", "smart client", 3.5, is_offered=True),
            *_figures("any", "any node", 5.0, is_offered=True),
            *_figures("smart_saturated", "saturated, smart client", 1.0, is_offered=False),
            *_figures("any_saturated", "saturated, any node", None, is_offered=False),
        ),
        run,
    ),
)
