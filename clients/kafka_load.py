"""Checks with the tools of Kafka 3.9 that send or read many records, without a fault and under one.

The producers run at a fixed rate for a fixed time, during which the fault happens. They have to end without an error,
and the consumers have to read the exact number of records: fewer would mean a lost record, more one stored twice."""

import re
import time
from collections.abc import Callable, Sequence
from typing import Final

from clients import faults
from clients.checks import Check, Program, json_lines, output_of, require
from clients.faults import Fault
from clients.java import java
from clients.kafka_tools import CLIENT, TOOLS, create_topic, libraries, tool
from raftlog.testing import Cluster

_PER_S: Final = 2_000
_SECONDS: Final = 15
_RECORDS: Final = _PER_S * _SECONDS
_E2E_RECORDS: Final = 1_000
_GROUP: Final = "--group"


def _run_perf_test(cluster: Cluster, topic: str, fault: Fault | None) -> str:
    """Run `kafka-producer-perf-test` and then `kafka-consumer-perf-test`."""
    create_topic(cluster, topic)
    properties = ("--producer-props", f"bootstrap.servers={cluster.kafka}", "acks=all", "linger.ms=5")
    size = ("--topic", topic, "--num-records", str(_RECORDS), "--record-size", "1024", "--throughput", str(_PER_S))
    producer = Program(java(libraries(), f"{TOOLS}.ProducerPerformance", *size, *properties))
    try:
        _begin_fault(cluster, topic, fault, producer, "records sent")
        output = producer.end()
    finally:
        producer.kill()
    sent = re.search(r"(\d+) records sent, ([\d.]+) records/sec \(([\d.]+) MB/sec\).*ms 99\.9th", output)
    require(sent is not None and int(sent[1]) == _RECORDS, f"not all was sent:\n{output[-600:]}")
    failed = [line for line in producer.errors.splitlines() if line.startswith("org.apache.kafka.common.errors.")]
    require(not failed, f"{len(failed)} records were not sent, the first: {failed[:1]}")
    read = ("--topic", topic, "--messages", str(_RECORDS), "--timeout", "20000", "--hide-header")
    consumed = output_of(tool(cluster, f"{TOOLS}.ConsumerPerformance", *read)).splitlines()[-1].split(", ")
    require(int(consumed[4]) == _RECORDS, f"{consumed[4]} of {_RECORDS} records were read")
    return f"{_RECORDS} records sent and read; maximum latency {_maximum_latency(output)}"


def _maximum_latency(output: str) -> str:
    found = re.findall(r"([\d.]+ ms) max latency", output)
    return found[-1] if found else "?"


def _run_verifiable(cluster: Cluster, topic: str, fault: Fault | None, more: Sequence[str] = ()) -> str:
    """Run `kafka-verifiable-producer`, and at the same time three members of a group of `kafka-verifiable-consumer`."""
    create_topic(cluster, topic)
    records = _PER_S // 4 * _SECONDS
    consumers = []
    producer = None
    try:
        for number in range(3):
            member = (*more, *(("--group-instance-id", f"member-{number}") if "static" in topic else ()))
            read = ("--topic", topic, "--group-id", topic, "--session-timeout", "10000", "--verbose", *member)
            consumers.append(Program(tool(cluster, f"{TOOLS}.VerifiableConsumer", *read)))
        for consumer in consumers:
            consumer.wait_line("partitions_assigned")
        limits = ("--topic", topic, "--max-messages", str(records), "--throughput", str(_PER_S // 4))
        retries = cluster.directory / "retries.properties"
        retries.write_text("retries=2147483647\nenable.idempotence=true\n")
        settings = ("--producer.config", str(retries))
        producer = Program(tool(cluster, f"{TOOLS}.VerifiableProducer", *limits, *settings))
        _begin_fault(cluster, topic, fault, producer, "producer_send_success")
        sent = json_lines(producer.end())
        failed = [line for line in sent if line["name"] == "producer_send_error"]
        require(not failed, f"{len(failed)} records were not sent, the first: {failed[:1]}")
        acked = {(line["partition"], line["offset"]): line["value"] for line in sent if "offset" in line}
        require(len(acked) == records, f"{len(acked)} of {records} records were acknowledged")
        return _wait_until_read(acked, consumers)
    finally:
        for program in (*consumers, *([producer] if producer else [])):
            program.kill()


def _wait_until_read(acked: dict[tuple[int, int], str], consumers: list[Program]) -> str:
    """Wait until the group members have read every acknowledged record at its offset; return a summary."""
    until = time.monotonic() + 40
    while True:
        read: dict[tuple[int, int], str] = {}
        deliveries = 0
        for consumer in consumers:
            for line in json_lines("\n".join(list(consumer.lines))):
                if line["name"] == "record_data":
                    deliveries += 1
                    read[line["partition"], line["offset"]] = line["value"]
        if acked.keys() <= read.keys():
            break
        missing = acked.keys() - read.keys()
        require(time.monotonic() < until, f"{len(missing)} acknowledged records were not read: {sorted(missing)[:5]}")
        time.sleep(0.5)
    require(all(read[at] == value for at, value in acked.items()), "other values were read at some offsets")
    values = list(read.values())
    require(len(values) == len(set(values)), f"{len(values) - len(set(values))} records are stored twice")
    for consumer in consumers:
        consumer.terminate()
    for consumer in consumers:
        consumer.end(code=None)
        require("shutdown_complete" in "\n".join(consumer.lines), f"a member did not end{consumer.describe_output()}")
    return f"{len(acked)} records, each stored once, {deliveries} deliveries to 3 members"


def _begin_fault(cluster: Cluster, topic: str, fault: Fault | None, program: Program, line: str) -> None:
    """Begin the fault, if there is one, once the program has printed `line`."""
    if fault is None:
        return
    program.wait_line(line)
    fault(cluster, topic)


def _run_end_to_end(cluster: Cluster, topic: str, fault: Fault | None) -> str:
    """Run `kafka-e2e-latency`, which sends a record when the previous one was acknowledged and read."""
    assert fault is None, "the tool stops after a wait of its own"
    create_topic(cluster, topic, partitions=1)
    given = (cluster.kafka, topic, str(_E2E_RECORDS), "all", "100")
    output = output_of(java(libraries(), f"{TOOLS}.EndToEndLatency", *given))
    return ", ".join(line.strip() for line in output.splitlines() if "latency" in line or "Percentiles" in line)


def _run_compatibility(cluster: Cluster, topic: str, fault: Fault | None) -> str:
    """Run `ClientCompatibilityTest`, which must find every feature of a broker of Kafka 3.9."""
    assert fault is None, "a test of interfaces"
    create_topic(cluster, topic, partitions=1)
    expected = {
        "offsets-for-times-supported": True,
        "cluster-id-supported": True,
        "expect-record-too-large-exception": False,
        "create-topics-supported": True,
        "describe-acls-supported": True,
        "describe-configs-supported": True,
        "idempotent-producer-supported": True,
    }
    flags = [text for name, value in expected.items() for text in (f"--{name}", str(value))]
    nodes = ("--num-cluster-nodes", str(len(cluster.nodes)), "--topic", topic)
    output_of(tool(cluster, f"{TOOLS}.ClientCompatibilityTest", *nodes, *flags))
    return "as a broker of Kafka 3.9"


def _run_cooperative(cluster: Cluster, topic: str, fault: Fault | None) -> str:
    strategy = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    return _run_verifiable(cluster, topic, fault, ("--assignment-strategy", strategy))


_KILL: Final = ("leader kill", faults.kill_leader)
_RESTART: Final = ("broker restart", faults.restart_broker)
_MOVE: Final = ("partition move", faults.transfer_leadership)
_NONE: Final = ("", None)

_RUNS: Final = (
    ("perf-test", _run_perf_test, _NONE),
    ("perf-test", _run_perf_test, _KILL),
    ("perf-test", _run_perf_test, _RESTART),
    ("verifiable", _run_verifiable, _NONE),
    ("verifiable", _run_verifiable, _KILL),
    ("verifiable-cooperative", _run_cooperative, _RESTART),
    ("verifiable-static", _run_verifiable, _MOVE),
    ("e2e-latency", _run_end_to_end, _NONE),
    ("client-compatibility", _run_compatibility, _NONE),
)


def _make_check(number: int, name: str, run: Callable[..., str], faults_named: str, fault: Fault | None) -> Check:
    return Check(CLIENT, name, faults_named, lambda cluster: run(cluster, f"tools-{number}-{name}", fault))


CHECKS: Final = tuple(_make_check(number, name, run, *fault) for number, (name, run, fault) in enumerate(_RUNS))
