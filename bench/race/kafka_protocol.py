"""Measures over the Kafka protocol for Kafka and raftlog.

Their load comes from tools of Kafka 3.9, `java/Load.java`, the Go program in `load/` and one in Python. The leader of
partition 0 is killed five times; the clients run with their defaults, and every kill waits until all replicas are in
sync again."""

import json
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from bench.measure import MeasureFailed
from bench.race import group_rebalances, transactions
from bench.race.accounting import raise_priority, run_generator, start_generator, stop_generator, wait_for_generator
from bench.race.system import Values
from clients import packages
from clients.java import LOADING, java

PARTITIONS: Final = 6
RECORDS: Final = 500_000
RECORD_BYTES: Final = 1024
CONNECTIONS: Final = 64
SECONDS: Final = 8
OFFERED_PER_S: Final = 1_000
OFFERED_CONNECTIONS: Final = 4
OFFERED_S: Final = 12
SMALL_BYTES: Final = 100
IDLE_CONNECTIONS: Final = 5_000
WIDE_PARTITIONS: Final = 1_000
WIDE_CONSUMERS: Final = 50
WIDE_RECORDS_PER_S: Final = 100
WIDE_S: Final = 20
BEFORE_KILL_S: Final = 3.0
_TOPIC_S_MAX: Final = 60.0
_TOOLS: Final = "org.apache.kafka.tools"
_HERE: Final = Path(__file__).resolve().parent
_LIBRDKAFKA: Final = ("confluent-kafka==2.16.1",)


class KafkaProtocolLoad:
    """Load on one running system; `kill(node)` and `start(node)` take the protocol's node ids."""

    def __init__(
        self,
        bootstrap: str,
        kill: Callable[[int], None],
        start: Callable[[int], None],
        gap_s: int,
        pids: Callable[[], Sequence[int]],
    ) -> None:
        self._environment = {"BOOTSTRAP": bootstrap}
        self._bootstrap = bootstrap
        self._kill = kill
        self._start = start
        self._gap_s = gap_s
        self._pids = pids
        self._libraries = packages.jars("kafka-3.9")
        self._classes = packages.java_classes(_HERE / "java" / "Load.java", self._libraries)
        self._produced = ""

    def measures(self) -> Mapping[str, Callable[[], Values]]:
        """Return all measures by name."""
        return {
            "idle": self.hold_idle_connections,
            "produce": self.produce,
            "consume": self.consume,
            "closed": self.run_closed,
            "offered": self.run_offered,
            "wide": self.read_many_partitions,
            "group": self.rebalance_group,
            "transactions": self.run_transactions,
            "transactions_offered": self.run_offered_transactions,
            "transactions_beside": self.run_beside_transactions,
            "transactions_stall": self.measure_transaction_stall,
            "gap": self.measure_gap,
            "gap_librdkafka": self.measure_gap_librdkafka,
        }

    def hold_idle_connections(self) -> Values:
        """Hold 5,000 idle connections to one node; return the memory of the largest node."""
        shape = map(str, (IDLE_CONNECTIONS, *self._pids()))
        command = [sys.executable, "-m", "bench.race.idle_connections", self._bootstrap, *shape]
        return {name: float(value) for name, value in json.loads(run_generator(command)).items()}

    def rebalance_group(self) -> Values:
        """Let a member join a group of ten Java consumers, and kill one of ten; return the seconds until all settle."""
        classes = packages.java_classes(_HERE / "java" / "Groups.java", self._libraries)
        topic = self._create_topic(group_rebalances.PARTITIONS)

        def command(*arguments: object) -> list[str]:
            return java(self._libraries, "Groups", *map(str, arguments), classes=classes)

        return group_rebalances.measure_rebalances(command, self._environment, topic)

    def run_transactions(self) -> Values:
        """Run transactions one after another with each of 16 Java producers."""
        return transactions.run_closed(*self._transaction_load(transactions.PARTITIONS))

    def run_offered_transactions(self) -> Values:
        """Run 100 transactions a second."""
        return transactions.run_offered(*self._transaction_load(transactions.PARTITIONS))

    def run_beside_transactions(self) -> Values:
        """Send records without transactions to a partition with and without open ones."""
        return transactions.run_beside_open(*self._transaction_load(1), self._pids())

    def measure_transaction_stall(self) -> Values:
        """Kill a transaction coordinator; return the longest stall of its producers."""
        load = self._transaction_load(transactions.PARTITIONS)

        def start(node: int) -> None:
            with suppress(MeasureFailed):
                self._start(node)

        return transactions.measure_stall(*load, self._gap_s, self._kill, start)

    def _transaction_load(self, partitions: int) -> tuple[transactions.Command, dict[str, str], str]:
        """Return the command and environment of the Java program, and a new topic."""
        classes = packages.java_classes(_HERE / "java" / "Transactions.java", self._libraries)

        def command(*arguments: object) -> list[str]:
            return java(self._libraries, "Transactions", *map(str, arguments), flags=LOADING, classes=classes)

        return command, self._environment, self._create_topic(partitions)

    def produce(self) -> Values:
        """Run `kafka-producer-perf-test`."""
        if self._produced:
            self._run("delete", self._produced)
        self._produced = self._create_topic(PARTITIONS)
        size = ("--num-records", str(RECORDS), "--record-size", str(RECORD_BYTES), "--throughput", "-1")
        properties = ("acks=all", "batch.size=65536", "linger.ms=5", f"bootstrap.servers={self._bootstrap}")
        arguments = ("--topic", self._produced, *size, "--producer-props", *properties)
        lines = run_generator(
            java(self._libraries, f"{_TOOLS}.ProducerPerformance", *arguments, flags=LOADING)
        ).splitlines()
        words = lines[-1].split()
        if int(words[0]) != RECORDS:
            raise MeasureFailed(f"not all records were sent: {lines[-3:]}")
        return {"mib_per_s": float(words[5].strip("("))}

    def consume(self) -> Values:
        """Run `kafka-consumer-perf-test` over the records of the last `produce`."""
        if not self._produced:
            self.produce()
        size = ("--messages", str(RECORDS), "--timeout", "20000", "--hide-header")
        arguments = ("--bootstrap-server", self._bootstrap, "--topic", self._produced, *size)
        output = run_generator(java(self._libraries, f"{_TOOLS}.ConsumerPerformance", *arguments, flags=LOADING))
        fields = output.splitlines()[-1].split(", ")
        if int(fields[4]) < RECORDS:
            raise MeasureFailed(f"{fields[4]} of {RECORDS} records were read")
        return {"mib_per_s": float(fields[3]), "fetch_mib_per_s": float(fields[8])}

    def run_closed(self) -> Values:
        """Send records one after another on each of 64 connections, to one partition."""
        return self._run_go("closed", CONNECTIONS, SECONDS, SMALL_BYTES)

    def run_offered(self) -> Values:
        """Send 1,000 records a second, each at its due time."""
        return self._run_go("offered", OFFERED_PER_S, OFFERED_S, OFFERED_CONNECTIONS, SMALL_BYTES)

    def _run_go(self, load: str, *shape: int) -> Values:
        """Run a load of the Go program on a new topic."""
        topic = self._create_topic(1)
        command = [str(packages.go_program(_HERE / "load")), "kafka", load, topic, *map(str, shape)]
        return self._require_success(json.loads(run_generator(command, self._environment).splitlines()[-1]))

    def read_many_partitions(self) -> Values:
        """Read 1,000 partitions with 50 consumers; `cpu` is the CPU time of the brokers, in cores."""
        shape = map(str, (WIDE_PARTITIONS, WIDE_CONSUMERS, WIDE_RECORDS_PER_S, WIDE_S, *self._pids()))
        found = json.loads(run_generator([sys.executable, "-m", "bench.race.many_partitions", self._bootstrap, *shape]))
        if found["records"] < WIDE_CONSUMERS * WIDE_RECORDS_PER_S / 2:
            raise MeasureFailed(f"consumers received {found['records']:.0f} records a second")
        return {name: float(value) for name, value in found.items()}

    def measure_gap(self) -> Values:
        """Kill the leader under the load of a Java producer; return the gap."""
        topic = self._create_topic(1)
        return self._measure_gap(topic, self._java("gap", topic, self._gap_s))

    def measure_gap_librdkafka(self) -> Values:
        """Kill the leader under the load of a librdkafka producer; return the gap."""
        python = packages.python_environment("librdkafka", _LIBRDKAFKA)
        topic = self._create_topic(1)
        return self._measure_gap(topic, [str(python), str(_HERE / "librdkafka_gap.py"), topic, str(self._gap_s)])

    def _measure_gap(self, topic: str, command: list[str]) -> Values:
        """Kill the topic's leader during the load of a producer program, restart it, and return the gap."""
        leader = int(self._run("leader", topic)["leader"])
        process = start_generator(command, self._environment)
        try:
            assert process.stdout is not None, "stdout is a pipe"
            process.stdout.readline()
            raise_priority([process.pid])
            time.sleep(BEFORE_KILL_S)
            self._kill(leader)
            found = json.loads(wait_for_generator(process).splitlines()[-1])
        finally:
            stop_generator(process)
            with suppress(MeasureFailed):
                self._start(leader)
        return self._require_success(found)

    def _require_success(self, found: dict[str, Any]) -> Values:
        if found.pop("failed"):
            raise MeasureFailed("records failed")
        return {name: float(value) for name, value in found.items()}

    def _create_topic(self, partitions: int) -> str:
        """Create a topic and return its name; after a kill, retry until all brokers take part again."""
        name = f"race-{uuid.uuid4().hex[:8]}"
        until = time.monotonic() + _TOPIC_S_MAX
        while True:
            try:
                run_generator(self._java("topic", name, partitions), self._environment)
                return name
            except MeasureFailed:
                if time.monotonic() > until:
                    raise
                name = f"race-{uuid.uuid4().hex[:8]}"

    def _java(self, *arguments: object) -> list[str]:
        return java(self._libraries, "Load", *map(str, arguments), classes=self._classes)

    def _run(self, *arguments: object) -> dict[str, Any]:
        output = run_generator(self._java(*arguments), self._environment)
        return dict(json.loads(output.splitlines()[-1])) if output.strip() else {}
