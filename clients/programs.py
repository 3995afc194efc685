"""Checks with the client programs of this folder, one per client library, with the same command line each.

With arguments `load TOPIC` a program prints `started`, and writes and reads until its stdin ends. Then it checks that
every acknowledged record is stored once, in order, and was delivered to a group of three. Meanwhile the leader is
killed, a broker restarts, and the leadership of a partition moves. Exit code 0 means that the check passed; the last
line of the output says what was seen."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from clients import packages
from clients.checks import Check, Program, require
from clients.faults import PAUSE_S, Fault, RunningCluster, kill_leader, restart_broker, transfer_leadership
from clients.java import java
from clients.kafka_tools import create_topic
from raftlog.testing import Cluster

_HERE: Final = Path(__file__).resolve().parent
_END_S_MAX: Final = 100.0
_START_S_MAX: Final = 60.0
_ALL: Final = "leader kill, broker restart, partition move"
_FAULTS: Final[Sequence[Fault]] = (kill_leader, restart_broker, transfer_leadership)
_PYSPARK: Final = "pyspark==4.2.0"
_SOME: Final = "leader kill, broker restart"

Command = Callable[[], list[str]]
"""Function that installs a program, and returns its command line without arguments."""


def java_command(folder: str) -> Command:
    """Return a function that installs the Java program with the jars of a folder in `maven/`."""

    def command() -> list[str]:
        libraries = packages.jars(folder)
        classes = packages.java_classes(_HERE / "java" / "ClientChecks.java", libraries)
        return java(libraries, "ClientChecks", classes=classes)

    return command


def franz_command() -> list[str]:
    """Build the Go program; return its command."""
    return [str(packages.go_program(_HERE / "franz"))]


def _kafkajs() -> list[str]:
    return [packages.program("node"), str(packages.npm_package(_HERE / "kafkajs") / "main.js")]


def _rdkafka() -> list[str]:
    return [str(packages.cargo_program(_HERE / "rdkafka"))]


def _spark() -> list[str]:
    return [str(packages.python_environment("spark", [_PYSPARK])), str(_HERE / "spark" / "main.py")]


def _environment(client: str, cluster: Cluster, topic: str) -> dict[str, str]:
    """Return the environment variables of a client; create two topics for Spark, which cannot create any."""
    found = {"BOOTSTRAP": cluster.kafka}
    if client == "spark":
        found["JARS"] = str(packages.jars("spark-kafka"))
        for name in (topic, f"{topic}-copy"):
            create_topic(cluster, name)
    return found


def _check_without_fault(client: str, mode: str, command: Command) -> Check:
    """Return a check that runs the program in `mode` without faults."""

    def run(cluster: Cluster) -> str:
        topic = _topic(client, mode)
        program = Program([*command(), mode, topic], environment=_environment(client, cluster, topic))
        try:
            return program.end().splitlines()[-1]
        finally:
            program.kill()

    return Check(client, mode, "", run)


def _check_with_faults(client: str, mode: str, command: Command, named: str, faults: Sequence[Fault]) -> Check:
    """Return a check that runs the program in `mode` under each of the faults."""

    def run(cluster: Cluster) -> str:
        topic = _topic(client, mode)
        return run_load([*command(), mode, topic], _environment(client, cluster, topic), cluster, topic, faults)

    return Check(client, mode, named, run)


def run_load(
    command: Sequence[str],
    environment: Mapping[str, str],
    cluster: RunningCluster,
    topic: str,
    faults: Sequence[Callable[[Any, str], None]],
) -> str:
    """Run a program's `load` under faults; return the last line of its output."""
    program = Program(command, given=None, environment=environment)
    try:
        program.wait_line("started", _START_S_MAX)
        for fault in faults:
            time.sleep(PAUSE_S)
            fault(cluster, topic)
        time.sleep(PAUSE_S)
        program.finish()
        lines = program.end(_END_S_MAX).splitlines()
        require(lines[-1] != "started", "the program does not say what it saw")
        return lines[-1]
    finally:
        program.kill()


def _topic(client: str, mode: str) -> str:
    return f"{client.replace(' ', '-')}-{mode}"


def _java_checks(client: str, folder: str) -> tuple[Check, ...]:
    """Return the checks of the Java client in `folder`."""
    command = java_command(folder)
    return (
        _check_without_fault(client, "admin", command),
        _check_without_fault(client, "records", command),
        _check_without_fault(client, "transactions", command),
        _check_with_faults(client, "load", command, _ALL, _FAULTS),
        _check_with_faults(client, "static", command, _ALL, _FAULTS),
    )


CHECKS: Final = (
    *_java_checks("java 3.9", "kafka-3.9"),
    *_java_checks("java 4.1", "kafka-clients-4"),
    _check_without_fault("franz-go", "admin", franz_command),
    _check_with_faults("franz-go", "load", franz_command, _ALL, _FAULTS),
    _check_without_fault("kafkajs", "admin", _kafkajs),
    _check_with_faults("kafkajs", "load", _kafkajs, _SOME, _FAULTS[:2]),
    _check_with_faults("rust-rdkafka", "load", _rdkafka, _SOME, _FAULTS[:2]),
    _check_without_fault("spark", "batch", _spark),
    _check_with_faults("spark", "load", _spark, _ALL, _FAULTS),
)
