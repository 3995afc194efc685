"""Kafka 3.9 as one process that is both broker and controller; `bench.race` runs three with the same settings."""

import socket
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from clients.checks import Program, output_of, wait_until
from clients.java import java
from clients.kafka_tools import libraries
from raftlog.testing.ports import HOST, address_of, reserve_port

CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"
_START_S_MAX: Final = 300.0
_CONNECT_S_MAX: Final = 1.0


def node_properties(directory: Path, node: int, ports: Mapping[int, tuple[int, int]]) -> dict[str, object]:
    """Return the settings of a node; `ports` has the broker's and the controller's port of each node."""
    broker, controller = ports[node]
    return {
        "process.roles": "broker,controller",
        "node.id": node,
        "controller.quorum.voters": ",".join(f"{each}@{HOST}:{port}" for each, (_, port) in ports.items()),
        "listeners": f"PLAINTEXT://{HOST}:{broker},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{broker}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": directory / str(node),
        "default.replication.factor": len(ports),
        "offsets.topic.replication.factor": len(ports),
        "offsets.topic.num.partitions": 3,
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": 0,
    }


def write_properties(path: Path, settings: Mapping[str, object]) -> None:
    """Write a file of Java properties."""
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))


def format_command(properties: Path) -> list[str]:
    """Return the command that prepares the directory of a node."""
    return java(libraries(), "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties))


class KafkaBroker:
    """Kafka cluster of one node, in a `with` block."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._held = (reserve_port(), reserve_port())
        self.servers = address_of(self._held[0])
        """Address for `bootstrap.servers`."""
        broker, controller = (held.getsockname()[1] for held in self._held)
        properties = directory / "1.properties"
        write_properties(properties, node_properties(directory, 1, {1: (broker, controller)}))
        output_of(format_command(properties))
        self._process = Program(java(libraries(), "kafka.Kafka", str(properties), flags=("-Xmx512m",)))

    def __enter__(self) -> Self:
        wait_until(self._is_listening, lambda: f"Kafka does not listen{self._process.describe_output()}", _START_S_MAX)
        return self

    def _is_listening(self) -> bool:
        """Return whether the broker accepts connections."""
        try:
            socket.create_connection(self._held[0].getsockname(), _CONNECT_S_MAX).close()
        except OSError:
            return False
        return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        for held in self._held:
            held.close()
