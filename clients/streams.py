"""Check of Kafka Streams 3.9 with `StreamsSmokeTest` of its own tests, with guarantee at_least_once.

Its driver writes 20,000 records to topic `data` and verifies the results of a topology with windows, joins, suppression
and repartitioning: every record is delivered, and each sum, count, minimum and maximum is exact, unless records were
processed twice, which at_least_once permits. Meanwhile a leader is killed, a broker restarts, and the work moves from
one instance to another, which restores its state from changelogs."""

from pathlib import Path
from typing import Final

from clients import faults, packages
from clients.checks import Check, Program, require
from clients.java import java
from clients.kafka_broker import write_properties
from clients.kafka_tools import create_topics, libraries
from raftlog.testing import Cluster

CLIENT: Final = "kafka streams 3.9"
_MAIN: Final = "org.apache.kafka.streams.tests.StreamsSmokeTest"
_INPUT: Final = "data"
_TOPICS: Final = (
    _INPUT,
    "echo",
    "max",
    "min",
    "min-suppressed",
    "min-raw",
    "dif",
    "sum",
    "sws-raw",
    "sws-suppressed",
    "cnt",
    "avg",
    "tagg",
    "fk",
)
_PARTITIONS: Final = 3
_START_S_MAX: Final = 300.0
_VERIFIED_S_MAX: Final = 600.0
"""Seconds to wait for the driver, which itself waits up to six minutes for complete results."""


def _properties(directory: Path, cluster: Cluster, name: str) -> str:
    """Write the settings of an instance; return the path."""
    settings = {
        "bootstrap.servers": cluster.kafka,
        "state.dir": directory / f"state-{name}",
        "processing.guarantee": "at_least_once",
        "num.stream.threads": 2,
        "num.standby.replicas": 1,
        "commit.interval.ms": 1_000,
        "auto.offset.reset": "earliest",
    }
    path = directory / f"streams-{name}.properties"
    write_properties(path, settings)
    return str(path)


def _start(directory: Path, cluster: Cluster, name: str, mode: str) -> Program:
    """Start Kafka's test application for streams in `mode`."""
    properties = _properties(directory, cluster, name)
    tests = packages.jars("kafka-tests-3.9") / "*"
    return Program(java(libraries(), _MAIN, properties, mode, flags=("-Xmx512m",), classes=tests))


def check_smoke_test(cluster: Cluster) -> str:
    """Run `StreamsSmokeTest` with two instances, one of which ends, under faults of the brokers."""
    create_topics(cluster, _TOPICS, _PARTITIONS)
    programs: list[Program] = []

    def start(name: str, mode: str) -> Program:
        programs.append(_start(cluster.directory, cluster, name, mode))
        return programs[-1]

    try:
        first = start("first", "process")
        first.wait_line("SMOKE-TEST-CLIENT-STARTED", _START_S_MAX)
        driver = start("driver", "run")
        driver.wait_line("records produced", _START_S_MAX)
        faults.kill_leader(cluster, _INPUT)
        second = start("second", "process")
        second.wait_line("SMOKE-TEST-CLIENT-STARTED", _START_S_MAX)
        faults.restart_broker(cluster, _INPUT)
        first.terminate()
        first.end(code=None)
        printed = driver.end(_VERIFIED_S_MAX)
        second.terminate()
        second.end(code=None)
        for instance in (first, second):
            closed = "SMOKE-TEST-CLIENT-CLOSED" in "\n".join(instance.lines)
            require(closed, f"an instance did not close{instance.describe_output()}")
        lines = printed.splitlines()
        ended = f"{driver.describe_output()}{second.describe_output()}"
        require("ALL-RECORDS-DELIVERED" in lines, f"records are missing{ended}")
        is_exact = "SUCCESS" in lines
        require(is_exact or "PROCESSED-MORE-THAN-GENERATED" in lines, f"aggregates are wrong{ended}")
    finally:
        for program in programs:
            program.kill()
    generated, processed = (
        next(line.partition("=")[2] for line in lines if line.startswith(name))
        for name in ("recordGenerated=", "recordProcessed=")
    )
    summary = "all aggregates exact" if is_exact else "aggregates count some records twice"
    return f"{generated} records, {processed} processed, all delivered; {summary}"


CHECKS: Final = (Check(CLIENT, "streams-smoke-test", "leader kill, broker restart, instance end", check_smoke_test),)
