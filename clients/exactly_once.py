"""Checks of exactly-once processing with Kafka 3.9's `TransactionalMessageCopier` and `StreamsEosTest`.

Both are programs of Kafka's own system tests. Copiers move the records of each partition with their offsets in
transactions, some of which they abort; the topology of the Streams test copies, repartitions and aggregates with
guarantee exactly_once_v2. Meanwhile a copier or an instance of the topology, the broker that coordinates a transaction,
and the leader of a partition are killed by SIGKILL, and finally all copiers. Then readers of committed records must
find in the output exactly the input below the committed offset, once and in order, and every aggregate of the topology
must be exact."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from clients import faults, packages
from clients.checks import READY_S_MAX, Check, Program, output_of, require, wait_until
from clients.java import java
from clients.kafka_broker import write_properties
from clients.kafka_tools import CONSUMER, PRODUCER, TOOLS, create_topic, create_topics, libraries, tool
from raftlog.testing import Cluster
from raftlog.testing.http import ask

CLIENT: Final = "kafka transactions 3.9"
_PARTITIONS: Final = 3
_LINES: Final = 60_000
_TRANSACTION_RECORDS: Final = 20
_COPIED_S_MAX: Final = 400.0
_IDLE_MS: Final = 20_000
"""Milliseconds without a record after which a reader stops, as it has reached the end."""
_EOS_MAIN: Final = "org.apache.kafka.streams.tests.StreamsEosTest"
_EOS_TOPICS: Final = ("data", "echo", "min", "sum", "repartition", "max", "cnt")
_EOS_PARTITIONS: Final = 5
_EOS_START_S_MAX: Final = 200.0
_EOS_END_S_MAX: Final = 400.0


def _kill_coordinator(cluster: Cluster, transactional_id: str) -> None:
    """Kill the broker that coordinates a transactional id, and start it again after a pause."""
    status, described = ask(cluster.addresses[0], f"/transactions/{transactional_id}")
    require(status == 200, f"the transactional id {transactional_id} is not described: {status} {described}")
    killed = cluster.nodes[described["coordinator_id"]]
    killed.kill()
    time.sleep(faults.PAUSE_S)
    killed.start(READY_S_MAX)
    cluster.wait_healthy(READY_S_MAX)


def _read_committed(cluster: Cluster, topic: str) -> dict[int, list[str]]:
    """Return the committed values of each partition, in the order of their offsets."""
    shown = ("--property", "print.partition=true", "--isolation-level", "read_committed")
    flags = ("--topic", topic, "--from-beginning", "--timeout-ms", str(_IDLE_MS), *shown)
    found: dict[int, list[str]] = {}
    for line in output_of(tool(cluster, CONSUMER, *flags), seconds=_COPIED_S_MAX).splitlines():
        partition, _, value = line.partition("\t")
        found.setdefault(int(partition.removeprefix("Partition:")), []).append(value)
    return found


class _Copiers:
    """Copier of each partition from `source` to `target`."""

    def __init__(self, cluster: Cluster, source: str, target: str) -> None:
        self._cluster, self._source, self._target = cluster, source, target
        self.running = [self._start(number) for number in range(_PARTITIONS)]

    def _start(self, number: int) -> Program:
        """Start the copier `number`, with the same transactional id each time."""
        topics = ("--input-topic", self._source, "--input-partition", str(number), "--output-topic", self._target)
        names = ("--consumer-group", self.name(number), "--transactional-id", self.name(number))
        size = ("--transaction-size", str(_TRANSACTION_RECORDS), "--enable-random-aborts")
        broker_list = ("--broker-list", self._cluster.kafka)
        main = f"{TOOLS}.TransactionalMessageCopier"
        return Program(java(libraries(), main, *broker_list, *topics, *names, *size))

    def name(self, number: int) -> str:
        """Return the transactional id of the copier of a partition, which is also the name of its group."""
        return f"{self._target}-{number}"

    def wait_for_commits(self) -> None:
        """Wait until each copier has committed two more transactions, or has copied everything."""
        for number, copier in enumerate(self.running):
            before = len(copier.lines)

            def has_committed(copier: Program = copier, before: int = before) -> bool:
                """Return whether the copier has printed two more lines since `before`, or has ended."""
                return len(copier.lines) >= before + 2 or not copier.is_running

            def describe(number: int = number, copier: Program = copier) -> str:
                return f"copier {number} has committed nothing{copier.describe_output()}"

            wait_until(has_committed, describe, _COPIED_S_MAX)

    def restart(self, number: int) -> None:
        """Kill a copier by SIGKILL, and start another one with its transactional id."""
        self.require_busy()
        self.running[number].kill()
        self.running[number] = self._start(number)

    def require_busy(self) -> None:
        """Raise `CheckFailed` if a copier has ended, because then a fault would not affect it."""
        for number, copier in enumerate(self.running):
            require(copier.is_running, f"copier {number} ended before a fault{copier.describe_output()}")

    def require_success(self) -> None:
        """Raise `CheckFailed` if a copier has failed."""
        for copier in self.running:
            if not copier.is_running:
                copier.end()

    def kill(self) -> None:
        """Kill all copiers by SIGKILL."""
        for copier in self.running:
            copier.kill()

    def abort(self) -> None:
        """Abort the transactions that the killed copiers have left open."""
        for number in range(_PARTITIONS):
            path = f"/transactions/{self.name(number)}/abort"
            status, answer = ask(self._cluster.addresses[0], path, method="POST")
            require(status // 100 == 2, f"POST {path}: {status} {answer}")

    def committed(self) -> dict[int, int]:
        """Return the committed offset of each partition of the source."""
        found = {}
        for number in range(_PARTITIONS):
            status, answer = ask(self._cluster.addresses[0], f"/groups/{self.name(number)}/offsets")
            require(status == 200, f"no offsets of {self.name(number)}: {status} {answer}")
            [entry] = answer["offsets"]
            found[number] = int(entry["offset"])
        return found


def check_copier(cluster: Cluster) -> str:
    """Copy records in transactions under kills of a copier, a coordinator, a leader, and all copiers."""
    source, target = "copier-input", "copier-output"
    for topic in (source, target):
        create_topic(cluster, topic, partitions=_PARTITIONS)
    output_of(tool(cluster, PRODUCER, "--topic", source), "".join(f"{number}\n" for number in range(_LINES)))
    copiers = _Copiers(cluster, source, target)
    try:
        copiers.wait_for_commits()
        copiers.restart(0)
        copiers.require_busy()
        _kill_coordinator(cluster, copiers.name(1))
        copiers.wait_for_commits()
        copiers.require_busy()
        faults.kill_leader(cluster, target)
        copiers.wait_for_commits()
        copiers.require_success()
    finally:
        copiers.kill()
    copiers.abort()
    committed = copiers.committed()
    expected, found = _read_committed(cluster, source), _read_committed(cluster, target)
    require(sum(map(len, expected.values())) == _LINES, "the input is incomplete")
    counts = {partition: (len(values), len(set(values))) for partition, values in found.items()}
    expected = {number: expected[number][:offset] for number, offset in committed.items()}
    require(found == expected, f"committed offsets {committed}; values and different values: {counts}")
    return f"{sum(committed.values())} records copied, each once and in order"


class _EosTest:
    """Programs of `StreamsEosTest`, which share their settings except the directory of the state."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._programs: list[Program] = []

    def start(self, name: str, command: str) -> Program:
        """Start a program; `name` names its directory."""
        directory: Path = self._cluster.directory
        settings = {
            "bootstrap.servers": self._cluster.kafka,
            "processing.guarantee": "exactly_once_v2",
            "state.dir": directory / f"eos-{name}",
        }
        path = directory / f"eos-{name}.properties"
        write_properties(path, settings)
        tests = packages.jars("kafka-tests-3.9") / "*"
        flags = ("-Xmx384m",)
        program = Program(java(libraries(), _EOS_MAIN, str(path), command, flags=flags, classes=tests))
        self._programs.append(program)
        return program

    def start_instance(self, name: str) -> Program:
        """Start an instance of the topology, and wait until it runs."""
        instance = self.start(name, "process-complex")
        instance.wait_line("-> RUNNING", _EOS_START_S_MAX)
        return instance

    def kill(self) -> None:
        """Kill all programs."""
        for program in self._programs:
            program.kill()


def _ongoing_id(cluster: Cluster) -> str:
    """Wait until a transaction is open, and return its transactional id."""
    found: list[str] = []

    def is_found() -> bool:
        """Return whether a transaction is ongoing; add the ids of ongoing transactions to `found`."""
        status, listed = ask(cluster.addresses[0], "/transactions")
        require(status == 200, f"transactions are not listed: {status} {listed}")
        found.extend(row["transactional_id"] for row in listed["transactions"] if row["state"] == "Ongoing")
        return bool(found)

    wait_until(is_found, lambda: "no transaction is open", _EOS_START_S_MAX)
    return found[0]


def check_streams_eos(cluster: Cluster) -> str:
    """Run `StreamsEosTest` with two instances under kills of an instance, a coordinator and a leader."""
    create_topics(cluster, _EOS_TOPICS, _EOS_PARTITIONS)
    test = _EosTest(cluster)
    try:
        driver = test.start("driver", "run")
        first, second = test.start_instance("first"), test.start_instance("second")
        _kill_coordinator(cluster, _ongoing_id(cluster))
        first.kill()
        first = test.start_instance("first")
        faults.kill_leader(cluster, "data")
        time.sleep(faults.PAUSE_S)
        for program in (driver, first, second):
            program.terminate()
            program.end(_EOS_END_S_MAX, code=None)
        for instance in (first, second):
            printed = "\n".join(instance.lines)
            is_closed = "EOS-TEST-CLIENT-CLOSED" in printed and "EOS-TEST-CLIENT-EXCEPTION" not in printed
            require(is_closed, f"an instance did not close{instance.describe_output()}")
        verifier = test.start("verifier", "verify-complex")
        lines = verifier.end(_EOS_END_S_MAX).splitlines()
        require("ALL-RECORDS-DELIVERED" in lines, f"results are wrong{verifier.describe_output()}")
    finally:
        test.kill()
    produced = [line for line in driver.lines if line.endswith(" records produced")]
    require(bool(produced), f"the driver produced nothing{driver.describe_output()}")
    return f"{produced[-1].rpartition(': ')[2]}; every output exactly once"


def _check(name: str, function: Callable[[Cluster], str], killed: str) -> Check:
    return Check(CLIENT, name, f"{killed} kill, coordinator kill, leader kill", function)


CHECKS: Final = (
    _check("message-copier", check_copier, "copier"),
    _check("streams-eos", check_streams_eos, "instance"),
)
