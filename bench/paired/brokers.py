"""Brokers of one tree, a single one or a cluster of three, started with flags that every release has."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from bench import probes
from bench.measure import MeasureFailed
from bench.paired.trees import Tree
from bench.service import HOST, Service, free_port

NODES = (1, 2, 3)
_LEADER_S_MAX = 20.0
_POLL_S = 0.02


@contextmanager
def one_broker(tree: Tree, directory: Path) -> Iterator[Service]:
    """Run a single broker until the block ends, and kill it unless it was stopped."""
    port = free_port()
    command = tree.serve(directory / "data", port)
    with closing(Service(command, port, environment=tree.environment, place=tree.place)) as service:
        yield service


class ThreeBrokers:
    """Cluster of three brokers; `ready_s` is the time from the first fork until the last one is ready."""

    ready_s: float

    def __init__(self, tree: Tree, directory: Path) -> None:
        self._tree = tree
        http, rpc = ({node: free_port() for node in NODES} for _ in range(2))
        seeds = ",".join(f"{HOST}:{port}" for port in rpc.values())
        shared = ("--seeds", seeds, *tree.secret_flags(directory))
        self._commands = {
            node: tree.serve(
                directory / str(node), http[node], "--node-id", str(node), "--rpc", f"{HOST}:{rpc[node]}", *shared
            )
            for node in NODES
        }
        self._ports = http
        self._pool = ThreadPoolExecutor(len(NODES))
        self.services: dict[int, Service] = {}
        self._start_all(self._launch)

    def _launch(self, node: int) -> None:
        self.services[node] = Service(
            self._commands[node], self._ports[node], environment=self._tree.environment, place=self._tree.place
        )

    def _start_all(self, start: Any) -> None:
        begin = time.perf_counter()
        started = [self._pool.submit(start, node) for node in NODES]
        failures = [failure for each in started if (failure := each.exception()) is not None]
        if failures:
            self.close()
            raise failures[0]
        self.ready_s = time.perf_counter() - begin

    def restart(self) -> None:
        """Kill all brokers at once with SIGKILL, and start them again on their directories."""
        for service in self.services.values():
            service.kill()
        self._start_all(lambda node: self.services[node].start())

    def create_topic(self, name: str) -> None:
        """Create a topic of one partition with a replica on each broker."""
        body = {"topic_name": name, "partitions_count": 1, "replication_factor": len(NODES)}
        headers = {"Content-Type": "application/json"}
        self.services[1].request("POST", "/v3/clusters/-/topics", json.dumps(body).encode(), headers)

    def leader(self, topic: str) -> Service:
        """Wait until partition 0 has a leader; return that broker."""
        until = time.monotonic() + _LEADER_S_MAX
        while time.monotonic() < until:
            found = json.loads(self.services[1].request("GET", f"/topics/{topic}"))
            leader = found["partitions"][0]["leader"]
            if leader in self.services:
                return self.services[leader]
            time.sleep(_POLL_S)
        raise MeasureFailed(f"partition 0 of {topic} has no leader after {_LEADER_S_MAX:g} s")

    def cpu_seconds(self) -> float:
        """Return the CPU time that all three brokers have used."""
        return sum(probes.cpu_seconds(service.pid) for service in self.services.values())

    def close(self) -> None:
        for service in self.services.values():
            service.close()
        self._pool.shutdown()


@contextmanager
def three_brokers(tree: Tree, directory: Path) -> Iterator[ThreeBrokers]:
    """Run a cluster of three brokers until the block ends, and kill it."""
    with closing(ThreeBrokers(tree, directory)) as cluster:
        yield cluster
