"""Measures of a cluster of three brokers over HTTP, at a fixed rate and at the highest possible rate."""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from bench import load, probes
from bench.child import run_in_child
from bench.http_produce import load_echo
from bench.load import CONNECTIONS, SECONDS, Load
from bench.measure import Figure, Measure, MeasureFailed, Values, Workspace
from bench.open_loop import offer
from bench.read_back import require_read_back
from bench.service import HOST
from raftlog.testing import BrokerFailed, Cluster
from raftlog.testing.http import ask

TOPIC = "bench"
PATH = f"/topics/{TOPIC}"
NODES = 3
OFFERED_PER_S = 1_000
OFFERED_S = 20.0
WARM_S = 1.0
TOPIC_S_MAX = 60.0


@contextmanager
def cluster_of_three(
    directory: Path, environment: Callable[[int], Mapping[str, str]] | None = None
) -> Iterator[Cluster]:
    """Run three brokers (`raftlog serve` with its defaults) on loopback until the block ends, and kill them."""
    flags = ("--log-level", "warning")
    try:
        with Cluster(NODES, data_dir=directory, with_cuts=False, serve_flags=flags, environment=environment) as cluster:
            yield cluster
    except BrokerFailed as failure:
        raise MeasureFailed(str(failure)) from failure


def create_topic(
    cluster: Cluster, partitions: int = 1, config: Mapping[str, str] | None = None, *, name: str = TOPIC
) -> float:
    """Create a topic with three replicas of each partition; return the seconds until the answer."""
    configs = [{"name": key, "value": value} for key, value in (config or {}).items()]
    body = {"topic_name": name, "partitions_count": partitions, "replication_factor": NODES, "configs": configs}
    begin = time.perf_counter()
    status, answered = ask(
        cluster.nodes[1].http,
        "/v3/clusters/-/topics",
        method="POST",
        body=body,
        timeout_s=TOPIC_S_MAX,
    )
    if status // 100 != 2:
        raise MeasureFailed(f"the topic was not created: {status} {answered}")
    return time.perf_counter() - begin


def port_of(cluster: Cluster, node: int) -> int:
    return int(cluster.nodes[node].http.rpartition(":")[2])


def ports_of(cluster: Cluster) -> list[int]:
    return [port_of(cluster, number) for number in cluster.nodes]


def restart_all(cluster: Cluster) -> None:
    """Kill all brokers at once, and start them again."""
    for node in cluster.nodes.values():
        node.kill()
    for node in cluster.nodes.values():
        node.launch()
    for node in cluster.nodes.values():
        node.wait_ready()
    cluster.leader(TOPIC)


def run_offered(workspace: Workspace) -> Values:
    """Offer requests at a fixed rate to the leader; return latencies and CPU, after all records were read back."""
    with workspace.directory() as directory, cluster_of_three(directory) as cluster:
        create_topic(cluster)
        port = port_of(cluster, cluster.leader(TOPIC))
        cpu_before = cpu_of(cluster)
        done = run_in_child(offer, ports=[port], topic=TOPIC, per_s=OFFERED_PER_S, seconds=OFFERED_S)
        cpu_s = cpu_of(cluster) - cpu_before
        restart_all(cluster)
        stored = require_read_back(port, TOPIC, done["succeeded"], done["sent"])
    return {
        "succeeded_percent": done["succeeded"] / done["offered"] * 100,
        **done,
        **stored,
        "brokers_cpu_share": cpu_s / OFFERED_S,
        "cpu_ms": cpu_s / done["succeeded"] * 1000,
    }


def cpu_of(cluster: Cluster) -> float:
    """Return the CPU seconds that all brokers have used."""
    return sum(probes.cpu_seconds(node.pid) for node in cluster.nodes.values())


def _load_all_brokers(ports: list[int]) -> list[Load]:
    """Load all brokers at the same time, each with a share of the connections and with different values."""
    shares = [CONNECTIONS // len(ports) + (number < CONNECTIONS % len(ports)) for number in range(len(ports))]

    def run(port: int, connections: int, letter: str) -> Load:
        return load.run_wrk("produce.lua", f"http://{HOST}:{port}", PATH, "1", letter, connections=connections)

    with ThreadPoolExecutor(len(ports)) as pool:
        return list(pool.map(run, ports, shares, "abc"))


def run_closed(workspace: Workspace) -> Values:
    """Load the leader, and then all brokers, by closed loops; compare with an HTTP server that stores nothing."""
    plain = load_echo(1)
    with workspace.directory() as directory, cluster_of_three(directory) as cluster:
        create_topic(cluster)
        leader = port_of(cluster, cluster.leader(TOPIC))
        ports = [port_of(cluster, node) for node in cluster.nodes]
        cpu_0 = cpu_of(cluster)
        to_leader = load.run_wrk("produce.lua", f"http://{HOST}:{leader}", PATH, "1")
        cpu_1 = cpu_of(cluster)
        to_any = _load_all_brokers(ports)
        cpu_2 = cpu_of(cluster)
        one = load.run_wrk("produce.lua", f"http://{HOST}:{leader}", PATH, "1", "d", connections=1)
        acknowledged = to_leader.requests + sum(each.requests for each in to_any) + one.requests
        restart_all(cluster)
        in_flight = 2 * CONNECTIONS + 1  # at the end of the three loads
        stored = require_read_back(leader, TOPIC, acknowledged, acknowledged + in_flight)
    any_requests = sum(each.requests for each in to_any)
    return {
        "leader_per_s": to_leader.requests_per_s,
        "leader_p50_ms": to_leader.p50_ms,
        "leader_p99_ms": to_leader.p99_ms,
        "leader_cpu_us": (cpu_1 - cpu_0) / to_leader.requests * 1e6,
        "one_per_s": one.requests_per_s,
        "one_p99_ms": one.p99_ms,
        "any_per_s": any_requests / SECONDS,
        "any_p99_ms": max(each.p99_ms for each in to_any),
        "any_cpu_us": (cpu_2 - cpu_1) / any_requests * 1e6,
        "echo_per_s": plain.requests_per_s,
        "of_echo": to_leader.requests_per_s / plain.requests_per_s,
        **stored,
    }


_READ_BACK = (
    "Afterwards all three brokers are killed with SIGKILL and started again, and everything is read back: every "
    "acknowledged record has to be there, none twice, all batches sound."
)

MEASURES = (
    Measure(
        "cluster-offered",
        f"three brokers over HTTP: {OFFERED_PER_S:,} operations/s offered for {OFFERED_S:g} s",
        f"`raftlog serve` three times on loopback and one disk, a topic with one partition and three replicas. "
        f"{OFFERED_PER_S:,} POST {PATH} a second with one record of 100 characters, all different, to the leader: an "
        "open loop of plain keep-alive connections in a process of its own. A latency counts from the moment at which "
        f"the request was due to the end of its answer. {_READ_BACK}",
        (
            Figure("succeeded_percent", "succeeded", "%", at_least=100),
            Figure("p50_ms", "… p50", "ms", at_most=1.2),
            Figure("p99_ms", "… p99", "ms", at_most=4),
            Figure("max_ms", "… longest", "ms"),
            Figure("cpu_ms", "… CPU of all three brokers for one", "ms", at_most=0.9),
            Figure("brokers_cpu_share", "… CPU of all three brokers", "cores"),
        ),
        run_offered,
    ),
    Measure(
        "cluster-produce",
        f"three brokers over HTTP: single records, {CONNECTIONS} in flight",
        f"wrk, {CONNECTIONS} connections with one request in flight each, {SECONDS} s, POST {PATH} with one record of "
        "100 characters, all different: to the leader, then with a third of the connections to each broker. Before it, "
        f"the same load on aiohttp alone that answers JSON. Any error fails the run. {_READ_BACK}",
        (
            Figure("leader_per_s", "to the leader", "/s", at_least=14_000),
            Figure("leader_p99_ms", "… p99", "ms", at_most=8),
            Figure("leader_p50_ms", "… p50", "ms"),
            Figure("leader_cpu_us", "… CPU of all three brokers", "µs/request"),
            Figure("any_per_s", "to any broker", "/s", at_least=5_000),
            Figure("any_p99_ms", "… p99 of the slowest", "ms"),
            Figure("any_cpu_us", "… CPU of all three brokers", "µs/request"),
            Figure("one_per_s", "one in flight, to the leader", "/s", at_least=1_200),
            Figure("one_p99_ms", "… p99", "ms"),
            Figure("echo_per_s", "aiohttp alone, JSON echo", "/s"),
            Figure("of_echo", "to the leader ÷ echo", "×"),
        ),
        run_closed,
    ),
)
