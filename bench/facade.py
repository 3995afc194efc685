"""Measures of a cluster of three brokers below HTTP: clients call the façade in the brokers' processes."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.cluster import NODES, NodeProcess
from bench.measure import Figure, Measure, MeasureFailed, Values, Workspace, require
from bench.samples import VALUE_BYTES
from bench.service import free_port

SECONDS = 4.0
WARM_S = 1.0
BATCH_BYTES = 64 * 1024
BATCHES_IN_FLIGHT = 16
BATCHES_S = 30.0
PARTITIONS = 100
PARTITIONS_IN_FLIGHT = 256
_LEADER_S_MAX = 20.0
_POLL_S = 0.05


class Brokers:
    """Three brokers with one topic; `led` is the partitions that each broker leads."""

    led: dict[int, list[int]]

    def __init__(self, directory: Path, partitions: int) -> None:
        self._pool = ThreadPoolExecutor(len(NODES))
        self.nodes = {number: NodeProcess(number, "bench.broker_node") for number in NODES}
        self._partitions = partitions
        self._directory = directory

    def start(self) -> None:
        """Found the cluster, create the topic, and wait until every partition has a leader."""
        ports = {number: free_port() for number in NODES}
        self._map_nodes(
            lambda node: node.send_command(
                "open",
                data_dir=str(self._directory / str(node.number)),
                number=node.number,
                port=ports[node.number],
                seeds=list(ports.values()),
            )
        )
        self.nodes[1].send_command("create_topic", partitions=self._partitions, replicas=len(NODES))
        until = time.monotonic() + _LEADER_S_MAX
        while sum(map(len, self._find_led().values())) < self._partitions:
            if time.monotonic() > until:
                raise MeasureFailed(f"after {_LEADER_S_MAX:g} s these partitions are led: {self.led}")
            time.sleep(_POLL_S)

    def _find_led(self) -> dict[int, list[int]]:
        """Return the partitions that each broker leads, as the leaders report them."""
        answers = self._map_nodes(lambda node: node.send_command("list_led"))
        self.led = {number: answer["led"] for number, answer in answers.items()}
        return self.led

    def _map_nodes(self, what: Any) -> dict[int, dict[str, Any]]:
        """Call `what` for all nodes at the same time; return the results by node number."""
        return dict(zip(self.nodes, self._pool.map(what, self.nodes.values()), strict=True))

    def load(self, in_flight: int, seconds: float, batch_bytes: int = 0) -> dict[str, float]:
        """Load all leading nodes at the same time, each with its share of the operations in flight."""
        self._find_led()  # leadership moves to preferred leaders
        leading = [node for node in self.nodes.values() if self.led[node.number]]
        before = self._map_nodes(lambda node: node.send_command("costs"))
        begin = time.perf_counter()
        done = list(
            self._pool.map(
                lambda node: node.send_command(
                    "load",
                    partitions=self.led[node.number],
                    in_flight=in_flight * len(self.led[node.number]) // self._partitions,
                    seconds=seconds,
                    batch_bytes=batch_bytes,
                    record_bytes=VALUE_BYTES,
                ),
                leading,
            )
        )
        elapsed = time.perf_counter() - begin
        after = self._map_nodes(lambda node: node.send_command("costs"))
        cpu = {number: after[number]["cpu_s"] - before[number]["cpu_s"] for number in self.nodes}
        operations = sum(each["operations"] for each in done)
        syncs = sum(each["syncs"] for each in done)
        require(syncs * in_flight >= operations, f"{syncs} syncs cannot have sufficed for {operations} operations")
        return {
            "operations": operations,
            "per_s": sum(each["per_s"] for each in done),
            "mb_per_s": sum(each["mb_per_s"] for each in done),
            "p50_ms": max(each["p50_ms"] for each in done),
            "p99_ms": max(each["p99_ms"] for each in done),
            "syncs": syncs,
            "leader_cpu": max(cpu.values()) / elapsed,
            "follower_cpu": min(cpu.values()) / elapsed,
            "cpu_us_per_operation": sum(cpu.values()) / operations * 1e6,
            "leader_cpu_us_per_operation": max(cpu.values()) / operations * 1e6,
        }

    def require_read_back(self, operations: float) -> None:
        """Raise `MeasureFailed` unless the leaders return every acknowledged value and no other."""
        found = self._map_nodes(lambda node: node.send_command("verify", partitions=self.led[node.number]))
        for key in ("records", "different"):
            stored = sum(each[key] for each in found.values())
            require(stored == operations, f"{operations} were acknowledged, {stored} are stored ({key})")

    def close(self) -> None:
        """Kill all nodes."""
        for node in self.nodes.values():
            node.kill()
        self._pool.shutdown()


@contextmanager
def brokers(directory: Path, partitions: int = 1) -> Iterator[Brokers]:
    """Run three brokers until the block ends, and kill them."""
    started = Brokers(directory, partitions)
    try:
        started.start()
        yield started
    finally:
        started.close()


def _run_loads(
    workspace: Workspace, loads: dict[str, dict[str, Any]], partitions: int = 1
) -> dict[str, dict[str, float]]:
    """Run loads one after another on a new cluster, then read everything back."""
    with workspace.directory() as directory, brokers(directory, partitions) as cluster:
        warm = cluster.load(max(8, partitions), WARM_S)
        done = {name: cluster.load(**{"seconds": SECONDS, **load}) for name, load in loads.items()}
        cluster.require_read_back(sum(each["operations"] for each in (warm, *done.values())))
    return done


def run_records(workspace: Workspace) -> Values:
    done = _run_loads(workspace, {"f64": {"in_flight": 64}, "f256": {"in_flight": 256}})
    return {f"{name}_{key}": value for name, values in done.items() for key, value in values.items()}


def run_partitions(workspace: Workspace) -> Values:
    return _run_loads(workspace, {"busy": {"in_flight": PARTITIONS_IN_FLIGHT}}, PARTITIONS)["busy"]


def run_batches(workspace: Workspace) -> Values:
    load = {"in_flight": BATCHES_IN_FLIGHT, "seconds": BATCHES_S, "batch_bytes": BATCH_BYTES}
    return _run_loads(workspace, {"batches": load})["batches"]


_CPU = Figure("cpu_us_per_operation", "… CPU of all three brokers and the client", "µs/operation")

MEASURES = (
    Measure(
        "facade-records",
        "three brokers: single records of 100 bytes through the façade, client on the leader",
        "Three broker processes on loopback and one disk, a topic with one partition and three replicas, settings as "
        f"they come. Tasks in the leader's process call Broker.produce_records with one record each for {SECONDS:g} s "
        "and wait for its answer: it is on two disks at least, synced. All values are different, and are read back "
        "through Broker.fetch. Syncs are counted.",
        (
            Figure("f64_per_s", "64 in flight", "operations/s", at_least=55_000),
            Figure("f64_p99_ms", "… p99", "ms", at_most=8),
            Figure("f64_cpu_us_per_operation", _CPU.title, _CPU.unit),
            Figure("f256_per_s", "256 in flight", "operations/s", at_least=110_000),
            Figure("f256_p99_ms", "… p99", "ms"),
            Figure("f256_cpu_us_per_operation", _CPU.title, _CPU.unit),
        ),
        run_records,
    ),
    Measure(
        "facade-partitions",
        f"three brokers: {PARTITIONS} busy partitions",
        f"The same with {PARTITIONS} partitions in place of one, {PARTITIONS_IN_FLIGHT} in flight together: on each "
        "broker its share, to the partitions that it leads.",
        (
            Figure("per_s", f"{PARTITIONS_IN_FLIGHT} in flight", "operations/s", at_least=12_000),
            Figure("p99_ms", "… p99 of the slowest broker", "ms"),
            _CPU,
        ),
        run_partitions,
    ),
    Measure(
        "facade-batches",
        f"three brokers: batches of 64 KiB through the façade for {BATCHES_S:g} s",
        f"Broker.produce_batches with batches of one record of 64 KiB, {BATCHES_IN_FLIGHT} in flight, one partition.",
        (
            Figure("mb_per_s", "replicated and synced", "MB/s", at_least=75),
            Figure("p99_ms", "… p99", "ms"),
            _CPU,
        ),
        run_batches,
    ),
)
