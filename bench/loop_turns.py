"""Measure of the longest turns of the brokers' event loops under load, with segment rolls and checkpoints."""

import struct
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from bench.child import run_in_child
from bench.cluster_http import NODES, OFFERED_PER_S, TOPIC, cluster_of_three, cpu_of, create_topic, port_of
from bench.measure import Figure, Measure, NotMeasured, Values, Workspace, require
from bench.open_loop import offer
from jepsen.disk.shim_library import CannotBeBuilt, build
from raftlog.testing import Cluster

SECONDS = 200.0
"""Length of each run; three of them are ten minutes."""
SEGMENT_BYTES = 1 << 20
_EVENTS_MIN = 4
"""Smallest number of rolls, and of checkpoints, of each broker in a run: more than ten in three runs."""
_TURNS_PER_S_MIN = 100
_ANSWER_S_MAX = 10.0
_HELD_FROM_S = 0.005
_Samples = Mapping[str, float]
_CPU_LIBRARY = Path(__file__).parent / "turn_cpu.c"
_CPU = struct.Struct("=QQQ")
"""Turns, turns of more than 5 ms of CPU, and the longest in ns: the content of a file of the library."""


def _scrape(cluster: Cluster, node: int) -> dict[str, float]:
    """Return the broker's metrics, by name and step."""
    with urllib.request.urlopen(f"http://{cluster.nodes[node].http}/metrics", timeout=_ANSWER_S_MAX) as answer:
        text = answer.read().decode()
    return {
        f"{sample.name} {sample.labels.get('step', '')}".rstrip(): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def _longest_s(before: _Samples, after: _Samples) -> tuple[float, str]:
    """Return the longest step during the load, and its name; the smallest counted duration if none was longer.

    Only steps count whose number of holds rose during the load; their longest hold may be from before it."""
    longest = (_HELD_FROM_S, "none")
    for name, count in after.items():
        metric, _, step = name.partition(" ")
        if metric == "raftlog_loop_holds_total" and count > before.get(name, 0):
            longest = max(longest, (after[f"raftlog_loop_hold_longest_seconds {step}"], step))
    return longest


def run(workspace: Workspace) -> Values:
    try:
        library = build("turn-cpu", [_CPU_LIBRARY])
    except CannotBeBuilt as error:
        raise NotMeasured(str(error)) from error
    with workspace.directory() as turns, workspace.directory() as directory:
        variables = {"LD_PRELOAD": str(library), "TURN_CPU": str(turns)}
        with cluster_of_three(directory, lambda _: variables) as cluster:
            return _measure(cluster, directory, [turns / f"{node.pid}" for node in cluster.nodes.values()])


def _measure(cluster: Cluster, directory: Path, turns: list[Path]) -> Values:
    """Offer the load; return its latencies and the longest turns, by the brokers' metrics and the library's files."""
    create_topic(cluster, config={"segment.bytes": str(SEGMENT_BYTES)})
    port = port_of(cluster, cluster.leader(TOPIC))
    before = {node: _scrape(cluster, node) for node in cluster.nodes}
    cpu_before = cpu_of(cluster)
    for file in turns:
        with file.open("r+b") as opened:
            opened.write(bytes(_CPU.size))
    done = run_in_child(offer, ports=[port], topic=TOPIC, per_s=OFFERED_PER_S, seconds=SECONDS)
    cpu_s = cpu_of(cluster) - cpu_before
    found = [_CPU.unpack(file.read_bytes()) for file in turns]
    after = {node: _scrape(cluster, node) for node in cluster.nodes}
    rolls = min(len(list((directory / f"{node}" / TOPIC / "0").glob("*.log"))) - 1 for node in cluster.nodes)
    key = "raftlog_checkpoints_total"
    checkpoints = min(after[node][key] - before[node][key] for node in after)
    require(rolls >= _EVENTS_MIN, f"a broker made {rolls} rolls")
    require(checkpoints >= _EVENTS_MIN, f"a broker made {checkpoints:g} checkpoints")
    require(min(count for count, _, _ in found) >= _TURNS_PER_S_MIN * SECONDS, f"turns were not counted: {found}")
    longest = {node: _longest_s(before[node], after[node]) for node in after}
    held_s, step = max(longest.values())
    return {
        "longest_cpu_ms": max(longest_ns for _, _, longest_ns in found) / 1e6,
        "turns_over_5_ms": sum(over for _, over, _ in found),
        "turns": sum(count for count, _, _ in found),
        "longest_ms": held_s * 1000,
        "step": step,
        "succeeded_percent": done["succeeded"] / done["offered"] * 100,
        "p50_ms": done["p50_ms"],
        "p99_ms": done["p99_ms"],
        "max_ms": done["max_ms"],
        "cpu_ms": cpu_s / done["succeeded"] * 1000,
        "rolls": rolls,
        "checkpoints": checkpoints,
        "brokers": NODES,
    }


MEASURES = (
    Measure(
        "loop-turns",
        f"three brokers over HTTP: longest turn of an event loop, {OFFERED_PER_S:,} operations/s for {SECONDS:g} s",
        f"The load of `cluster-offered` for {SECONDS:g} s in each run, with segments of {SEGMENT_BYTES >> 20} MiB, so "
        f"that every broker rolls its segment and makes a checkpoint at least {_EVENTS_MIN} times (counted). A "
        "preloaded library measures the CPU time of each turn, from the end of one wait for events to the next. "
        "A step of the loop counts with its wall time less the time for which its thread waited for a core "
        "(`raftlog_loop_hold_longest_seconds`); steps up to 5 ms are not counted, and then the figure is 5 ms.",
        (
            Figure("longest_cpu_ms", "longest turn, CPU time", "ms", at_most=5),
            Figure("turns_over_5_ms", "… turns of more than 5 ms of CPU", ""),
            Figure("longest_ms", "longest step, waiting for a core left out", "ms", at_most=20),
            Figure("p50_ms", "… p50", "ms"),
            Figure("p99_ms", "… p99", "ms"),
            Figure("max_ms", "… longest", "ms"),
            Figure("cpu_ms", "… CPU of all three brokers", "ms/operation"),
        ),
        run,
    ),
)
