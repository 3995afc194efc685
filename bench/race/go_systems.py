"""NATS JetStream, etcd, Redis Streams and raftlog over HTTP, loaded by the Go program in `load/`."""

import json
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench.measure import MeasureFailed
from bench.race.accounting import run_generator, start_generator, stop_generator, wait_for_generator
from bench.race.kafka_protocol import (
    BEFORE_KILL_S,
    CONNECTIONS,
    OFFERED_CONNECTIONS,
    OFFERED_PER_S,
    OFFERED_S,
    RECORD_BYTES,
    SECONDS,
    SMALL_BYTES,
)
from bench.race.kafka_systems import raftlog_cluster, raftlog_pids
from bench.race.processes import NODES, NodeProcesses
from bench.race.system import RunningSystem, System, Values
from bench.service import HOST, free_port
from clients import packages

_HERE: Final = Path(__file__).resolve().parent
_NATS: Final = ("github.com/nats-io/nats-server/v2", "v2.15.2")
_READY_S_MAX: Final = 60.0
_POLL_S: Final = 0.05
_GAP_S: Final = 16


class _GoLoad:
    """Load of one system by the Go program."""

    def __init__(self, system: str, addresses: Sequence[str], records: int) -> None:
        self._system = system
        self._environment = {"BOOTSTRAP": ",".join(addresses)}
        self._records = records
        self._program = str(packages.go_program(_HERE / "load"))
        self._produced = ""

    def run(self, *arguments: object) -> dict[str, Any]:
        output = run_generator([self._program, self._system, *map(str, arguments)], self._environment)
        found = dict(json.loads(output.splitlines()[-1])) if output.strip() else {}
        if found.pop("failed", 0):
            raise MeasureFailed("records failed")
        return found

    def new_stream(self) -> str:
        """Return the name of a new stream; create it if the system requires that."""
        name = f"race-{uuid.uuid4().hex[:8]}"
        if self._system in ("nats", "http"):
            self.run("create", name)
        return name

    def produce(self) -> Values:
        if self._produced and self._system == "nats":
            self.run("delete", self._produced)
        self._produced = self.new_stream()
        return self.run("bulk", self._produced, self._records, RECORD_BYTES)

    def consume(self) -> Values:
        if not self._produced:
            self.produce()
        return self.run("consume", self._produced, self._records, RECORD_BYTES)

    def run_closed(self) -> Values:
        return self.run("closed", self.new_stream(), CONNECTIONS, SECONDS, SMALL_BYTES)

    def run_offered(self) -> Values:
        return self.run("offered", self.new_stream(), OFFERED_PER_S, OFFERED_S, OFFERED_CONNECTIONS, SMALL_BYTES)

    def measure_gap(self, nodes: NodeProcesses, start: Callable[[int], None]) -> Values:
        """Kill the leader under 100 records a second, each retried until it is acknowledged; return the gap."""
        stream = self.new_stream()
        leader = int(str(self.run("leader", stream)["leader"]).removeprefix("n"))
        process = start_generator([self._program, self._system, "gap", stream, str(_GAP_S)], self._environment)
        try:
            assert process.stdout is not None, "stdout is a pipe"
            process.stdout.readline()
            time.sleep(BEFORE_KILL_S)
            nodes.kill(leader)
            found = json.loads(wait_for_generator(process).splitlines()[-1])
        finally:
            stop_generator(process)
            start(leader)
        return {"gap_ms": float(found["gap_ms"])}


def _wait_http(url: str, text: str) -> None:
    """Wait until an answer from the URL contains the text."""
    until = time.monotonic() + _READY_S_MAX
    while time.monotonic() < until:
        with suppress(urllib.error.URLError, OSError), urllib.request.urlopen(url, timeout=2) as answer:
            if text in answer.read().decode():
                return
        time.sleep(_POLL_S)
    raise MeasureFailed(f"{url} does not answer with {text!r} after {_READY_S_MAX:g} s")


@contextmanager
def start_nats(directory: Path, *, sync: str) -> Iterator[RunningSystem]:
    """Start a JetStream cluster; streams have three replicas in files."""
    server = packages.go_command(*_NATS)
    clients, monitors, routes = ({node: free_port() for node in NODES} for _ in range(3))
    peers = ", ".join(f"nats://{HOST}:{port}" for port in routes.values())
    for node in NODES:
        (directory / f"{node}.conf").write_text(
            f"server_name: n{node}\nlisten: {HOST}:{clients[node]}\nhttp: {HOST}:{monitors[node]}\n"
            f'jetstream {{ store_dir: "{directory / str(node)}", max_file: 40G, sync_interval: {sync} }}\n'
            f"cluster {{ name: race, listen: {HOST}:{routes[node]}, routes: [ {peers} ] }}\n"
        )
    nodes = NodeProcesses(directory, lambda node: [str(server), "-c", str(directory / f"{node}.conf")])

    def start(node: int) -> None:
        nodes.start(node)
        _wait_http(f"http://{HOST}:{monitors[node]}/healthz", "ok")

    try:
        for node in NODES:
            nodes.start(node)
        for node in NODES:
            _wait_http(f"http://{HOST}:{monitors[node]}/healthz", "ok")
        loads = _GoLoad("nats", [f"nats://{HOST}:{port}" for port in clients.values()], 200_000)
        measures = {"produce": loads.produce, "consume": loads.consume, "closed": loads.run_closed}
        yield RunningSystem(
            nodes.pids, {**measures, "offered": loads.run_offered, "gap": lambda: loads.measure_gap(nodes, start)}
        )
    finally:
        nodes.close()


@contextmanager
def start_etcd(directory: Path) -> Iterator[RunningSystem]:
    """Start three etcd members; each record is a key."""
    server = packages.go_program(_HERE / "etcd")
    clients, peers = ({node: free_port() for node in NODES} for _ in range(2))
    cluster = ",".join(f"n{node}=http://{HOST}:{port}" for node, port in peers.items())

    def command(node: int) -> list[str]:
        client, peer = f"http://{HOST}:{clients[node]}", f"http://{HOST}:{peers[node]}"
        urls = ("--listen-client-urls", client, "--advertise-client-urls", client)
        between = ("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster)
        at = ("--name", f"n{node}", "--data-dir", str(directory / str(node)), "--quota-backend-bytes", "8000000000")
        return [str(server), *at, *urls, *between, "--log-level", "warn"]

    nodes = NodeProcesses(directory, command)

    def start(node: int) -> None:
        nodes.start(node)
        _wait_http(f"http://{HOST}:{clients[node]}/health", "true")

    try:
        for node in NODES:
            nodes.start(node)
        for node in NODES:
            _wait_http(f"http://{HOST}:{clients[node]}/health", "true")
        loads = _GoLoad("etcd", [f"{HOST}:{port}" for port in clients.values()], 30_000)
        measures = {"produce": loads.produce, "closed": loads.run_closed, "offered": loads.run_offered}
        yield RunningSystem(nodes.pids, {**measures, "gap": lambda: loads.measure_gap(nodes, start)})
    finally:
        nodes.close()


@contextmanager
def start_redis(directory: Path) -> Iterator[RunningSystem]:
    """Start a primary and two replicas; without a leader kill, because nothing elects a new primary."""
    server = packages.program("redis-server")
    ports = {node: free_port() for node in NODES}

    def command(node: int) -> list[str]:
        (directory / str(node)).mkdir(exist_ok=True)
        log = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")
        replica = ("--replicaof", f"{HOST} {ports[1]}") if node > 1 else ()
        return [server, "--bind", HOST, "--port", str(ports[node]), "--dir", str(directory / str(node)), *log, *replica]

    nodes = NodeProcesses(directory, command)
    try:
        for node in NODES:
            nodes.start(node)
            nodes.wait_port(node, ports[node])
        loads = _GoLoad("redis", [f"{HOST}:{ports[1]}"], 100_000)
        _wait_replicas(loads)
        yield RunningSystem(
            nodes.pids, {"produce": loads.produce, "closed": loads.run_closed, "offered": loads.run_offered}
        )
    finally:
        nodes.close()


def _wait_replicas(loads: _GoLoad) -> None:
    """Wait until a replica acknowledges a write."""
    until = time.monotonic() + _READY_S_MAX
    while True:
        try:
            loads.run("bulk", "first", 10, SMALL_BYTES)
            return
        except MeasureFailed:
            if time.monotonic() > until:
                raise


@contextmanager
def start_raftlog_http(directory: Path, *, python: str) -> Iterator[RunningSystem]:
    """Start three raftlog brokers with their defaults, loaded over HTTP."""
    with raftlog_cluster(directory, python) as cluster:
        loads = _GoLoad("http", cluster.addresses, 0)
        yield RunningSystem(partial(raftlog_pids, cluster), {"closed": loads.run_closed, "offered": loads.run_offered})


def raftlog_http(python: str) -> System:
    """Return raftlog over HTTP as a system; `python` is the interpreter of its brokers."""
    return System("raftlog-http", "raftlog, HTTP", "synced on a majority", partial(start_raftlog_http, python=python))


SYSTEMS: Final = (
    System("nats", "NATS JetStream", "written by a majority, not synced", partial(start_nats, sync="2m")),
    System("nats-synced", "NATS JetStream, sync always", "synced on a majority", partial(start_nats, sync="always")),
    System("redis", "Redis Streams, AOF always, WAIT 1", "synced by the primary, in memory of a replica", start_redis),
    System("etcd", "etcd", "synced on a majority", start_etcd),
)
