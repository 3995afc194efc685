"""Measure of a follower's catch-up while clients write: its speed, and its effect on the clients.

    rate = bytes that it lacked ÷ time from its ready line until its files have what the leader had then

The three brokers share one disk and the cores, so the figures are worse than those of brokers on separate machines.
"""

import filecmp
import http.client
import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench import probes
from bench.child import run_in_child
from bench.cluster_http import PATH, TOPIC, cluster_of_three, create_topic, port_of
from bench.measure import Figure, Measure, MeasureFailed, Values, Workspace, require
from bench.open_loop import offer
from bench.read_back import BATCHES_TYPE
from bench.samples import batches, percentile
from bench.service import HOST, REQUEST_S_MAX
from raftlog.testing import Cluster

MIB_BEHIND = 2_048
OFFERED_PER_S = 500
QUIET_S = 15.0
_SLOWEST_MB_PER_S = 40.0
"""Catch-up rate that determines the duration of the offered load."""
_AFTER_S = 5.0
_CAUGHT_UP_S_MAX = 300.0
_BATCHES_A_REQUEST = 8
_DIFFERENT_BATCHES = 64
_FILLERS = 4
_POLL_S = 0.02
_MIB = 1 << 20


def fill(port: int, size_bytes: int) -> dict[str, int]:
    """Write batches of a thousand records until `size_bytes` are acknowledged; in a child process."""
    pool = batches(_DIFFERENT_BATCHES)
    body = b"".join(pool[:_BATCHES_A_REQUEST])
    requests = itertools.count()
    wanted = -(-size_bytes // len(body))

    def write() -> None:
        """Send batches to partition 0 over one connection until `wanted` requests are begun."""
        connection = http.client.HTTPConnection(HOST, port, timeout=REQUEST_S_MAX)
        while (number := next(requests)) < wanted:
            some = [pool[(number + at) % len(pool)] for at in range(_BATCHES_A_REQUEST)]
            path = f"/topics/{TOPIC}/partitions/0"
            connection.request("POST", path, b"".join(some), {"Content-Type": BATCHES_TYPE})
            answer = connection.getresponse()
            answered = answer.read()
            require(answer.status == 200, f"a batch was not taken: {answer.status} {answered[:300]!r}")
        connection.close()

    with ThreadPoolExecutor(_FILLERS) as writers:
        for done in [writers.submit(write) for _ in range(_FILLERS)]:
            done.result()
    return {"bytes": wanted * len(body)}


class MemoryWatch:
    """Thread that records the growth of the resident memory of brokers."""

    def __init__(self, pids: list[int]) -> None:
        self._pids = pids
        self._ends = threading.Event()
        self.grown_mib = 0.0
        self._before = {pid: probes.memory_mib(pid)[0] for pid in pids}
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def _poll(self) -> None:
        """Record the largest growth of the processes' memory, until the observation ends."""
        while not self._ends.wait(_POLL_S * 5):
            for pid in self._pids:
                self.grown_mib = max(self.grown_mib, probes.memory_mib(pid)[0] - self._before[pid])

    def end(self) -> float:
        """Stop, and return the largest growth of one broker, in MiB."""
        self._ends.set()
        self._thread.join()
        return self.grown_mib


def _log_bytes(cluster: Cluster, node: int) -> int:
    """Return the size of the partition's segment files in bytes."""
    return sum(file.stat().st_size for file in _list_segments(cluster, node))


def _list_segments(cluster: Cluster, node: int) -> list[Path]:
    return sorted((Path(cluster.nodes[node].data_dir) / TOPIC / "0").glob("*.log"))


def _catch_up(cluster: Cluster, leader: int, follower: int, workspace: Workspace) -> dict[str, float]:
    """Start the follower and wait until it has the leader's entries of that time; return rate, begin and end."""
    cluster.nodes[follower].start()
    begin = time.perf_counter()
    had, target = _log_bytes(cluster, follower), _log_bytes(cluster, leader)
    until = begin + _CAUGHT_UP_S_MAX
    now = had
    while now < target:
        require(time.perf_counter() < until, f"{target - now} of {target} bytes are missing after {until - begin:g} s")
        time.sleep(_POLL_S)
        now = _log_bytes(cluster, follower)
        workspace.show_stage(f"{(now - had) // _MIB:,} of {(target - had) // _MIB:,} MiB caught up")
    end = time.perf_counter()
    return {
        "begin": begin,
        "end": end,
        "behind_mb": (target - had) / 1e6,
        "mb_per_s": (target - had) / 1e6 / (end - begin),
    }


def _latencies_between(samples: list[list[float]], begin: float, end: float) -> dict[str, float]:
    """Return p50 and p99 of the writes that were due in this period."""
    latencies = sorted(latency for due, latency in samples if begin <= due <= end)
    require(bool(latencies), "nothing was offered while the follower caught up")
    return {"p50_ms": percentile(latencies, 50) * 1000, "p99_ms": percentile(latencies, 99) * 1000}


def _require_same_files(cluster: Cluster) -> None:
    """Wait until all replicas have the same size, stop all brokers, and compare the segments of the partition."""
    until = time.perf_counter() + _CAUGHT_UP_S_MAX
    while len({_log_bytes(cluster, node) for node in cluster.nodes}) > 1:
        require(time.perf_counter() < until, "the replicas did not become equally long")
        time.sleep(_POLL_S)
    for node in cluster.nodes.values():
        node.kill()
    first, *others = ([*_list_segments(cluster, node)] for node in cluster.nodes)
    for other in others:
        names = [file.name for file in first]
        require(names == [file.name for file in other], "the replicas have different segments")
        _, different, unread = filecmp.cmpfiles(first[0].parent, other[0].parent, names, shallow=False)
        require(not different and not unread, f"the replicas differ in {different + unread}")


def run(workspace: Workspace) -> Values:
    """Measure while the follower is quiet, is behind, and catches up, under the same load."""
    size_bytes = workspace.bulk_mib(MIB_BEHIND) * _MIB
    with workspace.directory() as directory, cluster_of_three(directory) as cluster:
        create_topic(cluster)
        leader = cluster.leader(TOPIC)
        port = port_of(cluster, leader)
        load: dict[str, Any] = {"ports": [port], "topic": TOPIC, "per_s": OFFERED_PER_S}
        workspace.show_stage("quiet")
        quiet = run_in_child(offer, **load, seconds=QUIET_S)
        follower = next(node for node in cluster.nodes if node != leader)
        cluster.nodes[follower].kill()
        workspace.show_stage("writing what the follower shall lack")
        run_in_child(fill, port=port, size_bytes=size_bytes)
        offered_s = size_bytes / 1e6 / _SLOWEST_MB_PER_S + _AFTER_S
        watch = MemoryWatch([node.pid for number, node in cluster.nodes.items() if number != follower])
        with ThreadPoolExecutor(1) as pool:
            offered = pool.submit(run_in_child, offer, **load, seconds=offered_s, with_samples=True)
            caught_up = _catch_up(cluster, leader, follower, workspace)
            workspace.show_stage("waiting for the end of the load")
            samples = offered.result()
        grown_mib = watch.end()
        if samples["succeeded"] < samples["offered"]:
            raise MeasureFailed(f"{samples['offered'] - samples['succeeded']} writes failed")
        require(cluster.leader(TOPIC) == leader, "the leader changed")
        during = _latencies_between(samples.pop("samples"), caught_up["begin"], caught_up["end"])
        workspace.show_stage("comparing the files")
        _require_same_files(cluster)
    return {
        "mb_per_s": caught_up["mb_per_s"],
        "behind_mb": caught_up["behind_mb"],
        "seconds": caught_up["end"] - caught_up["begin"],
        "p99_ratio": during["p99_ms"] / quiet["p99_ms"],
        "p99_ms": during["p99_ms"],
        "quiet_p99_ms": quiet["p99_ms"],
        "p50_ms": during["p50_ms"],
        "quiet_p50_ms": quiet["p50_ms"],
        "grown_mib": grown_mib,
    }


MEASURES = (
    Measure(
        "catch-up",
        f"three brokers: a follower {MIB_BEHIND / 1024:g} GiB behind under {OFFERED_PER_S} writes/s",
        "`raftlog serve` three times on loopback and one disk, a topic with one partition and three replicas. "
        f"{OFFERED_PER_S} POST {PATH} a second, one record of 100 characters each, are offered to the leader for "
        f"{QUIET_S:g} s. Then a follower is killed, batches of 1,000 records of 100 bytes are written, and it is "
        "started again while the same load is offered. The rate counts from its ready line until its files are as "
        "long as the leader's were then; latencies are those of writes that were due meanwhile. No write may fail and "
        "the leader must not change. At the end the segment files of all three have to be the "
        "same, byte for byte.",
        (
            Figure("mb_per_s", "catch-up", "MB/s", at_least=80),
            Figure("p99_ratio", "p99 of the writes meanwhile ÷ quiet", "×", at_most=3),
            Figure("p99_ms", "… p99", "ms"),
            Figure("quiet_p99_ms", "… quiet", "ms"),
            Figure("p50_ms", "p50 of the writes meanwhile", "ms"),
            Figure("quiet_p50_ms", "… quiet", "ms"),
            Figure("grown_mib", "memory of the leader and the other follower, grown by", "MiB", at_most=64),
        ),
        run,
    ),
)
