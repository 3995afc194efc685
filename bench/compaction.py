"""Measure of the compaction of a partition with often overwritten keys while clients write: time and latencies.

    seconds = from the change of its topic to a compacted one until the last replica logs "log_compacted"

It includes the pause until the leader checks the partition, a minute at most, a checkpoint, and the work at the rate
limit of compaction."""

import http.client
import itertools
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.child import run_in_child
from bench.cluster_http import NODES, PATH, TOPIC, port_of, ports_of
from bench.measure import Figure, Measure, MeasureFailed, Values, Workspace, require
from bench.open_loop import offer
from bench.read_back import BATCHES_TYPE
from bench.samples import RECORDS_PER_BATCH, percentile, values
from bench.service import HOST, REQUEST_S_MAX
from raftlog.records import NewRecord, build_batch, read_header, read_records
from raftlog.testing import BrokerFailed, Cluster
from raftlog.testing.http import ask

MIB = 1_024
KEYS = 100_000
OFFERED_PER_S = 500
OFFERED_KEYS = 1_000
QUIET_S = 15.0
_ROUND_S = 20.0
_COMPACTED_S_MAX = 400.0
_BATCHES_A_REQUEST = 8
_FILLERS = 4
_POLL_S = 0.5
_SEGMENT_BYTES = 64 << 20
_READ_BYTES = 4 << 20


def keyed_batches(first_key: int, count: int) -> list[bytes]:
    """Return `count` batches of a thousand records of 100 bytes each, all with different keys."""
    found = []
    for start in range(first_key, first_key + count * RECORDS_PER_BATCH, RECORDS_PER_BATCH):
        records = zip(itertools.count(start), values(RECORDS_PER_BATCH), strict=False)
        found.append(bytes(build_batch([NewRecord(value, b"%08d" % key) for key, value in records])))
    return found


def fill(port: int, size_bytes: int) -> dict[str, int]:
    """Write all keys repeatedly until `size_bytes` are acknowledged; in a child process."""
    pool = keyed_batches(0, KEYS // RECORDS_PER_BATCH)
    requests = itertools.count()
    wanted = -(-size_bytes // sum(map(len, pool[:_BATCHES_A_REQUEST])))

    def write() -> None:
        """Send batches to partition 0 over one connection until `wanted` requests are begun."""
        connection = http.client.HTTPConnection(HOST, port, timeout=REQUEST_S_MAX)
        while (number := next(requests)) < wanted:
            some = [pool[(number * _BATCHES_A_REQUEST + at) % len(pool)] for at in range(_BATCHES_A_REQUEST)]
            connection.request("POST", f"{PATH}/partitions/0", b"".join(some), {"Content-Type": BATCHES_TYPE})
            answer = connection.getresponse()
            answered = answer.read()
            require(answer.status == 200, f"a batch was not taken: {answer.status} {answered[:300]!r}")
        connection.close()

    with ThreadPoolExecutor(_FILLERS) as writers:
        for done in [writers.submit(write) for _ in range(_FILLERS)]:
            done.result()
    return {"records": wanted * _BATCHES_A_REQUEST * RECORDS_PER_BATCH}


def read_newest(port: int) -> dict[str, int]:
    """Read the partition; return the numbers of records, keys, and falling offsets; in a child process."""
    connection = http.client.HTTPConnection(HOST, port, timeout=REQUEST_S_MAX)
    newest: dict[bytes | None, int] = {}
    records = offset = fell = 0
    while True:
        path = f"{PATH}/partitions/0/records?offset={offset}&max_bytes={_READ_BYTES}&timeout=100"
        connection.request("GET", path, headers={"Accept": BATCHES_TYPE})
        answer = connection.getresponse()
        body = memoryview(answer.read())
        require(answer.status == 200, f"offset {offset} could not be read: {answer.status}")
        if not body:
            connection.close()
            return {"records": records, "keys": len(newest), "fell": fell, "offset": offset}
        while body:
            header = read_header(body)
            for record in read_records(body[: header.size]):
                fell += record.offset <= newest.get(record.key, -1)
                newest[record.key] = record.offset
                records += 1
            offset, body = header.next_offset, body[header.size :]


@contextmanager
def _logging_cluster(directory: Path) -> Iterator[Cluster]:
    """Run three brokers whose log output includes compactions."""
    try:
        with Cluster(NODES, data_dir=directory, with_cuts=False, serve_flags=("--log-level", "info")) as cluster:
            yield cluster
    except BrokerFailed as failure:
        raise MeasureFailed(str(failure)) from failure


def _alter_config(cluster: Cluster, name: str, value: str) -> None:
    """Set one configuration of the topic."""
    body = {"data": [{"name": name, "value": value}]}
    path = f"/v3/clusters/-/topics/{TOPIC}/configs:alter"
    status, answered = ask(cluster.nodes[1].http, path, method="POST", body=body)
    require(status // 100 == 2, f"{name} was not altered: {status} {answered}")


def _create_topic(cluster: Cluster) -> None:
    """Create the topic with small segments and three replicas."""
    configs = [{"name": "segment.bytes", "value": str(_SEGMENT_BYTES)}]
    body = {"topic_name": TOPIC, "partitions_count": 1, "replication_factor": 3, "configs": configs}
    status, answered = ask(cluster.nodes[1].http, "/v3/clusters/-/topics", method="POST", body=body)
    require(status // 100 == 2, f"the topic was not created: {status} {answered}")


def _has_compacted_all(cluster: Cluster) -> bool:
    """Return whether the log output of each broker reports the compaction of the topic's partition."""
    name = f"{TOPIC}/0"
    return all(
        any(json.loads(line).get("group") == name for line in node.log_text().splitlines() if '"log_compacted"' in line)
        for node in cluster.nodes.values()
    )


def _bytes_on_disk(cluster: Cluster) -> int:
    """Return the size of the largest replica in bytes."""
    directories = (Path(node.data_dir) / TOPIC / "0" for node in cluster.nodes.values())
    return max(sum(file.stat().st_size for file in directory.glob("*.log")) for directory in directories)


def run(workspace: Workspace) -> Values:
    """Fill the partition, measure it quiet and during compaction under the same load, then read all of it."""
    size_bytes = workspace.bulk_mib(MIB) << 20
    with workspace.directory() as directory, _logging_cluster(directory) as cluster:
        _create_topic(cluster)
        workspace.show_stage("filling the partition")
        filled = run_in_child(fill, port=port_of(cluster, cluster.leader(TOPIC)), size_bytes=size_bytes)
        cluster.wait_healthy()
        before = _bytes_on_disk(cluster)
        ports = ports_of(cluster)
        load: dict[str, Any] = {"ports": ports, "topic": TOPIC, "per_s": OFFERED_PER_S, "keys": OFFERED_KEYS}
        workspace.show_stage("quiet")
        quiet = run_in_child(offer, **load, seconds=QUIET_S)
        workspace.show_stage("compaction")
        samples: list[list[float]] = []
        failed, is_done = 0, False
        begin = time.perf_counter()
        end = begin
        _alter_config(cluster, "cleanup.policy", "compact")
        with ThreadPoolExecutor(1) as pool:
            while not is_done:
                offered = pool.submit(run_in_child, offer, **load, seconds=_ROUND_S, with_samples=True)
                while not offered.done():
                    if not is_done and _has_compacted_all(cluster):
                        is_done, end = True, time.perf_counter()
                    time.sleep(_POLL_S)
                result = offered.result()
                failed += result["offered"] - result["succeeded"]
                samples += result["samples"]
                require(time.perf_counter() < begin + _COMPACTED_S_MAX, "it is not compacted in time")
        if failed:
            raise MeasureFailed(f"{failed} writes failed")
        after = _bytes_on_disk(cluster)
        found = run_in_child(read_newest, port=ports[0])
    require(found["keys"] == KEYS + OFFERED_KEYS, f"{found['keys']} keys are left of {KEYS + OFFERED_KEYS}")
    require(found["fell"] == 0, "offsets fall")
    during = sorted(latency for due, latency in samples if due <= end)
    p99_ms = percentile(during, 99) * 1000
    return {
        "compacted_s": end - begin,
        "p99_ratio": p99_ms / quiet["p99_ms"],
        "p99_ms": p99_ms,
        "quiet_p99_ms": quiet["p99_ms"],
        "longest_ms": during[-1] * 1000,
        "before_mib": before / (1 << 20),
        "after_mib": after / (1 << 20),
        "records_before": filled["records"],
        "records_after": found["records"],
    }


MEASURES = (
    Measure(
        "compaction",
        f"three brokers: {MIB / 1024:g} GiB with {KEYS:,} keys compacted under {OFFERED_PER_S} writes/s",
        "`raftlog serve` three times on loopback and one disk, a topic with one partition, three replicas and segments "
        f"of 64 MiB, filled with batches of 1,000 records of 100 bytes, whose {KEYS:,} keys recur. "
        f"While {OFFERED_PER_S} keyed writes a second are offered to all brokers in turn, its `cleanup.policy` becomes "
        "`compact`. It is done when each of the three brokers has compacted its replica; that holds up to a minute "
        "until the leader looks whether there is something to do. No write may fail. Afterwards everything is "
        "read: each key has to be there.",
        (
            Figure("compacted_s", "asked for until the last replica is compacted", "s", at_most=180),
            Figure("p99_ratio", "p99 of the writes meanwhile, of that when quiet", "×", at_most=3),
            Figure("p99_ms", "p99 of the writes meanwhile", "ms"),
            Figure("quiet_p99_ms", "… quiet", "ms"),
            Figure("longest_ms", "longest write", "ms"),
            Figure("after_mib", "bytes of a replica afterwards", "MiB"),
        ),
        run,
    ),
)
