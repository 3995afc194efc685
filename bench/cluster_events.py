"""Measures of events of a cluster of three brokers: leader kill, a thousand partitions, first start."""

import contextlib
import itertools
import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from statistics import median
from typing import Any

from bench import probes
from bench.cluster_http import PATH, TOPIC, cluster_of_three, create_topic, port_of
from bench.measure import Figure, Measure, MeasureFailed, Values, Workspace, require
from bench.read_back import require_read_back
from bench.samples import VALUE_BYTES
from bench.service import HOST, free_port
from raftlog.testing import Cluster

KILLS = 5
PARTITIONS = 1_000
IDLE_S = 10.0
_BEFORE_KILL_S = 1.5
_GAP_S_MAX = 60.0
_SETTLED_S_MAX = 120.0
_QUIESCENCE_S = 5.0
"""Time until Raft groups have quiesced: about a second after their last work, and more on a busy machine."""
WRITERS = 8
_ANSWER_S_MAX = 15.0
_JSON = {"Content-Type": "application/vnd.kafka.json.v2+json"}
_POLL_S = 0.01


class Clients:
    """Writers of single records over HTTP, each connected to one broker, and to the next one after an error."""

    def __init__(self, ports: list[int]) -> None:
        self._ports = ports
        self._ends = threading.Event()
        self._lock = threading.Lock()
        self._sent = 0
        self.acks: list[float] = []
        """Time of each success."""
        self._threads = [threading.Thread(target=self._write, args=(number,)) for number in range(WRITERS)]
        for thread in self._threads:
            thread.start()

    @property
    def sent(self) -> int:
        return self._sent

    def _write(self, turn: int) -> None:
        connection = self._connect(turn)
        while not self._ends.is_set():
            with self._lock:
                number, self._sent = self._sent, self._sent + 1
            try:
                error = _post(connection, [(0, number)])[0]
            except (OSError, HTTPException):
                connection.close()
                turn += 1
                connection = self._connect(turn)
                self._ends.wait(_POLL_S)
                continue
            if not error:
                self.acks.append(time.monotonic())
        connection.close()

    def _connect(self, turn: int) -> HTTPConnection:
        return HTTPConnection(HOST, self._ports[turn % len(self._ports)], timeout=_ANSWER_S_MAX)

    def gap_after(self, at: float) -> float:
        """Return the longest time without a success since shortly before `at`.

        Waits until there are successes long enough after `at`."""
        until = at + _GAP_S_MAX
        while time.monotonic() < until:
            acks = [ack for ack in sorted(self.acks) if ack > at - _BEFORE_KILL_S / 2]
            gaps = [later - earlier for earlier, later in itertools.pairwise(acks)]
            if gaps and acks[-1] > at + _BEFORE_KILL_S:
                return max(gaps)
            time.sleep(_POLL_S)
        raise MeasureFailed(f"no write succeeded within {_GAP_S_MAX:g} s of the kill")

    def end(self) -> None:
        """Stop all writers."""
        self._ends.set()
        for thread in self._threads:
            thread.join()


def _post(connection: HTTPConnection, records: list[tuple[int, int]]) -> list[str]:
    """Write records, each a partition and a number for its value; return for each an error, or an empty text."""
    body = {
        "records": [
            {"partition": partition, "value": f"{number:012d}".ljust(VALUE_BYTES, "x")} for partition, number in records
        ]
    }
    connection.request("POST", PATH, json.dumps(body), _JSON)
    answer = json.loads(connection.getresponse().read())
    if "offsets" not in answer:
        return [str(answer)] * len(records)
    return ["" if each.get("offset") is not None else str(each) for each in answer["offsets"]]


def run_kills(workspace: Workspace) -> Values:
    """Kill the leader repeatedly while clients write through all brokers."""
    gaps = []
    with workspace.directory() as directory, cluster_of_three(directory) as cluster:
        create_topic(cluster)
        clients = Clients([port_of(cluster, node) for node in cluster.nodes])
        try:
            for _ in range(KILLS):
                leader = cluster.leader(TOPIC)
                time.sleep(_BEFORE_KILL_S)
                killed_at = time.monotonic()
                cluster.nodes[leader].kill()
                gaps.append(clients.gap_after(killed_at))
                cluster.nodes[leader].start()
                cluster.wait_healthy()
        finally:
            clients.end()
        stored = require_read_back(port_of(cluster, 1), TOPIC, len(clients.acks), clients.sent)
    return {"seconds": median(gaps), "longest_s": max(gaps), "shortest_s": min(gaps), **stored}


def _write_everywhere(ports: list[int], first_number: int) -> float:
    """Write one record to each partition, with retries until its acknowledgement; return the time of the last."""
    shares = [range(start, PARTITIONS, WRITERS) for start in range(WRITERS)]

    def write(turn: int) -> float:
        """Write one record to each partition of this turn's share, with retries; return the time of the end."""
        left = dict.fromkeys(shares[turn], "")
        connection = HTTPConnection(HOST, ports[turn % len(ports)], timeout=_ANSWER_S_MAX)
        until = time.monotonic() + _GAP_S_MAX
        with contextlib.closing(connection):
            while left and time.monotonic() < until:
                done = _post(connection, [(partition, first_number + partition) for partition in left])
                left = {partition: why for partition, why in zip(left, done, strict=True) if why}
        require(
            not left, f"{len(left)} partitions took no write within {_GAP_S_MAX:g} s, {next(iter(left.items()), '')}"
        )
        return time.monotonic()

    with ThreadPoolExecutor(WRITERS) as pool:
        return max(pool.map(write, range(WRITERS)))


def run_partitions(workspace: Workspace) -> Values:
    """Create many partitions, leave them idle, then repeatedly kill the broker that leads a third of them."""
    with workspace.directory() as directory, cluster_of_three(directory) as cluster:
        begin = time.monotonic()
        answered_s = create_topic(cluster, PARTITIONS)
        ports = [port_of(cluster, node) for node in cluster.nodes]
        created_s = _write_everywhere(ports, 0) - begin
        idle = _measure_idle(cluster)
        gaps, least_led = [], PARTITIONS
        for turn in range(KILLS):
            _wait_until_settled(cluster)
            victim, led = _find_busiest_leader(cluster)
            least_led = min(least_led, led)
            killed_at = time.monotonic()
            cluster.nodes[victim].kill()
            others = [port for node, port in zip(cluster.nodes, ports, strict=True) if node != victim]
            gaps.append(_write_everywhere(others, (turn + 1) * PARTITIONS) - killed_at)
            cluster.nodes[victim].start()
    return {
        "created_s": created_s,
        "answered_s": answered_s,
        **idle,
        "gap_s": median(gaps),
        "longest_gap_s": max(gaps),
        "shortest_gap_s": min(gaps),
        "led_by_the_killed": least_led,
    }


def _wait_until_settled(cluster: Cluster) -> None:
    """Wait until the brokers are healthy, and every partition is led by its preferred leader.

    Before that, Raft groups may not quiesce, and leaders are not distributed evenly."""
    cluster.wait_healthy(_SETTLED_S_MAX)
    until = time.monotonic() + _SETTLED_S_MAX
    while any(each["leader"] != each["replicas"][0]["broker"] for each in _describe_partitions(cluster)):
        require(time.monotonic() < until, f"leaders are not at their preferred replicas after {_SETTLED_S_MAX:g} s")
        time.sleep(1.0)
    time.sleep(_QUIESCENCE_S)


def _describe_partitions(cluster: Cluster) -> list[dict[str, Any]]:
    described: list[dict[str, Any]] = cluster.nodes[1].get(PATH, _ANSWER_S_MAX)["partitions"]
    return described


def _find_busiest_leader(cluster: Cluster) -> tuple[int, int]:
    """Return the broker that leads most partitions, and their number."""
    return Counter(partition["leader"] for partition in _describe_partitions(cluster)).most_common(1)[0]


def _measure_idle(cluster: Cluster) -> dict[str, float]:
    """Wait until the cluster has settled; return its CPU, memory and open files while it is idle."""
    pids = [node.pid for node in cluster.nodes.values()]
    begin = time.monotonic()
    _wait_until_settled(cluster)
    settled_s = time.monotonic() - begin
    before = sum(map(probes.cpu_seconds, pids))
    time.sleep(IDLE_S)
    after = sum(map(probes.cpu_seconds, pids))
    return {
        "settled_s": settled_s,
        "idle_cpu_percent": (after - before) / IDLE_S * 100,
        "rss_mib": max(probes.memory_mib(pid)[0] for pid in pids),
        "files": max(probes.open_files(pid) for pid in pids),
    }


@contextlib.contextmanager
def dev_process(directory: Path) -> Iterator["subprocess.Popen[str]"]:
    """Run `raftlog dev`; stop it by SIGINT at the end of the block, and check its exit code."""
    command = [sys.executable, "-m", "raftlog.cli", "dev", "--json", "--data-dir", str(directory)]
    process = subprocess.Popen(
        [*command, "--base-port", str(_base_port())], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield process
        process.send_signal(signal.SIGINT)
        require(process.wait(_GAP_S_MAX) == 0, f"raftlog dev ended with exit code {process.returncode}")
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait()


def _base_port() -> int:
    """Return a base port for three nodes whose ports are below the system's ephemeral ones."""
    return 20_000 + free_port() % 1_000 * 10


def run_dev(workspace: Workspace) -> Values:
    """Measure the start of `raftlog dev`, and its first topic."""
    with workspace.directory() as directory:
        begin = time.monotonic()
        with dev_process(directory / "dev") as process:
            assert process.stdout is not None, "a child without stdout"
            printed = process.stdout.readline()
            ready_s = time.monotonic() - begin
            require(bool(printed), "raftlog dev ended")
            nodes: list[dict[str, Any]] = json.loads(printed)["nodes"]
            connection = HTTPConnection(nodes[0]["http"], timeout=_ANSWER_S_MAX)
            topic = {"topic_name": TOPIC, "partitions_count": 1, "replication_factor": len(nodes)}
            connection.request("POST", "/v3/clusters/-/topics", json.dumps(topic), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            require(answer.status // 100 == 2, f"the topic was not created: {answer.status} {answer.read()!r}")
            answer.read()
            error = _post(connection, [(0, 0)])[0]
            require(not error, f"the first write was not acknowledged: {error}")
            written_s = time.monotonic() - begin
            connection.close()
    return {"ready_s": ready_s, "written_s": written_s}


MEASURES = (
    Measure(
        "cluster-failover",
        "three brokers over HTTP: SIGKILL of the leader under load",
        f"{WRITERS} clients write single records, each through one of the three brokers, and through the next one "
        f"when theirs fails. The partition's leader is killed, {KILLS} times; counted is the longest time without a "
        "successful write around each kill. The broker is started again. At the end every acknowledged record has to "
        "be read back.",
        (
            Figure("seconds", f"time without a successful write, median of {KILLS}", "s", at_most=0.6),
            Figure("longest_s", "… longest", "s"),
        ),
        run_kills,
    ),
    Measure(
        "cluster-partitions",
        f"three brokers: one topic of {PARTITIONS:,} partitions, three replicas each",
        "The topic is created over HTTP; the answer arrives when its partitions have leaders, or after a short wait "
        "for that; the creation ends when each partition accepted a write. "
        f"Once every leader is the preferred one, and {_QUIESCENCE_S:g} s later, the brokers are measured for "
        f"{IDLE_S:g} s without requests. Then the broker "
        f"that leads most is killed, and each partition is written through the others until it accepts; {KILLS} "
        "times.",
        (
            Figure("created_s", "created, and each took a write", "s", at_most=20),
            Figure("answered_s", "… until the answer to the creation", "s"),
            Figure("idle_cpu_percent", "idle, CPU of all three together", "% of a core", at_most=5),
            Figure("rss_mib", "resident memory, the largest broker", "MiB", at_most=250),
            Figure("files", "open files, most of a broker", "", at_most=1_024),
            Figure("gap_s", f"SIGKILL of a broker until all are writable, median of {KILLS}", "s", at_most=3),
            Figure("longest_gap_s", "… longest", "s"),
        ),
        run_partitions,
    ),
    Measure(
        "dev",
        "`raftlog dev`: three nodes from nothing",
        "From the fork of `raftlog dev --json` on an empty directory to its line, which reports that the cluster is "
        "writable; and until a topic with three replicas is created and accepted a write. Ctrl-C then has to end it "
        "with exit code 0.",
        (
            Figure("ready_s", "from nothing to writable", "s", at_most=3),
            Figure("written_s", "… until a new topic took a write", "s"),
        ),
        run_dev,
    ),
)
