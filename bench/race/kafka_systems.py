"""Kafka 3.9 and raftlog as systems of the race over the Kafka protocol."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from bench.measure import MeasureFailed
from bench.race.accounting import raise_priority, run_generator
from bench.race.kafka_protocol import KafkaProtocolLoad
from bench.race.processes import NODES, NodeProcesses
from bench.race.system import RunningSystem, System
from bench.service import HOST, free_port
from clients import packages
from clients.java import java
from clients.kafka_broker import format_command, node_properties, write_properties
from raftlog.testing import BrokerFailed, Cluster

_HEAP: Final = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")
"""Heap and collector of Kafka's own start script."""
_KAFKA_GAP_S: Final = 22
"""Seconds of the load, more than the session of a Kafka broker (9 s), after which its partitions get new leaders."""
_RAFTLOG_GAP_S: Final = 9


@contextmanager
def start_kafka(directory: Path, *, synced: bool) -> Iterator[RunningSystem]:
    """Start three nodes that are broker and controller, with Kafka's defaults except the replication factor."""
    libraries = packages.jars("kafka-3.9")
    flush = {"log.flush.interval.messages": 1} if synced else {}
    ports = {node: (free_port(), free_port()) for node in NODES}
    for node in NODES:
        properties = directory / f"{node}.properties"
        write_properties(properties, {**node_properties(directory, node, ports), "min.insync.replicas": 2, **flush})
        run_generator(format_command(properties))
    nodes = NodeProcesses(
        directory,
        lambda node: java(libraries, "kafka.Kafka", str(directory / f"{node}.properties"), flags=_HEAP),
    )

    def start(node: int) -> None:
        nodes.start(node)
        nodes.wait_port(node, ports[node][0])

    try:
        for node in NODES:
            nodes.start(node)
        for node in NODES:
            nodes.wait_port(node, ports[node][0])
        bootstrap = ",".join(f"{HOST}:{ports[node][0]}" for node in NODES)
        loads = KafkaProtocolLoad(bootstrap, nodes.kill, start, _KAFKA_GAP_S, nodes.pids)
        yield RunningSystem(nodes.pids, loads.measures())
    finally:
        nodes.close()


@contextmanager
def start_raftlog(directory: Path, *, python: str) -> Iterator[RunningSystem]:
    """Start three raftlog brokers with their defaults."""
    with raftlog_cluster(directory, python) as cluster:

        def start(node: int) -> None:
            cluster.nodes[node].start()
            raise_priority([cluster.nodes[node].pid])
            cluster.wait_healthy()

        pids = partial(raftlog_pids, cluster)
        loads = KafkaProtocolLoad(cluster.kafka, lambda node: cluster.nodes[node].kill(), start, _RAFTLOG_GAP_S, pids)
        yield RunningSystem(pids, loads.measures())


@contextmanager
def raftlog_cluster(directory: Path, python: str) -> Iterator[Cluster]:
    """Run three brokers at the priority of the race; raises `MeasureFailed` if one does not start."""
    try:
        with Cluster(
            len(NODES),
            data_dir=directory,
            with_cuts=False,
            python=python,
            serve_flags=("--log-level", "warning"),
            environment=lambda _: {"PYTHONPATH": str(packages.ROOT)},
        ) as cluster:
            raise_priority(raftlog_pids(cluster))
            yield cluster
    except BrokerFailed as failure:
        raise MeasureFailed(str(failure)) from failure


def raftlog_pids(cluster: Cluster) -> list[int]:
    """Return the process ids of the running brokers."""
    return [node.pid for node in cluster.nodes.values() if node.is_running]


def systems(python: str) -> tuple[System, ...]:
    """Return Kafka and raftlog over the Kafka protocol as systems of the race."""
    return (
        System("raftlog", "raftlog, Kafka protocol", "synced on a majority", partial(start_raftlog, python=python)),
        System(
            "kafka", "Kafka 3.9", "in memory of all replicas in sync, not synced", partial(start_kafka, synced=False)
        ),
        System(
            "kafka-synced",
            "Kafka 3.9, flush.messages=1",
            "synced on all replicas in sync",
            partial(start_kafka, synced=True),
        ),
    )
