"""Check of Kafka Connect 3.9 in distributed mode: file → connector → topic → connector → file, with two workers.

Connect delivers at least once: after the kill of a worker a record may be there twice, but none may be missing. Connect
keeps its configuration, status and source offsets in three compacted topics, and its workers are a group of protocol
type `connect`. At the end the offsets of the sink connector are deleted, so that it writes every record again."""

from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from clients import faults
from clients.checks import Check, CheckFailed, Program, require, wait_until
from clients.java import java
from clients.kafka_tools import libraries
from clients.numbered_lines import NumberedLines
from clients.stored import end_offsets, read_topic
from raftlog.testing import BrokerFailed, Cluster
from raftlog.testing.http import ask
from raftlog.testing.ports import address_of, reserve_port

CLIENT: Final = "kafka connect 3.9"
_MAIN: Final = "org.apache.kafka.connect.cli.ConnectDistributed"
_FILE: Final = "org.apache.kafka.connect.file.FileStream"
_STRINGS: Final = "org.apache.kafka.connect.storage.StringConverter"
_TOPIC: Final = "connect-lines"
_SOURCE: Final = "file-source"
_SINK: Final = "file-sink"
_PARTITIONS: Final = 3
_PER_S: Final = 200
_RETRIED: Final = (404, 409)
"""Status codes while a worker starts, and during a rebalance of the workers."""
_REST_S_MAX: Final = 300.0
_DELIVERY_S_MAX: Final = 300.0


class ConnectCluster:
    """Two workers in distributed mode, which share all connectors, and their REST API."""

    def __init__(self, cluster: Cluster) -> None:
        self._held = [reserve_port() for _ in range(2)]
        self._workers: dict[str, Program] = {}
        """Running workers by the address of their REST API, which is also their worker id."""
        for held in self._held:
            address = address_of(held)
            properties = cluster.directory / f"connect-{address.replace(':', '-')}.properties"
            properties.write_text(_worker_properties(cluster.kafka, address))
            self._workers[address] = Program(java(libraries(), _MAIN, str(properties)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers.values():
            worker.kill()
        for held in self._held:
            held.close()

    def request(self, path: str, method: str = "GET", body: object = None) -> Any:
        """Send a request to any worker, and repeat it while the workers start or rebalance; return the answer."""
        answers: list[object] = []

        def is_answered() -> bool:
            """Send the request to each worker until one accepts it; return whether one did. Raises `CheckFailed`."""
            for address in self._workers:
                try:
                    status, answer = ask(address, path, method=method, body=body)
                except BrokerFailed as error:
                    answers.append(error)
                    continue
                answers.append(answer)
                if status // 100 == 2:
                    return True
                if status not in _RETRIED and status < 500:
                    raise CheckFailed(f"{method} {path}: {status} {answer}{self._describe()}")
            return False

        wait_until(is_answered, lambda: f"{method} {path} failed: {answers[-1]}{self._describe()}", _REST_S_MAX)
        return answers[-1]

    def create(self, name: str, **config: object) -> None:
        """Create a connector."""
        self.request(f"/connectors/{name}/config", "PUT", {key.replace("_", "."): str(v) for key, v in config.items()})

    def wait_state(self, name: str, state: str) -> dict[str, Any]:
        """Wait for a state of a connector and its tasks; return its status. A stopped connector has no tasks."""
        seen: dict[str, Any] = {}

        def is_reached() -> bool:
            """Return whether the connector and its task have the state."""
            seen.update(self.request(f"/connectors/{name}/status"))
            tasks = [task["state"] for task in seen["tasks"]]
            wanted = [] if state == "STOPPED" else [state]
            return seen["connector"]["state"] == state and tasks == wanted

        wait_until(is_reached, lambda: f"{name} is not {state}: {seen}{self._describe()}", _REST_S_MAX)
        return seen

    def kill_worker_of(self, name: str) -> None:
        """Kill the worker that runs a connector's task; the other worker takes the task over."""
        address = self.wait_state(name, "RUNNING")["tasks"][0]["worker_id"]
        self._workers.pop(address).kill()

    def _describe(self) -> str:
        return "".join(worker.describe_output() for worker in self._workers.values())


def _worker_properties(bootstrap: str, address: str) -> str:
    """Return the settings of a worker: Connect's defaults, except for short pauses."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "connect-workers",
        "key.converter": _STRINGS,
        "value.converter": _STRINGS,
        "config.storage.topic": "connect-configs",
        "offset.storage.topic": "connect-offsets",
        "status.storage.topic": "connect-status",
        "offset.flush.interval.ms": 1_000,
        "scheduled.rebalance.max.delay.ms": 1_000,
        "listeners": f"http://{address}",
        "rest.advertised.host.name": address.partition(":")[0],
        "plugin.discovery": "service_load",
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def check_file_connectors(cluster: Cluster) -> str:
    """Copy the lines of a file through a topic to another file, under faults of brokers and of a worker."""
    source, sink = cluster.directory / "connect-source.txt", cluster.directory / "connect-sink.txt"
    source.touch()
    with ConnectCluster(cluster) as connect:
        created = {"topic_creation_default_partitions": _PARTITIONS, "topic_creation_default_replication_factor": -1}
        connect.create(
            _SOURCE, connector_class=f"{_FILE}SourceConnector", tasks_max=1, file=source, topic=_TOPIC, **created
        )
        lines = NumberedLines(lambda text: _append(source, text), str, _PER_S)
        _wait_until_created(cluster)
        connect.create(_SINK, connector_class=f"{_FILE}SinkConnector", tasks_max=1, file=sink, topics=_TOPIC)
        for fault in (faults.kill_leader, faults.restart_broker):
            _wait_until_copied(sink, lines.count)
            fault(cluster, _TOPIC)
        _wait_until_copied(sink, lines.count)
        connect.kill_worker_of(_SINK)
        _wait_until_copied(sink, lines.count)
        count = lines.stop()
        _wait_until_copied(sink, count)
        stored = _verify_topic(cluster, count)
        delivered = _numbers(sink)
        require(set(delivered) == set(range(count)), "the sink's file has other lines than the source's")
        _rewrite(cluster, connect, sink, stored)
    return f"{count} lines; {stored - count} twice in the topic, {len(delivered) - count} twice in the sink's file"


def _append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def _numbers(path: Path) -> list[int]:
    """Return the numbers in complete lines of a file; none if it does not exist."""
    text = path.read_text() if path.exists() else ""
    return [int(line) for line in text[: text.rfind("\n") + 1].split()]


def _wait_until_created(cluster: Cluster) -> None:
    """Wait until the source connector's task has created the topic."""
    wait_until(
        lambda: ask(cluster.addresses[0], f"/topics/{_TOPIC}")[0] == 200,
        lambda: f"the source connector has not created {_TOPIC}",
        _DELIVERY_S_MAX,
    )


def _wait_until_copied(sink: Path, count: int) -> None:
    """Wait until the sink's file has all lines below a number."""
    wait_until(
        lambda: set(_numbers(sink)) >= set(range(count)),
        lambda: f"{count - len(set(_numbers(sink)))} of {count} lines are not in the sink's file",
        _DELIVERY_S_MAX,
    )


def _verify_topic(cluster: Cluster, count: int) -> int:
    """Verify that the topic has every line, in order per partition; return the number of its records."""
    partitions = [[int(record.value) for record in records] for records in read_topic(cluster.kafka, _TOPIC).values()]
    missing = set(range(count)).difference(*partitions)
    require(not missing, f"{len(missing)} lines are not in the topic: {sorted(missing)[:5]}")
    require(len(partitions) == _PARTITIONS, f"the topic has {len(partitions)} partitions")
    for numbers in partitions:
        require(is_ascending(dict.fromkeys(numbers)), "the lines of a partition are not in order")
    return sum(map(len, partitions))


def is_ascending(numbers: Iterable[int]) -> bool:
    """Return whether numbers are in ascending order."""
    listed = list(numbers)
    return listed == sorted(listed)


def _rewrite(cluster: Cluster, connect: ConnectCluster, sink: Path, stored: int) -> None:
    """Verify the sink's committed offsets, delete them, and wait until all records are written again."""
    connect.request(f"/connectors/{_SINK}/stop", "PUT")
    connect.wait_state(_SINK, "STOPPED")
    rows = connect.request(f"/connectors/{_SINK}/offsets")["offsets"]
    committed = {row["partition"]["kafka_partition"]: row["offset"]["kafka_offset"] for row in rows}
    ends = end_offsets(cluster.kafka, _TOPIC)
    require(committed == ends, f"the sink has committed {committed}, and the topic ends at {ends}")
    before = len(_numbers(sink))
    connect.request(f"/connectors/{_SINK}/offsets", "DELETE")
    connect.request(f"/connectors/{_SINK}/resume", "PUT")
    wait_until(
        lambda: len(_numbers(sink)) >= before + stored,
        lambda: f"after the reset {len(_numbers(sink)) - before} of {stored} records were written again",
        _DELIVERY_S_MAX,
    )
    require(len(_numbers(sink)) == before + stored, "records were written twice without a fault")
    for name in (_SOURCE, _SINK):
        connect.request(f"/connectors/{name}", "DELETE")
    wait_until(lambda: connect.request("/connectors") == [], lambda: "deleted connectors are listed", _REST_S_MAX)


CHECKS: Final = (Check(CLIENT, "connect", "leader kill, broker restart, worker kill", check_file_connectors),)
