"""Measure of a fourth broker that joins a cluster, and a decommission, while clients write.

One load runs during the whole measure, beginning before the join. Its clients do not retry, so every write that fails
because of a move counts. Brokers, clients and the measure share the machine.
"""

import asyncio
import json
import subprocess
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from bench.child import command_for
from bench.cluster_http import TOPIC, cluster_of_three, create_topic, port_of
from bench.measure import Figure, Measure, Values, Workspace, require
from bench.read_back import require_read_back
from bench.samples import VALUE_BYTES, percentile
from raftlog.client import BrokerClient
from raftlog.loadgen import LoadMode, LoadPlan, LoadRun, LoadTarget, Mix, SocketWire, Targeting, Work
from raftlog.testing import Cluster
from raftlog.testing.http import ask

PARTITIONS: Final = 100
OFFERED_PER_S: Final = 500
QUIET_S: Final = 10.0
_WARM_S: Final = 2.0
_SECONDS_MAX: Final = 150.0
_CONNECTIONS: Final = 64
_ANSWER_S_MAX: Final = 11.0
_EVEN: Final = 0.1
"""Maximum distance of a broker's share of leaders from the mean, as a part of the mean."""
_POLL_S: Final = 0.1
_ASK_S_MAX: Final = 5.0


def offer_until(addresses: list[str], topic: str, partitions: int, end_file: str) -> dict[str, Any]:
    """Offer single records to the leaders of all partitions until `end_file` exists; in a child process."""
    plan = LoadPlan(
        mode=LoadMode.OPEN,
        targeting=Targeting.SMART,
        mix=Mix.parse("send"),
        rate=OFFERED_PER_S,
        seconds=_SECONDS_MAX,
        clients=1,
        in_flight=_CONNECTIONS,
        value_bytes=VALUE_BYTES,
    )
    place = LoadTarget(addresses, topic, {}, dict.fromkeys(range(partitions), 0))
    samples: list[tuple[float, float]] = []
    end = Path(end_file)
    with SocketWire(_ANSWER_S_MAX) as wire:
        load = LoadRun(
            plan,
            wire,
            Work(plan, place),
            on_progress=lambda progress: load.end() if end.exists() else None,
            on_success=lambda due, at: samples.append((due, at - due)),
        )
        result = load.run()
    return {
        "samples": samples,
        "offered": result.offered,
        "sent": result.ended,
        "succeeded": result.succeeded,
        "gap_s": result.longest_gap_s,
        "reasons": dict(result.reasons),
    }


class _Load:
    """Load in a child process, from the beginning of a block to its end."""

    def __init__(self, cluster: Cluster, nodes: list[int], directory: Path) -> None:
        self._end_file = directory / "end"
        arguments = {
            "addresses": [cluster.nodes[node].http for node in nodes],
            "topic": TOPIC,
            "partitions": PARTITIONS,
            "end_file": str(self._end_file),
        }
        self._child = subprocess.Popen(
            command_for(offer_until), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._pool = ThreadPoolExecutor(1)
        self._output: Future[tuple[str, str]] = self._pool.submit(self._child.communicate, json.dumps(arguments))

    def end(self) -> dict[str, Any]:
        """End the load and return its result."""
        self._end_file.touch()
        printed, errors = self._output.result(timeout=2 * _ANSWER_S_MAX)
        require(self._child.returncode == 0, f"the load ended with {self._child.returncode}: {errors[-500:]}")
        return dict(json.loads(printed.splitlines()[-1]))

    def __enter__(self) -> "_Load":
        return self

    def __exit__(self, *_: object) -> None:
        if self._child.poll() is None:
            self._child.kill()
        self._pool.shutdown()


class _Placement:
    """Placement of the topic's replicas and leaders, as a broker describes it."""

    def __init__(self, cluster: Cluster, node: int) -> None:
        async def describe() -> Any:
            async with BrokerClient([cluster.nodes[node].http]) as client:
                return await client.describe_topic(TOPIC)

        rows = asyncio.run(describe()).replicas
        self.led = Counter(row.leader for row in rows)
        self.replicas = Counter(replica for row in rows for replica in row.replicas)

    def unevenness(self, nodes: set[int]) -> float:
        """Return the largest deviation from the mean number of leaders, relative to it: 0.1 is ten percent."""
        mean = PARTITIONS / len(nodes)
        return max(abs(self.led[node] - mean) / mean for node in nodes)

    def is_even(self, nodes: set[int]) -> bool:
        """Return whether exactly these brokers have replicas, and lead about equally many partitions."""
        return set(self.replicas) == nodes == set(self.led) and self.unevenness(nodes) <= _EVEN


def _get(cluster: Cluster, node: int, path: str) -> Any:
    """Return the JSON answer of a node to GET `path`. Raises `MeasureFailed` for another status than 200."""
    status, answer = ask(cluster.nodes[node].http, path, timeout_s=_ASK_S_MAX)
    require(status == 200, f"GET {path}: {status} {answer}")
    return answer


def _wait_until_even(cluster: Cluster, asked: int, nodes: set[int], workspace: Workspace, what: str) -> _Placement:
    """Wait until exactly these brokers have replicas, lead evenly, and no reassignment is pending."""
    until = time.perf_counter() + _SECONDS_MAX
    while True:
        placement = _Placement(cluster, asked)
        if placement.is_even(nodes) and not _get(cluster, asked, "/v1/partitions/reconfigurations"):
            return placement
        state = f"replicas {dict(sorted(placement.replicas.items()))}, leaders {dict(placement.led)}"
        require(time.perf_counter() < until, f"not even after {_SECONDS_MAX:g} s: {state}")
        workspace.show_stage(f"{what}: {state}")
        time.sleep(_POLL_S)


def _decommission(cluster: Cluster, receiver: int, node: int) -> None:
    """Request the decommission of `node` from the node `receiver`."""
    status, answer = ask(
        cluster.nodes[receiver].http, f"/v1/brokers/{node}/decommission", method="PUT", timeout_s=_ASK_S_MAX
    )
    require(status == 200, f"decommission: {status} {answer}")


def _wait_until_removed(cluster: Cluster, asked: int, node: int) -> None:
    """Wait until the node `asked` no longer lists `node` as a broker."""
    until = time.perf_counter() + _SECONDS_MAX
    while any(row["node_id"] == node for row in _get(cluster, asked, "/v1/brokers")):
        require(time.perf_counter() < until, f"node {node} was not removed within {_SECONDS_MAX:g} s")
        time.sleep(_POLL_S)


def run(workspace: Workspace) -> Values:
    """Measure a quiet cluster, then a join and a decommission; read all acknowledged records back."""
    with workspace.directory() as directory, cluster_of_three(directory / "cluster") as cluster:
        create_topic(cluster, PARTITIONS)
        cluster.wait_healthy()
        with _Load(cluster, [2, 3], directory) as load:
            workspace.show_stage("quiet")
            time.sleep(_WARM_S)
            quiet_at = time.perf_counter()
            time.sleep(QUIET_S)
            begin = time.perf_counter()
            cluster.add_node()
            joined = _wait_until_even(cluster, 2, {1, 2, 3, 4}, workspace, "joining")
            joined_at = time.perf_counter()
            _decommission(cluster, 2, 1)
            left = _wait_until_even(cluster, 2, {2, 3, 4}, workspace, "leaving")
            _wait_until_removed(cluster, 2, 1)
            end = time.perf_counter()
            done = load.end()
        quiet = sorted(latency for due, latency in done["samples"] if quiet_at <= due < begin)
        during = sorted(latency for due, latency in done["samples"] if begin <= due < end)
        failed = done["offered"] - done["succeeded"]
        stored = require_read_back(port_of(cluster, 2), TOPIC, done["succeeded"], done["sent"], partitions=PARTITIONS)
    return {
        "failed": failed,
        "p99_ratio": percentile(during, 99) / percentile(quiet, 99),
        "seconds": end - begin,
        "uneven_percent": 100 * max(joined.unevenness({1, 2, 3, 4}), left.unevenness({2, 3, 4})),
        "join_s": joined_at - begin,
        "leave_s": end - joined_at,
        "quiet_p99_ms": percentile(quiet, 99) * 1000,
        "p99_ms": percentile(during, 99) * 1000,
        "quiet_p50_ms": percentile(quiet, 50) * 1000,
        "p50_ms": percentile(during, 50) * 1000,
        "max_ms": during[-1] * 1000,
        "gap_s": done["gap_s"],
        "reasons": json.dumps(done["reasons"]),
        **stored,
    }


MEASURES = (
    Measure(
        "elasticity",
        f"three brokers, {PARTITIONS} partitions, {OFFERED_PER_S} writes/s: a fourth joins, then one is decommissioned",
        f"`raftlog serve` three times on loopback and one disk, a topic with {PARTITIONS} partitions and three "
        f"replicas of each. {OFFERED_PER_S} single records of {VALUE_BYTES} bytes are offered a second, in turn to all "
        "partitions, each to its leader by the latest answer; nothing is retried by the client. "
        f"After {QUIET_S:g} quiet seconds a fourth broker is started. Once replicas are even and leaders within "
        f"{_EVEN:.0%} of even, the first broker is decommissioned, until it is removed and the other three are even. "
        "Seconds count from the start of the fourth process. At the end every acknowledged record has to be read back, "
        "once.",
        (
            Figure("failed", "writes that failed", "", at_most=0),
            Figure("p99_ratio", "p99 of the writes meanwhile ÷ quiet", "×", at_most=3),
            Figure("seconds", "from the start of the fourth to the end", "s", at_most=60),
            Figure("uneven_percent", "leaders, largest deviation", "%", at_most=10),
            Figure("join_s", "of these, until the fourth had its share", "s"),
            Figure("leave_s", "of these, until the first was removed", "s"),
            Figure("quiet_p99_ms", "p99 of quiet writes", "ms"),
            Figure("p99_ms", "p99 of the writes meanwhile", "ms"),
            Figure("max_ms", "slowest of them", "ms"),
        ),
        run,
    ),
)
