"""Measure of the repair of a corrupt byte in a large partition at its leader, while clients write.

    from log line "replica_quarantined" to log line "replica_repaired" of the broker, by its own clock

A reader finds the byte, so the damaged replica is the leader: it transfers its leadership, gets the batch from another
replica, and reads its other batches."""

import http.client
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.catch_up import fill
from bench.child import run_in_child
from bench.cluster_http import TOPIC, cluster_of_three, create_topic, port_of, ports_of
from bench.measure import Figure, Measure, MeasureFailed, Values, Workspace, require
from bench.open_loop import offer
from bench.read_back import BATCHES_TYPE
from bench.samples import percentile
from bench.service import HOST, REQUEST_S_MAX
from raftlog.records import HEADER_SIZE, read_header
from raftlog.testing import Cluster, ClusterNode

MIB = 1_024
OFFERED_PER_S = 500
FLIPS = 3
QUIET_S = 10.0
_AROUND_S = 2.0
_RECOVERY_S_MAX = 60.0
_POLL_S = 0.02


def _flip_bit(node: ClusterNode, share: float) -> int:
    """Flip a bit in the batch at `share` of the partition's first segment; return the batch's offset."""
    file = sorted((Path(node.data_dir) / TOPIC / "0").glob("*.log"))[0]
    with file.open("r+b", buffering=0) as opened:
        position, target = 0, int(file.stat().st_size * share)
        while True:
            header = read_header(os.pread(opened.fileno(), HEADER_SIZE, position))
            if position + header.size > target and not header.is_control:
                break
            position += header.size
        at = position + header.size - 10
        byte = os.pread(opened.fileno(), 1, at)[0]
        os.pwrite(opened.fileno(), bytes((byte ^ 1,)), at)
    return header.base_offset


def _read(port: int, offset: int) -> None:
    """Read one batch as a client does; any replica that has it must return it."""
    connection = http.client.HTTPConnection(HOST, port, timeout=REQUEST_S_MAX)
    path = f"/topics/{TOPIC}/partitions/0/records?offset={offset}&max_bytes=1&timeout=10000"
    connection.request("GET", path, headers={"Accept": BATCHES_TYPE})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    require(answer.status == 200 and bool(body), f"offset {offset} could not be read: {answer.status} {body[:300]!r}")
    require(read_header(body).base_offset == offset, f"offset {offset} was answered with another batch")


def _time_of_event(node: ClusterNode, words: str, since: int) -> float | None:
    """Return the time of the first log line with these words after position `since`; None without one."""
    for line in node.log_text()[since:].splitlines():
        if words in line:
            return datetime.fromisoformat(json.loads(line)["timestamp"]).timestamp()
    return None


def _damage_and_repair(cluster: Cluster, turn: int) -> tuple[float, float]:
    """Damage the leader's file and read it; return the time of the read and the seconds from detection to repair."""
    number = cluster.leader(TOPIC)
    node = cluster.nodes[number]
    since = len(node.log_text())
    offset = _flip_bit(node, (turn + 1) / (FLIPS + 1))
    begin = time.perf_counter()
    _read(port_of(cluster, number), offset)
    until = begin + _RECOVERY_S_MAX
    while (whole_at := _time_of_event(node, "replica_repaired", since)) is None:
        require(time.perf_counter() < until, f"node {number} is not whole after {_RECOVERY_S_MAX:g} s")
        time.sleep(_POLL_S)
    found_at = _time_of_event(node, "replica_quarantined", since)
    assert found_at is not None, "it was repaired, so it was quarantined"
    return begin, whole_at - found_at


def run(workspace: Workspace) -> Values:
    """Fill the partition, measure its load without faults, and then the same load with repeated flips."""
    size_bytes = workspace.bulk_mib(MIB) << 20
    with workspace.directory() as directory, cluster_of_three(directory) as cluster:
        create_topic(cluster)
        workspace.show_stage("filling the partition")
        run_in_child(fill, port=port_of(cluster, cluster.leader(TOPIC)), size_bytes=size_bytes)
        cluster.wait_healthy()
        ports = ports_of(cluster)
        load: dict[str, Any] = {"ports": ports, "topic": TOPIC, "per_s": OFFERED_PER_S}
        workspace.show_stage("quiet")
        quiet = run_in_child(offer, **load, seconds=QUIET_S)
        rots = []
        samples: list[list[float]] = []
        failed = 0
        for turn in range(FLIPS):
            workspace.show_stage(f"flip {turn + 1} of {FLIPS}")
            with ThreadPoolExecutor(1) as pool:
                offered = pool.submit(run_in_child, offer, **load, seconds=QUIET_S, with_samples=True)
                time.sleep(_AROUND_S)
                rots.append(_damage_and_repair(cluster, turn))
                result = offered.result()
            failed += result["offered"] - result["succeeded"]
            samples += result["samples"]
            cluster.wait_healthy()
        if failed:
            raise MeasureFailed(f"{failed} writes failed")
    during = sorted(
        latency for due, latency in samples if any(begin <= due <= begin + max(1.0, whole) for begin, whole in rots)
    )
    return {
        "whole_s": max(whole for _, whole in rots),
        "longest_ms": max(latency for _, latency in samples) * 1000,
        "p99_ms": percentile(during, 99) * 1000,
        "quiet_p99_ms": quiet["p99_ms"],
        "failed": failed,
        "flips": FLIPS,
    }


MEASURES = (
    Measure(
        "repair",
        f"three brokers: one flipped byte in {MIB / 1024:g} GiB under {OFFERED_PER_S} writes/s",
        "`raftlog serve` three times on loopback and one disk, a topic with one partition and three replicas, filled "
        f"with batches of 1,000 records of 100 bytes. While {OFFERED_PER_S} writes a second are offered to all brokers "
        "in turn, a byte of a batch in the leader's file is flipped, and that batch is read through the leader; "
        f"{FLIPS} times. "
        "The reader has to get the right batch, and no write may fail. Whole again means that the replica has "
        "the batch back, has read all its other bytes, and takes part again.",
        (
            Figure("whole_s", f"found until whole again, longest of {FLIPS}", "s", at_most=10),
            Figure("longest_ms", "longest write, the change of leader included", "ms"),
            Figure("p99_ms", "p99 of the writes until whole again", "ms"),
            Figure("quiet_p99_ms", "… quiet", "ms"),
        ),
        run,
    ),
)
